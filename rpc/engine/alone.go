package engine

import (
	"encoding/json"
	"slices"
	"time"

	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/tools"
)

// FilesChanged has the loop look at the views now: somebody has changed one.
func (e *Engine) FilesChanged() {
	e.do(func() { e.takeInEdits() })
}

// Looks says whether a call only reads.
func Looks(tool string, arguments json.RawMessage) bool {
	if tool == tools.Restore {
		args, err := tools.ParseRestore(arguments)
		return err != nil || !args.Apply
	}
	spec := tools.Find(tool)
	return spec != nil && spec.ReadOnly
}

// Look answers a call that only reads out of what the files hold, without opening anything.
func Look(o Options, seen *recovery.Seen, tool string, arguments json.RawMessage) tools.Reply {
	t := toolCalls[tool]
	o.Wall = time.Now
	e := &Engine{o: o, due: newDueQueue(0), again: newDueQueue(0), shown: seen.State()}
	switch {
	case t.read != nil:
		t.call = (*Engine).historyOfFiles
	case t.parse != nil:
		t.call = func(e *Engine, arguments json.RawMessage) reply { return t.parse(e, arguments)() }
	}
	return e.read(t, arguments, seen.Notes(t.shows.config, t.shows.reminders)...)
}

// read answers a tool that only reads out of a state that is read-only.
func (e *Engine) read(t toolCall, arguments json.RawMessage, notes ...string) tools.Reply {
	r := t.call(e, arguments)
	if r.document != nil {
		return documented(r, nil)
	}
	return finish(r, append(slices.Clone(r.notes), notes...), nil, true)
}
