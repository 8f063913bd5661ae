package engine

import (
	"encoding/json"
	"slices"
	"time"

	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/tools"
)

// FilesChanged has the loop look at the views now: somebody has changed one.
func (e *Engine) FilesChanged() {
	e.do(func() { e.takeInEdits() })
}

// Look answers a tool that only reads out of a state, without opening anything. False: the tool does more.
func Look(o Options, state *projection.State, tool string, arguments json.RawMessage) (tools.Reply, bool) {
	t := toolCalls[tool]
	if spec := tools.Find(tool); spec == nil || !spec.ReadOnly || t.call == nil {
		return tools.Reply{}, false
	}
	o.Wall = time.Now
	return (&Engine{o: o, due: newDueQueue(0), shown: state}).read(t, arguments), true
}

// read answers a tool that only reads out of the state that was peeked at.
func (e *Engine) read(t toolCall, arguments json.RawMessage, notes ...string) tools.Reply {
	r := t.call(e, arguments)
	if r.document != nil {
		return documented(r, nil)
	}
	return finish(r, append(slices.Clone(r.notes), notes...), nil, true)
}
