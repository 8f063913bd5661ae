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
	if first, some := e.due.first(); some && e.canPush() {
		if !ok || first.due < next {
			next = first.due
		}
		ok = true
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
	}
	now := e.now()
	e.expireTurns()
	for e.canPush() {
		first, ok := e.due.first()
		if !ok || first.due > now {
			break
		}
		e.fireReminder(first.id, now)
	}
	e.pushLetters()
	if due, active := e.nextBeat(); active && due <= now && !e.busy() { // last: what was promised for a time comes first
		e.beatDue(due, now)
	}
	if !e.policyAt.IsZero() && !time.Now().Before(e.policyAt) {
		e.policyAt = time.Time{}
		e.complainPolicy()
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
	e.sendBeat(&flight{eventID: "evt_" + e.o.NewID(), silent: silent, manual: manual, due: due}, now, false)
}

func (e *Engine) sendBeat(f *flight, now int64, fallback bool) {
	by := journal.ByTimer
	if f.manual {
		by = e.by
	}
	e.send(f, &journal.Fire{By: by, EventID: f.eventID, Due: f.due, Manual: f.manual, Silent: f.silent, Fallback: fallback},
		beatParams(f, &e.state().Config, now, fallback, e.o.Zone))
}

// fireReminder pushes a reminder: under the event id that was sent before if nobody answered it, so that the host can
// tell, and under a fresh one otherwise (SPEC 6.6).
func (e *Engine) fireReminder(id string, now int64) {
	r, ok := e.state().Reminder(id)
	if !ok {
		e.due.remove(id)
		return
	}
	f := &flight{id: id, eventID: "evt_" + e.o.NewID(), due: r.FireAt}
	again := r.Attempt != nil && r.Attempt.Outcome != projection.Refused
	if again {
		f.eventID = r.Attempt.EventID
	}
	e.send(f, &journal.Fire{By: journal.ByTimer, ID: id, EventID: f.eventID, Due: f.due, Again: again}, reminderParams(f, r, now, e.o.Zone))
}

// reschedule puts a reminder that changed in the queue anew, whatever came of its last push.
func (e *Engine) reschedule(id string) {
	delete(e.refused, id)
	e.schedule(id)
}

// schedule brings the queue in step with a reminder.
func (e *Engine) schedule(id string) {
	if r, open := e.state().Reminder(id); open {
		if at, goes := e.pushAt(r); goes {
			e.due.set(id, at)
			return
		}
	}
	e.due.remove(id)
}

// pushAt is when a reminder is to be pushed: not while it is in flight; one that was refused waits for a reason to be tried again, a
// recurring one at most for an interval (SPEC 6.5).
func (e *Engine) pushAt(r *projection.Reminder) (at int64, goes bool) {
	a := r.Attempt
	if a == nil {
		return r.FireAt, true
	}
	_, flying := e.flights[a.EventID]
	_, held := e.refused[r.ID]
	switch {
	case flying || held && !r.Recurring():
		return 0, false
	case held:
		return max(r.FireAt, r.RetryAt(a.At)), true
	}
	return r.FireAt, true
}

// rebuildQueue follows a change of many reminders at once.
func (e *Engine) rebuildQueue() {
	e.due = newDueQueue(e.state().Len())
	e.state().Soonest(nil, func(r *projection.Reminder) bool {
		if at, goes := e.pushAt(r); goes {
			e.due.add(r.ID, at)
		}
		return true
	})
}

// retryRefused lets what was refused or not answered go out again.
func (e *Engine) retryRefused() {
	if len(e.refused) == 0 {
		return
	}
	ids := e.refused
	e.refused = map[string]struct{}{}
	for id := range ids {
		e.schedule(id)
	}
}

// logWaiting says how many reminders wait while wakes are blocked (SPEC 6.7).
func (e *Engine) logWaiting() {
	blocked := e.policy.Blocked()
	if blocked == "" || e.store == nil || e.state().Len() == 0 {
		return
	}
	e.o.Log.Info(text.Plural(e.state().Len(), "reminder")+" will wait while wakes are blocked",
		"due", e.due.countDue(e.now()), "why", blocked)
}
