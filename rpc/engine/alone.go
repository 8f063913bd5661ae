package engine

import (
	"encoding/json"
	"time"

	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/tools"
)

// FilesChanged has the loop look at the views now: somebody has changed one.
func (e *Engine) FilesChanged() {
	e.do(func() {
		if e.store != nil {
			e.store.TakeInEdits(e.now())
			e.takenIn()
		}
	})
}

// Look answers a tool that only reads out of a state, without opening anything. False: the tool does more.
func Look(o Options, state *projection.State, tool string, arguments json.RawMessage) (tools.Reply, bool) {
	t := toolCalls[tool]
	if spec := tools.Find(tool); spec == nil || !spec.ReadOnly || t.call == nil {
		return tools.Reply{}, false
	}
	o.Wall = time.Now
	r := t.call(&Engine{o: o, due: newDueQueue(), peeked: state}, arguments)
	if r.document != nil {
		return documented(r, nil), true
	}
	return finish(r, r.notes, nil, true), true
}
