package engine

import (
	"fmt"
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
	if first, some := e.due.first(); some && e.canOffer() {
		if !ok || first.due < next {
			next = first.due
		}
		ok = true
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

// fireDue offers what is due.
func (e *Engine) fireDue() {
	if back := e.clock.setBack(); back > 0 {
		e.o.Log.Warn("the clock was set back: running intervals are moved back with it", "ms", back)
		e.record(&journal.Clock{ShiftMs: back})
	}
	now := e.now()
	for _, s := range e.sessions {
		s.expireTurns()
	}
	for e.canOffer() {
		first, ok := e.due.first()
		if !ok || first.due > now {
			break
		}
		e.fire(first.key, now)
	}
	if due, active := e.nextBeat(); active && due <= now && !e.allBusy() { // last: what was promised for a time comes first
		e.beatDue(due, now)
	}
	for _, s := range e.sessions {
		if !s.policyAt.IsZero() && !time.Now().Before(s.policyAt) {
			s.policyAt = time.Time{}
			e.warnNoPolicy()
		}
	}
}

// fire offers a wake of the queue.
func (e *Engine) fire(key string, now int64) {
	w, open := e.wake(key)
	if !open {
		e.due.remove(key)
		return
	}
	d, later := e.route(&w)
	switch {
	case d != nil:
		w.offer(d, now)
	case later:
		e.due.set(key, now+tick.Milliseconds())
	default: // those that could take it have turned it down
		e.endRound(key)
	}
}

// wake is one that may be offered.
type wake struct {
	key, kind    string
	owner        string // name of the session that it belongs to
	conversation string // that asked for it
	attempt      *projection.Attempt
	next         func() int64 // when it is tried again after an attempt that was not taken
	due          int64        // when it is offered first
	offer        func(d deliverer, now int64)
}

// wake is that of a key; false: it is over.
func (e *Engine) wake(key string) (wake, bool) {
	if id, is := strings.CutPrefix(key, messageKey); is {
		return e.messageWake(id)
	}
	if key == heartbeatKey {
		w := e.beatWake()
		if w.attempt == nil || e.state().Config.Paused {
			return wake{}, false
		}
		w.next, w.offer = w.attempt.NextTry, e.offerBeatAgain
		return w, true
	}
	r, open := e.state().Reminder(key)
	if !open {
		return wake{}, false
	}
	return wake{
		key: key, kind: kindReminder, owner: r.Session, conversation: r.Conversation, attempt: r.Attempt, next: r.NextTry, due: r.FireAt,
		offer: func(d deliverer, now int64) { e.offerReminder(d, r, now) },
	}, true
}

// beatWake is the heartbeat as a wake.
func (e *Engine) beatWake() wake {
	s := e.state()
	return wake{key: heartbeatKey, kind: kindHeartbeat, owner: s.BeatSession, conversation: s.BeatConversation, attempt: s.Beat.Attempt}
}

// endRound has a wake wait until it is tried again: every session that could take it was asked.
func (e *Engine) endRound(key string) {
	delete(e.tried, key)
	e.waiting[key] = struct{}{}
	e.schedule(key)
}

// reschedule puts a wake that changed in the queue anew, whatever came of its last try.
func (e *Engine) reschedule(key string) {
	delete(e.waiting, key)
	delete(e.tried, key)
	e.schedule(key)
}

// schedule brings the queue in step with a wake.
func (e *Engine) schedule(key string) {
	if w, open := e.wake(key); open {
		if at, goes := e.offerAt(key, w); goes {
			e.due.set(key, at)
			return
		}
	}
	e.due.remove(key)
}

// offerAt is when a wake is to be offered: not while it is out; one that was not taken waits for its next try.
func (e *Engine) offerAt(key string, w wake) (at int64, goes bool) {
	if w.attempt == nil {
		return w.due, true
	}
	if _, out := e.flights[w.attempt.EventID]; out {
		return 0, false
	}
	if _, waits := e.waiting[key]; waits {
		return max(w.due, w.next()), true
	}
	return w.due, true
}

// rebuildQueue follows a change of many wakes at once.
func (e *Engine) rebuildQueue() {
	e.due = newDueQueue(e.state().Len())
	e.state().Soonest(nil, func(r *projection.Reminder) bool {
		w := wake{attempt: r.Attempt, next: r.NextTry, due: r.FireAt}
		if at, goes := e.offerAt(r.ID, w); goes {
			e.due.add(r.ID, at)
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

// retry has what was not taken go out again now: something suggests that it may work (SPEC 6.5).
func (e *Engine) retry() {
	waiting := e.waiting
	e.waiting = map[string]struct{}{}
	clear(e.tried)
	for key := range waiting {
		e.schedule(key)
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
	w.attempt = nil
	d, _ := e.route(&w)
	if e.beat.stuck = d == nil && !manual; d == nil {
		return // it is looked at again
	}
	if !manual {
		e.beat.waiting = false
		delete(e.waiting, heartbeatKey)
		delete(e.tried, heartbeatKey)
	}
	o := Offer{EventID: "evt_" + e.o.NewID(), Manual: manual, Silent: e.state().Config.Mode == projection.ModeSilent, Due: due}
	e.offerBeat(d, o, journal.Fire{}, now)
}

// offerBeatAgain offers the heartbeat that was not taken once more: until the next one is due, which takes its place (SPEC 6.5a).
func (e *Engine) offerBeatAgain(d deliverer, now int64) {
	b := &e.state().Beat
	o := Offer{EventID: "evt_" + e.o.NewID(), Silent: b.Silent, Due: b.Due}
	again := b.Attempt.Again()
	if again {
		o.EventID = b.Attempt.EventID
	}
	e.offerBeat(d, o, journal.Fire{Retry: true, Again: again}, now)
}

// offerBeat sends a heartbeat; how says what kind of a try it is.
func (e *Engine) offerBeat(d deliverer, o Offer, how journal.Fire, now int64) {
	how.By, how.EventID, how.Due, how.Manual, how.Silent, how.To = journal.ByTimer, o.EventID, o.Due, o.Manual, o.Silent, d.String()
	if o.Manual {
		how.By = e.call.by
	}
	words := text.HeartbeatWake(e.state(), now, e.o.Zone)
	e.send(d, o, &how, content{
		kind: kindHeartbeat, text: words, params: beatParams(o, words, now, how.Fallback), conversation: e.conversationOf(e.state().BeatConversation),
	})
}

// offerReminder offers a reminder: under the event id that was sent before if nobody answered it, so that the host can
// tell, and under a fresh one otherwise (SPEC 6.6).
func (e *Engine) offerReminder(d deliverer, r *projection.Reminder, now int64) {
	o := Offer{Reminder: r.ID, EventID: "evt_" + e.o.NewID(), Due: r.FireAt}
	again := r.Attempt.Again()
	if again {
		o.EventID = r.Attempt.EventID
	}
	words, details := text.ReminderWake(r, now, e.o.Zone), r.Details()
	e.send(d, o, &journal.Fire{By: journal.ByTimer, ID: r.ID, EventID: o.EventID, Due: o.Due, Again: again, To: d.String()}, content{
		kind: kindReminder, text: words, params: reminderParams(o, r, words, now), conversation: e.conversationOf(r.Conversation),
		title: details.Title, severity: details.Severity, url: details.URL,
	})
}

// notTakenYet says which wakes were offered and not taken, and when the next of them is tried again (SPEC 5.12); empty: none.
func (e *Engine) notTakenYet(now int64) string {
	var reminders, messages, beats int
	why, last, next := "", int64(0), int64(0)
	for key := range e.waiting {
		w, open := e.wake(key)
		if !open || w.attempt == nil {
			continue
		}
		switch {
		case key == heartbeatKey:
			beats++
		case strings.HasPrefix(key, messageKey):
			messages++
		default:
			reminders++
		}
		if _, at, reason := w.attempt.LastFailure(); at > last {
			last, why = at, reason
		}
		if at, goes := e.offerAt(key, w); goes && (next == 0 || at < next) {
			next = at
		}
	}
	var all []string
	for _, c := range []struct {
		n    int
		noun string
	}{{beats, "heartbeat"}, {reminders, "reminder"}, {messages, "message"}} {
		if c.n > 0 {
			all = append(all, text.Plural(c.n, c.noun))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%s (%s), next try in %s", strings.Join(all, ", "), text.OneLine(text.Cut(why, 100)), text.In(next, now))
}

// logWaiting says how many reminders wait while wakes are blocked (SPEC 6.7).
func (e *Engine) logWaiting() {
	blocked := e.blocked()
	if blocked == "" || e.state().Len() == 0 {
		return
	}
	e.o.Log.Info(text.Plural(e.state().Len(), "reminder")+" will wait while wakes are blocked",
		"due", e.due.countDue(e.now()), "why", blocked)
}
