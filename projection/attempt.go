package projection

import (
	"hash/fnv"
	"strconv"
	"time"

	"heartbeat-mcpl/journal"
)

// Outcome says how the last attempt to deliver a wake went.
type Outcome uint8

// The outcomes. A Pending attempt whose server is gone was never answered, so it counts as NoAnswer at the next start.
const (
	Pending  Outcome = 1 // offered (or about to be), no answer yet
	Refused  Outcome = 2 // the host said no
	NoAnswer Outcome = 3 // nobody knows: the same event id goes out again (SPEC 6.6)
)

// Attempt is the last try to deliver a wake that was not taken yet: a reminder's current occurrence, a message, or the heartbeat. It is
// never changed.
type Attempt struct {
	EventID string  `msgpack:"e"`
	At      int64   `msgpack:"a"` // when it was offered, or refused: Unix milliseconds
	Sent    int     `msgpack:"s"` // how often this event id was offered
	Outcome Outcome `msgpack:"o"`
	Code    int64   `msgpack:"c,omitempty"`
	Reason  string  `msgpack:"r,omitempty"`
	Failed  int     `msgpack:"n,omitempty"`  // how many tries in a row were not taken; an older version did not count them
	To      string  `msgpack:"to,omitempty"` // the session that it was offered to

	// While it is Pending, Reason is of the try before it: what came of that one, and when.
	Before   Outcome `msgpack:"b,omitempty"`
	BeforeAt int64   `msgpack:"t,omitempty"`
}

// LastFailure is the last try that was not taken: what came of it, when, and why. While the answer to one is awaited that is the one
// before it; 0: there was none.
func (a *Attempt) LastFailure() (how Outcome, at int64, reason string) {
	switch {
	case a == nil:
		return 0, 0, ""
	case a.Outcome == Pending:
		return a.Before, a.BeforeAt, a.Reason
	}
	return a.Outcome, a.At, a.Reason
}

// Again says whether the next try is the same event: nobody knows what became of the last one (SPEC 6.6).
func (a *Attempt) Again() bool { return a != nil && a.Outcome != Refused }

// pauses are those between tries; the last one repeats (SPEC 6.5).
var pauses = []time.Duration{
	30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
}

// NextTry is when a wake whose last try was not taken is tried again if nothing suggests before that it may work now, in Unix
// milliseconds. Each pause is up to a tenth longer, so that many do not go out at one moment: by a chance that follows from the
// event id, and is the same after a restart (SPEC 6.5).
func (a *Attempt) NextTry() int64 {
	pause := pauses[min(max(a.Failed, 1), len(pauses))-1].Milliseconds()
	h := fnv.New32a()
	_, _ = h.Write([]byte(a.EventID + "/" + strconv.Itoa(a.Failed))) // a hash takes everything
	return a.At + pause + int64(h.Sum32())%(pause/10+1)
}

// same says whether both are the same try with the same outcome. What is known of the one before it is not in older snapshots.
func (a *Attempt) same(o *Attempt) bool {
	if a == nil || o == nil {
		return a == o
	}
	x, y := *a, *o
	for _, one := range []*Attempt{&x, &y} {
		if one.Outcome == Pending {
			one.Before, one.BeforeAt, one.Reason = 0, 0, ""
		}
	}
	return x == y
}

// next is the try that follows a, the first one where that is nil.
func (a *Attempt) next(eventID, to string, now int64) *Attempt {
	next := &Attempt{EventID: eventID, At: now, Sent: 1, Outcome: Pending, To: to}
	if a == nil {
		return next
	}
	if a.EventID == eventID {
		next.Sent = a.Sent + 1
	}
	next.Failed = a.Failed
	if a.Outcome == Pending { // its server ended before it could be answered
		next.Failed++
	}
	next.Before, next.BeforeAt, next.Reason = a.LastFailure()
	return next
}

// refused is what became of a, if it is that try that was refused.
func (a *Attempt) refused(b *journal.Refuse, now int64) *Attempt {
	if a == nil || a.EventID != b.EventID {
		return a
	}
	refused := *a
	refused.At, refused.Outcome, refused.Code, refused.Reason = now, Refused, b.Code, b.Reason
	refused.Before, refused.BeforeAt = 0, 0
	if b.NoAnswer {
		refused.Outcome = NoAnswer
	}
	if a.Outcome == Pending { // a late word about the same try counts once
		refused.Failed++
	}
	return &refused
}

// Beat is how the heartbeat stands.
type Beat struct {
	Attempt *Attempt `msgpack:"at,omitempty"` // of the one that fell due last; nil: it was taken, or none was sent
	Due     int64    `msgpack:"du,omitempty"` // when that one fell due
	Silent  bool     `msgpack:"si,omitempty"` // it was sent without text
	Missed  int      `msgpack:"n,omitempty"`  // how many did not reach the agent since the last that did (SPEC 6.2a)
	Since   int64    `msgpack:"s,omitempty"`  // when the first of them fell due
	Why     string   `msgpack:"w,omitempty"`  // the last did not
}

func (b *Beat) same(o *Beat) bool {
	x, y := *b, *o
	x.Attempt, y.Attempt = nil, nil
	return x == y && b.Attempt.same(o.Attempt)
}

// miss counts a heartbeat that did not reach the agent.
func (b *Beat) miss(due int64, why string) {
	if b.Missed++; b.Missed == 1 {
		b.Since = due
	}
	b.Why = why
}

// fired is a heartbeat on its way, by hand or by the clock. A new one takes the place of one that was not taken.
func (b *Beat) fired(f *journal.Fire, now int64) {
	switch {
	case f.Manual:
		return
	case f.Fallback || f.Retry:
		b.Attempt = b.Attempt.next(f.EventID, f.To, now)
	default:
		if b.Attempt != nil {
			_, _, why := b.Attempt.LastFailure()
			if why == "" {
				why = "it was not answered"
			}
			b.miss(b.Due, why)
		}
		b.Attempt = (*Attempt)(nil).next(f.EventID, f.To, now)
	}
	b.Due, b.Silent = f.Due, f.Silent
}
