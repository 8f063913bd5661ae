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
	e.do(func() {
		if e.store != nil {
			e.takeInEdits()
		}
	})
}

// Look answers a tool that only reads out of what the files hold, without opening anything. False: the tool does more.
func Look(o Options, seen *recovery.Seen, tool string, arguments json.RawMessage) (tools.Reply, bool) {
	t := toolCalls[tool]
	o.Wall = time.Now
	e := &Engine{o: o, due: newDueQueue(0), peeked: seen.State()}
	notes := seen.Notes(t.shows.config, t.shows.reminders)
	spec := tools.Find(tool)
	switch {
	case tool == tools.Restore:
		r, only := e.previewRestore(arguments)
		return finish(r, append(slices.Clone(r.notes), notes...), nil, true), only
	case spec == nil || !spec.ReadOnly:
		return tools.Reply{}, false
	case tool == "wake_history":
		r := e.historyOfFiles(arguments)
		return finish(r, append(slices.Clone(r.notes), notes...), nil, true), true
	case t.call == nil:
		return tools.Reply{}, false
	}
	return e.read(t, arguments, notes...), true
}

// read answers a tool that only reads out of the state that was peeked at.
func (e *Engine) read(t toolCall, arguments json.RawMessage, notes ...string) tools.Reply {
	r := t.call(e, arguments)
	if r.document != nil {
		return documented(r, nil)
	}
	return finish(r, append(slices.Clone(r.notes), notes...), nil, true)
}
