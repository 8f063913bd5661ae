package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"heartbeat-mcpl/rpc/attach"
	"heartbeat-mcpl/rpc/engine"
	"heartbeat-mcpl/rpc/text"
)

func (c *ctl) newSessions() *cobra.Command {
	return &cobra.Command{
		Use: "sessions", Short: "Show the sessions on the journal, and which wakes each can take", Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return c.sessions() },
	}
}

// sessions shows who is connected to the holder of the journal (SPEC 13.3).
func (c *ctl) sessions() error {
	c.fromEnvironment()
	if err := c.check(); err != nil {
		return err
	}
	all, err := attach.Sessions(c.journalDir)
	if errors.Is(err, attach.ErrNoServer) {
		all, err = nil, nil
	}
	if err != nil {
		return err
	}
	if c.json {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"sessions": append([]engine.SessionInfo{}, all...)})
	}
	if len(all) == 0 {
		_, err := fmt.Println("No session is open.")
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 2, 0, 2, ' ', 0)
	fmt.Fprintln(w, "client\tprocess\topen for\tlast call\twakes\tsession")
	for _, s := range all {
		wakes := s.Takes
		if wakes == "" {
			wakes = "none: " + s.Blocked
		}
		process := fmt.Sprint(s.PID)
		if s.Holder {
			process += " (holds the journal)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s ago\t%s\t%s\n", text.Safe(short(orDash(s.Client), 40)), process, ago(s.SinceMs), ago(s.CalledMs), wakes, text.Safe(s.Name))
	}
	return w.Flush()
}

func ago(ms int64) string { return text.About(max(0, time.Now().UnixMilli()-ms)) }
