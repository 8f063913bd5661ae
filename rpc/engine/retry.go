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
	clear(e.tried)
	for r := range e.state().Failing() {
		if hurry(r.Attempt) {
			e.schedule(r.ID)
		}
	}
	for message, a := range e.state().FailingMessages() {
		if hurry(a) {
			e.schedule(messageKey + message)
		}
	}
	if b := e.state().Beat; b != nil && hurry(&b.Attempt) {
		e.schedule(heartbeatKey)
	}
}

// hurried says whether what came of a push is no reason to wait with the next one.
func (e *Engine) hurried(a *projection.Attempt) bool {
	_, soon := e.soon[a.EventID]
	return soon || a.Outcome == projection.Pending // its server is gone
}

// isOut says whether the answer to a push is awaited.
func (e *Engine) isOut(a *projection.Attempt) bool {
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

// notTakenYet says what the host did not take and was not given up.
func (e *Engine) notTakenYet(now int64) text.NotTaken {
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
		case e.isOut(a):
			n.Out = true
		case n.Next == 0 || at < n.Next:
			n.Next = max(at, now)
		}
		return true
	}
	for r := range e.state().Failing() {
		at, _ := e.offerAt(&wake{attempt: r.Attempt, due: r.FireAt, retryAt: r.RetryAt})
		if add(r.Attempt, at) {
			n.Reminders++
		}
	}
	for _, unread := range e.messages.unread {
		for _, m := range unread {
			if w, open := e.messageWake(m.ID); open && w.attempt != nil {
				if at, _ := e.offerAt(&w); add(w.attempt, at) {
					n.Messages++
				}
			}
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
	case e.allBusy():
		return "when the turn that runs has ended"
	}
	return ""
}

// retries says how often a reminder was not taken, and when it comes again.
func (e *Engine) retries(r *projection.Reminder) text.Again {
	if how, _, _ := r.Attempt.Failed(); how == 0 {
		return text.Again{}
	}
	at, _ := e.offerAt(&wake{attempt: r.Attempt, due: r.FireAt, retryAt: r.RetryAt})
	return text.Again{Tries: r.Attempt.Tries(), Next: at, When: e.heldUp(), Out: e.isOut(r.Attempt)}
}
