package engine

import (
	"encoding/json"
	"time"
)

const (
	turnSoon  = 5 * time.Second  // a turn that a push is said to have begun, and whose beginning the host does not tell, is none after that
	turnLimit = 10 * time.Minute // a turn whose end is never told counts as ended then (SPEC 11.3)
	mostEnded = 1000             // ended turns that are remembered, so that what is told late or twice changes nothing
)

// turns are those that run on the host, as far as it tells: a host tells each beginning, and one end on every way out that
// it controls, best effort, without an order (MCPL 0.5, section 10.5).
type turns struct {
	running map[string]turn
	ended   map[string]struct{}
}

// turn is one that runs.
type turn struct {
	since time.Time
	told  bool // the host told its beginning; else only a push's answer did
}

// Lifecycle takes an inference/lifecycle notification.
func (e *Engine) Lifecycle(params json.RawMessage) {
	var p struct {
		InferenceID string `json:"inferenceId"`
		Phase       string `json:"phase"`
	}
	if err := json.Unmarshal(params, &p); err != nil || p.InferenceID == "" || p.Phase == "" {
		e.o.Log.Info("an inference/lifecycle notification without an inferenceId or a phase is ignored")
		return
	}
	e.do(func() {
		if !e.policy.Idle() {
			return
		}
		if p.Phase == "started" {
			e.turnBegan(p.InferenceID, true)
			return
		}
		e.turnEnded(p.InferenceID) // completed, aborted, failed, and whatever else is no beginning
	})
}

// turnBegan holds wakes until the turn's end. A push that was taken tells the turn that it begins, before the host does.
func (e *Engine) turnBegan(id string, told bool) {
	if _, over := e.turns.ended[id]; over || !e.policy.Idle() {
		return
	}
	if e.turns.running == nil {
		e.turns.running = map[string]turn{}
	}
	t, runs := e.turns.running[id]
	if !runs {
		t.since = time.Now()
	}
	t.told = t.told || told
	e.turns.running[id] = t
}

func (e *Engine) turnEnded(id string) {
	delete(e.turns.running, id)
	if e.turns.ended == nil || len(e.turns.ended) >= mostEnded {
		e.turns.ended = map[string]struct{}{}
	}
	e.turns.ended[id] = struct{}{}
}

// expireTurns ends turns whose end was never told.
func (e *Engine) expireTurns() {
	for id, t := range e.turns.running {
		if !t.told && time.Since(t.since) >= turnSoon {
			delete(e.turns.running, id)
		}
		if time.Since(t.since) >= turnLimit {
			e.o.Log.Warn("the host never told the end of a turn: wakes are held no longer", "inference", id)
			e.turnEnded(id)
		}
	}
}

// busy says whether wakes are held: a turn runs, or a push is out that may begin one. Between turns they go out one by one.
func (e *Engine) busy() bool {
	return e.policy.Idle() && (len(e.turns.running) > 0 || len(e.flights) > 0)
}
