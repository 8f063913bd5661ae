package engine

import (
	"slices"
	"strings"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/text"
)

const (
	answerLimit   = 30 * time.Second // an offer without an answer for that long was not answered (SPEC 6.5)
	mostInFlight  = 1024             // offers to one session without an answer at once; more wait in the due queue
	mostUnread    = 8 << 20          // bytes that wait for the host to read before offers wait too (SPEC 8.8)
	policyPatient = 10 * time.Second // how long the initial policy may take before the log says so
)

// A wake is a reminder, another agent's message, or a heartbeat. Its key is its place in the due queue: a reminder's is its id, a
// message's begins with messageKey. The heartbeat stands in the queue only while it is tried again: its schedule is the state's.
const (
	heartbeatKey = "\x00heartbeat"
	messageKey   = "\x00message:"
)

// heartbeat is what the loop knows of the heartbeat beside the state.
type heartbeat struct {
	waiting bool  // it was overdue at the start, and waits for the first policy (SPEC 6.8)
	due     int64 // since when
	next    int64 // when the next one falls due meanwhile

	held  uint64 // AnchorIndex of the one that waits to be polled, as the log said
	stuck bool   // it is due, and nobody can take it just now
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
	if e.beat.stuck || e.allBusy() || e.holdsBeat() && e.beat.held == e.state().AnchorIndex {
		ok = false // nothing but the turn's end, a poll or a policy brings it out
	}
	for _, q := range []*dueQueue{e.due, e.again} {
		if first, some := q.first(); some && e.canOffer() {
			if !ok || first.due < next {
				next = first.due
			}
			ok = true
		}
	}
	return next, ok
}

// canOffer says whether a wake could go out now.
func (e *Engine) canOffer() bool {
	return slices.ContainsFunc(e.sessions, (*Session).canTake) || e.program != nil && e.program.idle()
}

// allBusy says whether wakes wait for turns to end: on each session that lets them through one runs.
func (e *Engine) allBusy() bool {
	busy := false
	for _, s := range e.sessions {
		if s.policy.Blocked() == "" {
			if !s.busy() {
				return false
			}
			busy = true
		}
	}
	return busy
}

// fireDue offers what is due. What was not tried yet goes first: one that is always refused holds back no other (SPEC 6.5).
func (e *Engine) fireDue() {
	if back := e.clock.setBack(); back > 0 {
		e.o.Log.Warn("the clock was set back: running intervals are moved back with it", "ms", back)
		e.record(&journal.Clock{ShiftMs: back})
		e.retryNow() // when it failed is a time of the clock before
	}
	now := e.now()
	for _, s := range e.sessions {
		s.expireTurns()
	}
	e.offerDue(e.due, now)
	if due, active := e.nextBeat(); active && due <= now && !e.allBusy() { // what was promised for a time comes first
		e.beatDue(due, now)
	}
	e.offerDue(e.again, now)
	for _, s := range e.sessions {
		if !s.policyAt.IsZero() && !time.Now().Before(s.policyAt) {
			s.policyAt = time.Time{}
			e.warnNoPolicy()
		}
	}
}

// offerDue offers the wakes of a queue that are due.
func (e *Engine) offerDue(q *dueQueue, now int64) {
	for e.canOffer() {
		first, ok := q.first()
		if !ok || first.due > now {
			return
		}
		e.fire(first.key, now)
	}
}

// fire offers a wake.
func (e *Engine) fire(key string, now int64) {
	w, open := e.wake(key)
	if !open {
		e.schedule(key)
		return
	}
	d, later := e.route(&w)
	switch {
	case d != nil:
		w.offer(d, now)
	case later || w.attempt == nil:
		e.postpone(key, &w, now+tick.Milliseconds())
	default:
		e.endRound(key, &w)
	}
}

// wake is one that may be offered.
type wake struct {
	key, kind    string
	owner        string // name of the session that it belongs to
	conversation string // that asked for it
	attempt      *projection.Attempt
	due          int64        // when it is offered first
	retryAt      func() int64 // when it is offered again after an attempt that was not taken, by itself
	offer        func(d deliverer, now int64)
}

// wake is that of a key; false: it is over.
func (e *Engine) wake(key string) (wake, bool) {
	if id, is := strings.CutPrefix(key, messageKey); is {
		return e.messageWake(id)
	}
	if key == heartbeatKey {
		return e.beatAgain()
	}
	r, open := e.state().Reminder(key)
	if !open {
		return wake{}, false
	}
	return wake{
		key: key, kind: kindReminder, owner: r.Session, conversation: r.Conversation, attempt: r.Attempt, due: r.FireAt, retryAt: r.RetryAt,
		offer: func(d deliverer, now int64) { e.offerReminder(d, r, now) },
	}, true
}

// beatWake is a new heartbeat as a wake.
func (e *Engine) beatWake() wake {
	asker := e.state().BeatAsker
	return wake{key: heartbeatKey, kind: kindHeartbeat, owner: asker.Session, conversation: asker.Conversation}
}

// beatAgain is the heartbeat that was not taken, until the next one is due, which takes its place (SPEC 6.5a).
func (e *Engine) beatAgain() (wake, bool) {
	b := e.state().Beat
	if b == nil || e.beat.waiting {
		return wake{}, false
	}
	if due, active := e.nextBeat(); active && due <= e.now() {
		return wake{}, false
	}
	w := e.beatWake()
	w.attempt, w.due, w.retryAt = &b.Attempt, b.Attempt.At, func() int64 { return e.beatRetryAt(b) }
	w.offer = func(d deliverer, now int64) { e.offerBeatAgain(d, b, now) }
	return w, true
}

// endRound has a wake wait until it is tried again: every delivery that could take it was asked.
func (e *Engine) endRound(key string, w *wake) {
	delete(e.tried, key)
	delete(e.soon, w.attempt.EventID)
	e.postpone(key, w, max(w.retryAt(), e.now()+tick.Milliseconds()))
}

// schedule brings the queues in step with a wake.
func (e *Engine) schedule(key string) {
	e.due.remove(key)
	e.again.remove(key)
	if w, open := e.wake(key); open {
		if at, goes := e.offerAt(&w); goes {
			e.queueOf(&w).add(key, at)
		}
	}
}

// postpone has a wake be looked at then.
func (e *Engine) postpone(key string, w *wake, at int64) {
	e.due.remove(key)
	e.again.remove(key)
	e.queueOf(w).add(key, at)
}

func (e *Engine) queueOf(w *wake) *dueQueue {
	if w.attempt == nil {
		return e.due
	}
	return e.again
}

// offerAt is when a wake is to be offered: not while it is out; one that was not taken by the rule for that (SPEC 6.5).
func (e *Engine) offerAt(w *wake) (at int64, goes bool) {
	switch a := w.attempt; {
	case a == nil:
		return w.due, true
	case e.isOut(a):
		return 0, false
	case e.hurried(a):
		return w.due, true
	}
	return w.retryAt(), true
}

// rebuildQueues follows a change of many wakes at once.
func (e *Engine) rebuildQueues() {
	e.due, e.again = newDueQueue(e.state().Len()), newDueQueue(0)
	e.state().Soonest(nil, func(r *projection.Reminder) bool {
		w := wake{attempt: r.Attempt, due: r.FireAt, retryAt: r.RetryAt}
		if at, goes := e.offerAt(&w); goes {
			e.queueOf(&w).add(r.ID, at)
		}
		return true
	})
	e.schedule(heartbeatKey)
	for _, unread := range e.messages.unread {
		for _, m := range unread {
			e.schedule(messageKey + m.ID)
		}
	}
}

// beatDue offers a heartbeat, or drops it while wakes are blocked (SPEC 6.4).
func (e *Engine) beatDue(due, now int64) {
	blocked := e.blocked()
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
		e.warnNoPolicy()
	}
}

// pollable says whether a host can poll for wakes.
func (e *Engine) pollable() bool {
	return e.o.Proactive || slices.ContainsFunc(e.sessions, func(s *Session) bool { return s.policy.MCPOnly() })
}

// holdsBeat says whether a heartbeat that falls due waits to be polled: it is not lost, as one is that nobody can get
// (SPEC 6.4, 10.2).
func (e *Engine) holdsBeat() bool { return e.pollable() && e.blocked() != "" }

func (e *Engine) holdBeat(due int64, blocked string) {
	if e.beat.held == e.state().AnchorIndex {
		return
	}
	e.beat.held = e.state().AnchorIndex
	e.o.Log.Info("suppressed heartbeat push/event — " + blocked + "; due " + text.Agent(due, e.o.Zone) + ", it waits to be polled")
}

func (e *Engine) warnNoPolicy() {
	e.o.Log.Warn("initial policy has still not arrived as a Request. The host must send featureSets/update with an id after initialize (MCPL 0.5, section 5.3), also when it enables or disables nothing; until then no wake can be sent.")
}

// fireBeat offers a heartbeat, without text in silent mode (SPEC 7.1).
func (e *Engine) fireBeat(due, now int64, manual bool) {
	w := e.beatWake()
	d, _ := e.route(&w)
	if e.beat.stuck = d == nil && !manual; d == nil {
		return // it is looked at again
	}
	if !manual {
		e.beat.waiting = false
	}
	delete(e.tried, heartbeatKey)
	eventID, _ := e.nextEventID(nil)
	e.offerBeat(d, Offer{EventID: eventID, Manual: manual, Silent: e.state().Config.Mode == projection.ModeSilent, Due: due}, journal.Fire{}, nil, now)
}

// offerBeatAgain offers the heartbeat that was not taken once more.
func (e *Engine) offerBeatAgain(d deliverer, b *projection.Beat, now int64) {
	eventID, again := e.nextEventID(&b.Attempt)
	o := Offer{EventID: eventID, Manual: b.Manual, Silent: b.Silent && e.state().Config.Mode == projection.ModeSilent, Due: b.Due}
	e.offerBeat(d, o, journal.Fire{Fallback: true, Retry: true, Again: again}, &b.Attempt, now)
}

// offerBeat sends a heartbeat; how says what kind of a try it is, the zero value: the first one. last is the try before it.
func (e *Engine) offerBeat(d deliverer, o Offer, how journal.Fire, last *projection.Attempt, now int64) {
	c, missed := &e.state().Config, e.state().Missed
	if !how.Fallback {
		missed = e.state().MissedBefore(o.Manual)
	}
	how.By, how.EventID, how.Due, how.Manual, how.Silent, how.To = journal.ByTimer, o.EventID, o.Due, o.Manual, o.Silent, d.String()
	if o.Manual && !how.Retry {
		how.By = e.call.by
	}
	spoken := how.Fallback && !how.Retry || how.Retry && c.Mode == projection.ModeSilent && !o.Silent
	words := text.HeartbeatWake(c, missed, now, e.o.Zone)
	e.send(d, o, last, &how, content{kind: kindHeartbeat, text: words, params: beatParams(o, words, now, spoken), conversation: e.conversationOf(e.state().BeatAsker.Conversation)})
}

// offerReminder offers a reminder.
func (e *Engine) offerReminder(d deliverer, r *projection.Reminder, now int64) {
	o := Offer{Reminder: r.ID, Due: r.FireAt}
	var again bool
	o.EventID, again = e.nextEventID(r.Attempt)
	words, details := text.ReminderWake(r, now, e.o.Zone), r.Details()
	e.send(d, o, r.Attempt, &journal.Fire{By: journal.ByTimer, ID: r.ID, EventID: o.EventID, Due: o.Due, Again: again, To: d.String()}, content{
		kind: kindReminder, text: words, params: reminderParams(o, r, words, now), conversation: e.conversationOf(r.Conversation),
		title: details.Title, severity: details.Severity, url: details.URL,
	})
}

// logWaiting says how many reminders wait while wakes are blocked (SPEC 6.7).
func (e *Engine) logWaiting() {
	blocked := e.blocked()
	if blocked == "" || e.state().Len() == 0 {
		return
	}
	e.o.Log.Info(text.Plural(e.state().Len(), "reminder")+" will wait while wakes are blocked",
		"due", e.due.countDue(e.now())+e.again.countDue(e.now()), "why", blocked)
}
