package projection

import (
	"hash/fnv"
	"strconv"
	"time"

	"heartbeat-mcpl/journal"
)

// The one rule for what the host did not take, whatever woke (SPEC 6.5, 6.5a, 6.6, 12.5):
//
//	             Fire                    Refuse
//	(nothing) ──────────> Pending ─────────────────────> Refused    a fresh event id goes out next
//	                       ^   │ no answer, or a crash
//	                       │   └───────────────────────> NoAnswer   the same event id goes out next
//	                       └── [Attempt.RetryAt], or at once where something suggests that it may work now
//
// The fold counts the tries that failed in a row, so that a restart neither forgets nor repeats them.

// Outcome says how an attempt to push a wake went.
type Outcome uint8

// The outcomes. A Pending attempt whose server is gone was never answered, so it counts as NoAnswer at the next start.
const (
	Pending  Outcome = 1 // pushed (or about to be), no answer yet
	Refused  Outcome = 2 // the host said no
	NoAnswer Outcome = 3 // nobody knows: the same event id goes out again (SPEC 6.6)
)

// Attempt is the last push of a reminder's current occurrence, of a heartbeat, or for a message. It is never changed.
type Attempt struct {
	EventID string  `msgpack:"e"`
	At      int64   `msgpack:"a"` // when it was pushed, or refused: Unix milliseconds
	Sent    int     `msgpack:"s"` // how often this event id was pushed
	Outcome Outcome `msgpack:"o"`
	Code    int64   `msgpack:"c,omitempty"`
	Reason  string  `msgpack:"r,omitempty"`

	// While it is Pending, Reason is of the push before it: what came of that one, and when.
	Before   Outcome `msgpack:"b,omitempty"`
	BeforeAt int64   `msgpack:"t,omitempty"`

	Count  int    `msgpack:"n,omitempty"`  // see [Attempt.Tries]
	To     string `msgpack:"to,omitempty"` // the delivery that it was handed to, as the journal calls it; empty: of an older version
	Waited int    `msgpack:"p,omitempty"`  // pauses in a row that passed before a try: one that came sooner, for another reason, makes the next pause no longer
}

// Tries is how many pushes in a row were not taken, under whatever event ids.
func (a *Attempt) Tries() int {
	if how, _, _ := a.Failed(); how != 0 {
		return max(1, a.Count) // an older version did not count
	}
	if a == nil {
		return 0
	}
	return a.Count
}

// Failed is the last push that was not taken: what came of it, when, and why. While the answer to one is awaited that is the one
// before it; 0: there was none.
func (a *Attempt) Failed() (how Outcome, at int64, reason string) {
	switch {
	case a == nil:
		return 0, 0, ""
	case a.Outcome == Pending:
		return a.Before, a.BeforeAt, a.Reason
	}
	return a.Outcome, a.At, a.Reason
}

// pauses are how long it takes until the next try comes by itself, the first time, the second time ... in a row; after the last of them
// always as long (SPEC 6.5).
var pauses = [...]time.Duration{
	30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
}

// RetryAt is when the next try comes by itself after a, which was not taken. Each pause is up to a tenth longer, by chance: many
// that were refused at once do not come again at once. The chance is drawn from the event id, so that a restart comes to the same time.
func (a *Attempt) RetryAt() int64 {
	pause := pauses[min(a.Waited, len(pauses)-1)].Milliseconds()
	draw := fnv.New64a()
	_, _ = draw.Write(strconv.AppendInt([]byte(a.EventID), int64(a.Count), 10)) // it never fails
	return a.At + pause + int64(draw.Sum64()%uint64(pause/10+1))
}

// RetryAt is when a reminder whose push was not taken comes again by itself: a recurring one at its next slot at the latest
// (SPEC 6.5).
func (r *Reminder) RetryAt() int64 {
	at := r.Attempt.RetryAt()
	if slot := r.next(r.Attempt.At); slot > 0 {
		return min(at, slot)
	}
	return at
}

// same says whether both are the same push with the same outcome. What is known of the pushes before it is not in older snapshots.
func (a *Attempt) same(o *Attempt) bool {
	if a == nil || o == nil {
		return a == o
	}
	x, y := *a, *o
	for _, one := range []*Attempt{&x, &y} {
		one.Count, one.Waited, one.To = 0, 0, ""
		if one.Outcome == Pending {
			one.Before, one.BeforeAt, one.Reason = 0, 0, ""
		}
	}
	return x == y
}

// next is the push that follows a, the first one where that is nil.
func (a *Attempt) next(eventID, to string, now int64) *Attempt {
	next := &Attempt{EventID: eventID, To: to, At: now, Sent: 1, Outcome: Pending, Count: a.Tries()}
	switch {
	case a == nil:
		return next
	case a.Outcome == Pending: // its server is gone: it was not answered
		next.Count++
		next.Waited = a.Waited
	case now >= a.RetryAt():
		next.Waited = a.Waited + 1
	default:
		next.Waited = a.Waited
	}
	if a.EventID == eventID {
		next.Sent = a.Sent + 1
	}
	next.Before, next.BeforeAt, next.Reason = a.Failed()
	return next
}

// refused is what became of a, if it is that push that was refused.
func (a *Attempt) refused(b *journal.Refuse, now int64) *Attempt {
	if a == nil || a.EventID != b.EventID {
		return a
	}
	refused := *a
	if a.Outcome == Pending { // else it is a late answer to a try that counts already
		refused.Count = a.Tries() + 1
	}
	refused.At, refused.Outcome, refused.Code, refused.Reason = now, Refused, b.Code, b.Reason
	refused.Before, refused.BeforeAt = 0, 0
	if b.NoAnswer {
		refused.Outcome = NoAnswer
	}
	return &refused
}
