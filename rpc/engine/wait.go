package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/projection/rawjson"
	"heartbeat-mcpl/rpc/text"
	"heartbeat-mcpl/rpc/tools"
	"heartbeat-mcpl/rpc/wire"
)

// readAfter is how long after its reply was written the wakes of a waiting call count as taken, if nothing came from the client before
// (SPEC 14.2).
const readAfter = 10 * time.Second

// wait is a call that waits for a wake.
type wait struct {
	session *Session
	kinds   []string // empty: all
	until   time.Time
	key     string // of the call
	cancel  string // by which it is called off
	answer  func(tools.Reply)
	notes   []string
	got     []carried
}

// carried is a wake that a waiting call brings.
type carried struct {
	Offer
	content
}

// handed is a wake that a waiting call brought, and of which nobody knows yet whether it was read.
type handed struct {
	Offer
	at time.Time
}

// waitFor is the call of the session that waits for a kind of wake; nil: there is none.
func (s *Session) waitFor(kind string) *wait {
	i := slices.IndexFunc(s.waits, func(w *wait) bool { return len(w.kinds) == 0 || slices.Contains(w.kinds, kind) })
	if i < 0 {
		return nil
	}
	return s.waits[i]
}

// wait begins a call of wait_for_wake (SPEC 14.2). It is answered when a wake is there, or its time is over.
func (e *Engine) wait(s *Session, c Call, answer func(tools.Reply)) bool {
	args, notes, err := tools.ParseWait(c.Arguments, c.Patient)
	if err != nil {
		answer(tools.Reply{Text: err.Error(), IsError: true})
		return true
	}
	if s == nil {
		answer(tools.Reply{Text: "wait_for_wake is for sessions; in the shell use: heartbeat-mcpl wait", IsError: true})
		return true
	}
	return e.do(func() {
		e.speaks(s)
		s.waits = append(s.waits, &wait{
			session: s, kinds: args.Kinds, until: time.Now().Add(time.Duration(args.MaxMs) * time.Millisecond), key: c.Key, cancel: c.Cancel, answer: answer, notes: notes,
		})
		e.beat.stuck = false
		e.retryNow()
	})
}

// CancelWait calls a waiting call off: it is not answered, and takes nothing.
func (s *Session) CancelWait(cancel string) {
	s.e.do(func() {
		s.waits = slices.DeleteFunc(s.waits, func(w *wait) bool { return w.cancel == cancel })
	})
}

// handOver starts the program for what this turn brought it, answers the waiting calls that got something or whose time is over, and
// settles what earlier ones brought.
func (e *Engine) handOver() {
	if e.program != nil {
		e.program.start()
	}
	now := time.Now()
	for _, s := range e.sessions {
		s.waits = slices.DeleteFunc(s.waits, func(w *wait) bool {
			if len(w.got) == 0 && now.Before(w.until) {
				return false
			}
			for _, c := range w.got {
				s.handed = append(s.handed, handed{c.Offer, now})
			}
			w.answer(e.waited(w))
			return true
		})
		if len(s.handed) > 0 && now.Sub(s.handed[0].at) >= readAfter && s.host.Backlog() == 0 {
			e.next = append(e.next, func() { e.settle(s, now.Add(-readAfter)) })
		}
	}
}

// settle counts what a session's waiting calls brought up to then as taken.
func (e *Engine) settle(s *Session, upTo time.Time) {
	all := s.handed
	s.handed = nil
	for _, h := range all {
		if h.at.After(upTo) {
			s.handed = append(s.handed, h)
			continue
		}
		e.outcome(s, h.Offer, wire.Answer{Result: json.RawMessage(`{}`)})
	}
}

// untilWaits is how long the loop may sleep for the sake of waiting calls.
func (e *Engine) untilWaits() time.Duration {
	least := tick
	for _, s := range e.sessions {
		for _, w := range s.waits {
			least = min(least, max(0, time.Until(w.until)))
		}
	}
	return least
}

// waited is the reply to a waiting call.
func (e *Engine) waited(w *wait) tools.Reply {
	now := e.now()
	data := rawjson.Object{}.PutText("now", text.Agent(now, e.o.Zone))
	if len(w.got) == 0 {
		said := "No wake came. "
		next, what := e.nextWake(w.kinds)
		if next > 0 {
			said += fmt.Sprintf("The next one is due in %s (%s).", text.Length(max(0, next-now)/1000*1000), what)
			data = data.Put("nextInSeconds", max(0, next-now)/1000)
		} else {
			said += "None is set."
		}
		return finish(reply{text: said + " Call wait_for_wake again to go on waiting.", data: data.Put("wakes", []rawjson.Object{}), notes: w.notes}, w.notes, nil, true)
	}
	texts, wakes := []string{}, []rawjson.Object{}
	for _, c := range w.got {
		said := c.text
		one := rawjson.Object{}.PutText("eventId", c.EventID).PutText("kind", c.kind).PutText("text", said)
		if c.Reminder != "" {
			one = one.PutText("reminderId", c.Reminder)
		}
		if c.Message != nil {
			one = one.PutText("messageId", c.Message.ID)
		}
		if c.Due > 0 {
			one = one.PutText("due", text.Agent(c.Due, e.o.Zone))
		}
		texts, wakes = append(texts, said), append(wakes, one)
	}
	return finish(reply{text: strings.Join(texts, "\n\n"), data: data.Put("wakes", wakes), notes: w.notes}, w.notes, nil, true)
}

// nextWake is when the next wake of some kinds (none: all) is due, and what it is; 0: nothing is set.
func (e *Engine) nextWake(kinds []string) (at int64, what string) {
	wanted := func(kind string) bool { return len(kinds) == 0 || slices.Contains(kinds, kind) }
	if due, active := e.nextBeat(); active && wanted(kindHeartbeat) {
		at, what = due, "the heartbeat"
	}
	if wanted(kindReminder) {
		e.state().Soonest(nil, func(r *projection.Reminder) bool {
			if at == 0 || r.FireAt < at {
				at, what = r.FireAt, "a reminder"
			}
			return false
		})
	}
	return at, what
}
