package engine

import (
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/text"
)

const (
	answerLimit   = 30 * time.Second // a push without an answer for that long was not answered (SPEC 6.5)
	mostInFlight  = 1024             // pushes without an answer at once; more wait in the due queue
	mostUnread    = 8 << 20          // bytes that wait for the host to read before pushes wait too (SPEC 8.8)
	policyPatient = 10 * time.Second // how long the initial policy may take before the log says so
)

// heartbeat is what the loop knows of the heartbeat beside the state.
type heartbeat struct {
	waiting bool  // it was overdue at the start, and waits for the first policy (SPEC 6.8)
	due     int64 // since when
	next    int64 // when the next one falls due meanwhile

	held uint64 // AnchorIndex of the one that waits to be polled, as the log said

	refusedSilent bool // the host refused the last silent one as empty (SPEC 7.2)
	warned        bool // and the log said so
}

// flight is one push that was sent.
type flight struct {
	id      string            // of the reminder; empty: the heartbeat, or a message
	letter  projection.Letter // without an id: no message
	eventID string
	silent  bool
	manual  bool
	due     int64
}

// beginHeartbeat looks whether the heartbeat fell due while no server ran.
func (e *Engine) beginHeartbeat() {
	now := e.now()
	due, active := e.dueBeat()
	if active && due <= now {
		e.beat.waiting, e.beat.due, e.beat.next = true, due, now+e.state().Config.IntervalMs
	}
}

// dueBeat is when the heartbeat falls due, within its active hours; false while it is paused.
func (e *Engine) dueBeat() (int64, bool) {
	due, active := e.state().HeartbeatDue()
	return e.state().Config.NextActive(due, e.o.Zone), active
}

// nextBeat is when the next heartbeat falls due; false while it is paused.
func (e *Engine) nextBeat() (int64, bool) {
	due, active := e.dueBeat()
	if active && e.beat.waiting && !e.holdsBeat() {
		due = e.beat.next
	}
	return due, active
}

// nextDue is when the loop has to look at the clock next for a wake.
func (e *Engine) nextDue() (int64, bool) {
	next, ok := e.nextBeat()
	if e.busy() || e.holdsBeat() && e.beat.held == e.state().AnchorIndex {
		ok = false // nothing but the turn's end, a poll or a policy brings it out
	}
	for _, q := range []*dueQueue{e.due, e.again} {
		if first, some := q.first(); some && e.canPush() {
			if !ok || first.due < next {
				next = first.due
			}
			ok = true
		}
	}
	return next, ok
}

// canPush says whether a reminder could go out now.
func (e *Engine) canPush() bool {
	return e.policy.Blocked() == "" && !e.busy() && len(e.flights) < mostInFlight && e.host.Backlog() < mostUnread
}

// lookAtClock pushes what is due.
func (e *Engine) lookAtClock() {
	if back := e.clock.setBack(); back > 0 {
		e.o.Log.Warn("the clock was set back: running intervals are moved back with it", "ms", back)
		e.record(&journal.Clock{ShiftMs: back})
		e.retryNow() // when it failed is a time of the clock before
	}
	now := e.now()
	e.expireTurns()
	e.pushDue(e.due, now)
	e.pushLetters(false)
	if due, active := e.nextBeat(); active && due <= now && !e.busy() { // what was promised for a time comes first
		e.beatDue(due, now)
	}
	e.pushDue(e.again, now)
	e.pushLetters(true)
	e.retryBeat(now)
	if !e.policyAt.IsZero() && !time.Now().Before(e.policyAt) {
		e.policyAt = time.Time{}
		e.complainPolicy()
	}
}

// pushDue pushes the reminders of a queue that are due.
func (e *Engine) pushDue(q *dueQueue, now int64) {
	for e.canPush() {
		first, ok := q.first()
		if !ok || first.due > now {
			return
		}
		e.fireReminder(first.id, now)
	}
}

// beatDue sends a heartbeat, or drops it while wakes are blocked (SPEC 6.4).
func (e *Engine) beatDue(due, now int64) {
	blocked := e.policy.Blocked()
	if blocked == "" {
		e.fireBeat(due, now, false)
		return
	}
	if e.holdsBeat() {
		e.holdBeat(due, blocked)
		return
	}
	e.dropBeat(due, blocked)
	if e.beat.waiting {
		e.beat.next = now + e.state().Config.IntervalMs
	}
}

func (e *Engine) dropBeat(due int64, blocked string) {
	e.o.Log.Info("suppressed heartbeat push/event — " + blocked + "; due " + text.Agent(due, e.o.Zone))
	e.record(&journal.Drop{Due: due, Reason: blocked})
	if blocked == mcpl.BlockedNoPolicy || blocked == mcpl.BlockedNotificationOnly {
		e.complainPolicy()
	}
}

// pollable says whether this connection's host can poll for wakes.
func (e *Engine) pollable() bool { return e.o.Proactive || e.policy.MCPOnly() }

// holdsBeat says whether a heartbeat that falls due waits to be polled: it is not lost, as one is that nobody can get
// (SPEC 6.4, 10.2).
func (e *Engine) holdsBeat() bool { return e.pollable() && e.policy.Blocked() != "" }

func (e *Engine) holdBeat(due int64, blocked string) {
	if e.beat.held == e.state().AnchorIndex {
		return
	}
	e.beat.held = e.state().AnchorIndex
	e.o.Log.Info("suppressed heartbeat push/event — " + blocked + "; due " + text.Agent(due, e.o.Zone) + ", it waits to be polled")
}

func (e *Engine) complainPolicy() {
	e.o.Log.Warn("initial policy has still not arrived as a Request. The host must send featureSets/update with an id after initialize (MCPL 0.5, section 5.3), also when it enables or disables nothing; until then no wake can be sent.")
}

// fireBeat pushes a heartbeat, without text in silent mode (SPEC 7.1).
func (e *Engine) fireBeat(due, now int64, manual bool) {
	silent := e.state().Config.Mode == projection.ModeSilent
	if !manual {
		e.beat.waiting = false
	}
	eventID, _ := e.nextEventID(nil)
	e.sendBeat(&flight{eventID: eventID, silent: silent, manual: manual, due: due}, now, resent{})
}

// resent says how a push is one of a heartbeat that was pushed before; the zero value: it is not.
type resent struct {
	fallback bool // at once, with the text that the refused one had not
	retry    bool // later, because it was not taken
	again    bool // under the event id of last
	last     *projection.Attempt
}

func (e *Engine) sendBeat(f *flight, now int64, how resent) {
	by := journal.ByTimer
	if f.manual && !how.retry {
		by = e.by
	}
	c, missed := &e.state().Config, e.state().Missed
	if !how.fallback && !how.retry {
		missed = e.state().MissedBefore(f.manual)
	}
	spoken := how.fallback || how.retry && c.Mode == projection.ModeSilent && !f.silent
	e.send(f, how.last, &journal.Fire{By: by, EventID: f.eventID, Due: f.due, Manual: f.manual, Silent: f.silent, Fallback: how.fallback || how.retry, Retry: how.retry, Again: how.again},
		beatParams(f, text.HeartbeatWake(c, missed, now, e.o.Zone), now, spoken))
}

// fireReminder pushes a reminder.
func (e *Engine) fireReminder(id string, now int64) {
	r, ok := e.state().Reminder(id)
	if !ok {
		e.schedule(id)
		return
	}
	f := &flight{id: id, due: r.FireAt}
	var again bool
	f.eventID, again = e.nextEventID(r.Attempt)
	e.send(f, r.Attempt, &journal.Fire{By: journal.ByTimer, ID: id, EventID: f.eventID, Due: f.due, Again: again}, reminderParams(f, r, now, e.o.Zone))
}

// schedule brings the queues in step with a reminder.
func (e *Engine) schedule(id string) {
	e.due.remove(id)
	e.again.remove(id)
	if r, open := e.state().Reminder(id); open {
		if at, goes := e.pushAt(r); goes {
			e.queueOf(r).add(id, at)
		}
	}
}

func (e *Engine) queueOf(r *projection.Reminder) *dueQueue {
	if r.Attempt == nil {
		return e.due
	}
	return e.again
}

// pushAt is when a reminder is to be pushed: not while it is in flight; one that was not taken by the rule for that (SPEC 6.5).
func (e *Engine) pushAt(r *projection.Reminder) (at int64, goes bool) {
	switch a := r.Attempt; {
	case a == nil:
		return r.FireAt, true
	case e.inFlight(a):
		return 0, false
	case e.hurried(a):
		return r.FireAt, true
	}
	return r.RetryAt(), true
}

// rebuildQueue follows a change of many reminders at once.
func (e *Engine) rebuildQueue() {
	e.due, e.again = newDueQueue(e.state().Len()), newDueQueue(0)
	e.state().Soonest(nil, func(r *projection.Reminder) bool {
		if at, goes := e.pushAt(r); goes {
			e.queueOf(r).add(r.ID, at)
		}
		return true
	})
}

// logWaiting says how many reminders wait while wakes are blocked (SPEC 6.7).
func (e *Engine) logWaiting() {
	blocked := e.policy.Blocked()
	if blocked == "" || e.store == nil || e.state().Len() == 0 {
		return
	}
	e.o.Log.Info(text.Plural(e.state().Len(), "reminder")+" will wait while wakes are blocked",
		"due", e.due.countDue(e.now())+e.again.countDue(e.now()), "why", blocked)
}
