package engine

import (
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/text"
)

// What the host did not take comes again by itself, by the rule of [projection.Attempt], and at once where something suggests that it
// may work now: a policy, reminder_add, reminder_cancel, a restart (SPEC 6.5). What was not tried yet goes first: one that is always
// refused holds back no other.

// retryNow has all that was not taken tried again at once. What is in flight is answered for itself.
func (e *Engine) retryNow() {
	clear(e.soon)
	hurry := func(a *projection.Attempt) bool {
		failed := a != nil && a.Outcome != projection.Pending
		if failed {
			e.soon[a.EventID] = struct{}{}
		}
		return failed
	}
	for r := range e.state().Failing() {
		if hurry(r.Attempt) {
			e.schedule(r.ID)
		}
	}
	for _, a := range e.state().FailingMessages() {
		hurry(a)
	}
	if b := e.state().Beat; b != nil {
		hurry(&b.Attempt)
	}
}

// hurried says whether what came of a push is no reason to wait with the next one.
func (e *Engine) hurried(a *projection.Attempt) bool {
	_, soon := e.soon[a.EventID]
	return soon || a.Outcome == projection.Pending // its server is gone
}

// inFlight says whether the answer to a push is awaited.
func (e *Engine) inFlight(a *projection.Attempt) bool {
	_, out := e.flights[a.EventID]
	return out
}

// nextEventID is under which event id a wake goes out after last, nil for its first push: under that of last if nobody answered it,
// so that the host can tell, and under a fresh one otherwise (SPEC 6.6).
func (e *Engine) nextEventID(last *projection.Attempt) (id string, again bool) {
	if last == nil || last.Outcome == projection.Refused {
		return "evt_" + e.o.NewID(), false
	}
	return last.EventID, true
}

// retryBeat sends the heartbeat that was not taken again, until the next one is due (SPEC 6.5a).
func (e *Engine) retryBeat(now int64) {
	b := e.state().Beat
	if b == nil || e.beat.waiting || !e.canPush() || e.inFlight(&b.Attempt) || e.beatRetryAt(b) > now {
		return
	}
	if due, active := e.nextBeat(); active && due <= now {
		return
	}
	f := &flight{silent: b.Silent && e.state().Config.Mode == projection.ModeSilent, manual: b.Manual, due: b.Due}
	var again bool
	f.eventID, again = e.nextEventID(&b.Attempt)
	e.sendBeat(f, now, resent{retry: true, again: again, last: &b.Attempt})
}

// beatRetryAt is when the heartbeat that was not taken goes out again: within its active hours, unless it was asked for.
func (e *Engine) beatRetryAt(b *projection.Beat) int64 {
	at := b.Attempt.RetryAt()
	if e.hurried(&b.Attempt) {
		at = b.Attempt.At
	}
	if b.Manual {
		return at
	}
	return e.state().Config.NextActive(max(at, e.now()), e.o.Zone)
}

// notTaken says what the host did not take and was not given up.
func (e *Engine) notTaken(now int64) text.NotTaken {
	n := text.NotTaken{When: e.heldUp()}
	var newest int64
	add := func(a *projection.Attempt, at int64) bool {
		how, failed, reason := a.Failed()
		if how == 0 {
			return false
		}
		if failed >= newest {
			newest, n.Reason = failed, reason
		}
		switch {
		case e.inFlight(a):
			n.Out = true
		case n.Next == 0 || at < n.Next:
			n.Next = max(at, now)
		}
		return true
	}
	for r := range e.state().Failing() {
		at, _ := e.pushAt(r)
		if add(r.Attempt, at) {
			n.Reminders++
		}
	}
	for _, l := range e.letters.unread {
		if a := e.state().Tried(l.ID); a != nil && add(a, e.letterAt(a)) {
			n.Messages++
		}
	}
	if b := e.state().Beat; b != nil {
		n.Heartbeat = add(&b.Attempt, e.beatRetryAt(b))
	}
	return n
}

// heldUp is until when nothing goes out, in words; empty where something can.
func (e *Engine) heldUp() string {
	switch {
	case e.blocked() != "":
		return "when wakes can be sent"
	case e.busy():
		return "when the turn that runs has ended"
	}
	return ""
}

// retries says how often a reminder was not taken, and when it comes again.
func (e *Engine) retries(r *projection.Reminder) text.Again {
	if how, _, _ := r.Attempt.Failed(); how == 0 {
		return text.Again{}
	}
	at, _ := e.pushAt(r)
	return text.Again{Tries: r.Attempt.Tries(), Next: at, When: e.heldUp(), Out: e.inFlight(r.Attempt)}
}
