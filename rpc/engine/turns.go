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
func (s *Session) Lifecycle(params json.RawMessage) {
	var p struct {
		InferenceID string `json:"inferenceId"`
		Phase       string `json:"phase"`
	}
	if err := json.Unmarshal(params, &p); err != nil || p.InferenceID == "" || p.Phase == "" {
		s.e.o.Log.Info("an inference/lifecycle notification without an inferenceId or a phase is ignored")
		return
	}
	s.e.do(func() {
		if !s.policy.Idle() {
			return
		}
		if p.Phase == "started" {
			s.turnBegan(p.InferenceID, true)
			return
		}
		s.turnEnded(p.InferenceID) // completed, aborted, failed, and whatever else is no beginning
	})
}

// turnBegan holds wakes until the turn's end. A push that was taken tells the turn that it begins, before the host does.
func (s *Session) turnBegan(id string, told bool) {
	if _, over := s.turns.ended[id]; over || !s.policy.Idle() {
		return
	}
	if s.turns.running == nil {
		s.turns.running = map[string]turn{}
	}
	t, runs := s.turns.running[id]
	if !runs {
		t.since = time.Now()
	}
	t.told = t.told || told
	s.turns.running[id] = t
}

func (s *Session) turnEnded(id string) {
	delete(s.turns.running, id)
	if s.turns.ended == nil || len(s.turns.ended) >= mostEnded {
		s.turns.ended = map[string]struct{}{}
	}
	s.turns.ended[id] = struct{}{}
}

// expireTurns ends turns whose end was never told.
func (s *Session) expireTurns() {
	for id, t := range s.turns.running {
		if !t.told && time.Since(t.since) >= turnSoon {
			delete(s.turns.running, id)
		}
		if time.Since(t.since) >= turnLimit {
			s.e.o.Log.Warn("the host never told the end of a turn: wakes are held no longer", "inference", id)
			s.turnEnded(id)
		}
	}
}

// busy says whether wakes are held: a turn runs, or a push is out that may begin one. Between turns they go out one by one.
func (s *Session) busy() bool {
	return s.policy.Idle() && (len(s.turns.running) > 0 || s.e.out[s] > 0)
}
