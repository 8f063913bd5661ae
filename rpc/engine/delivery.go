package engine

import (
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/wire"
)

// deliverer is a way in which wakes reach an agent (SPEC 14): a session, or the command. What came of an offer is told to
// [Engine.outcome], whichever way it went.
type deliverer interface {
	// String is what the journal calls it.
	String() string
	// takes says whether it can take a wake now, or may be able to later without anybody's doing.
	takes(w *wake) (now, later bool)
	// deliver hands a wake over; its fire event is on disk.
	deliver(o Offer, c content)
}

// Kinds of wakes.
const (
	kindHeartbeat = "heartbeat"
	kindReminder  = "reminder"
	kindMessage   = "message"
)

// content is what a delivery hands over.
type content struct {
	kind         string
	text         string // as the agent reads it
	params       pushParams
	conversation string // that asked for it, as its host calls it; empty: nobody knows
	title        string
	severity     string
	url          string
}

// flight is an offer without an outcome yet.
type flight struct {
	Offer
	by deliverer
}

// route is the delivery that a wake goes to now: the session that it belongs to, else the one that called last, of those that can take
// it and did not turn it down in this round; where no session could, the command (SPEC 13.4, 14). nil and true: one may be able to later.
func (e *Engine) route(w *wake) (best deliverer, later bool) {
	var last *Session
	for _, s := range e.sessions {
		if e.tried[w.key][s] {
			continue
		}
		now, soon := s.takes(w)
		later = later || now || soon
		switch {
		case !now:
		case s.name == w.owner:
			return s, true
		case last == nil || s.turn > last.turn:
			last = s
		}
	}
	if a := w.attempt; a != nil && a.Outcome == projection.Pending && time.Now().Before(e.resting) && !e.connected(a.To) {
		return nil, true // whom it was offered to may be back in a moment, with the outcome
	}
	if last != nil {
		return last, true
	}
	if p := e.program; !later && p != nil && !e.tried[w.key][p] {
		now, soon := p.takes(w)
		if now {
			return p, true
		}
		later = soon
	}
	return nil, later
}

// send records that an offer leaves, and has it leave once that is on disk (SPEC 6.6). last is the try before it, nil for none.
func (e *Engine) send(d deliverer, o Offer, last *projection.Attempt, leaves journal.Body, c content) {
	if last != nil {
		delete(e.soon, last.EventID)
	}
	e.offered++
	o.Seq = e.offered
	e.takeOff(d, o)
	e.record(leaves)
	e.then(func(error) { d.deliver(o, c) })
}

// failed says that an offer could not leave.
func (e *Engine) failed(d deliverer, o Offer) {
	e.next = append(e.next, func() { e.outcome(d, o, wire.Answer{NoAnswer: true}) })
}

// takeOff has an offer be without an outcome.
func (e *Engine) takeOff(d deliverer, o Offer) {
	e.flights[o.EventID] = &flight{o, d}
	e.out[d]++
}

// land ends an offer's being without an outcome. False: it was not, or another under its event id is.
func (e *Engine) land(o Offer) bool {
	f := e.flights[o.EventID]
	if f == nil || f.Seq != o.Seq {
		return false
	}
	delete(e.flights, o.EventID)
	if e.out[f.by]--; e.out[f.by] == 0 {
		delete(e.out, f.by)
	}
	return true
}

// turnDown notes that a delivery did not take a wake in this round.
func (e *Engine) turnDown(key string, d deliverer) {
	if e.tried[key] == nil {
		e.tried[key] = map[deliverer]bool{}
	}
	e.tried[key][d] = true
}

// conversationOf is the conversation that a wake belongs to, as its host calls it: the one that asked for it, else the one that called
// last.
func (e *Engine) conversationOf(asked string) string {
	if asked != "" {
		return asked
	}
	for _, s := range e.bySpoken() {
		if s.conversation != "" {
			return s.conversation
		}
	}
	return ""
}
