package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/engine"
	"heartbeat-mcpl/rpc/tools"
)

// look answers what only looks where no server runs, and leaves no trace (SPEC 2.8). False: the tool does more.
func (c *ctl) look(o engine.Options, tool string, arguments json.RawMessage, log *slog.Logger) (tools.Reply, bool, error) {
	if missing(c.journalDir) && missing(c.configFile) && missing(c.remindersFile) {
		if tool == "wake_history" { // it reads the journal itself
			return tools.Reply{}, false, notThere(fs.ErrNotExist, c.journalDir)
		}
		log.Warn(fmt.Sprintf("no server has run on %s yet: these are not the files of one that runs elsewhere (name its config file with --config-file)", c.journalDir))
	}
	if !engine.Looks(tool, arguments) {
		return tools.Reply{}, false, nil
	}
	seen, err := recovery.Look(o.Store)
	if err != nil {
		return tools.Reply{}, false, err
	}
	return engine.Look(o, seen, tool, arguments), true, nil
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
