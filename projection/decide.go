package projection

import (
	"bytes"
	"errors"

	"heartbeat-mcpl/journal"
)

// Change is what somebody wants to change in the settings: the fields that are not nil.
type Change struct {
	IntervalMs *int64
	Paused     *bool
	Mode       *string
	Message    *string
	Standing   *bool
	Cleared    *bool
	Active     *string
	Command    string // what was said in the language of SPEC 11.1; empty: it was not said so
}

// CommandEvery is the command that sets the heartbeat anew, also where nothing differs.
const CommandEvery = "every"

// Configure is the event that brings the settings to what change asks for, nil where they are that already. A new
// interval, a pause and its end re-anchor the timer (SPEC 5.2).
func (s *State) Configure(by journal.Source, change Change) *journal.Configure {
	if s.Config.Cleared && change.Cleared == nil && (change.IntervalMs != nil || change.Paused != nil && !*change.Paused) {
		set := false // what gives a heartbeat that was cleared an interval, or resumes it, sets it again
		change.Cleared = &set
		if change.Paused == nil {
			change.Paused = &set
		}
	}
	next := &journal.Configure{
		By:         by,
		Command:    change.Command,
		Standing:   differs(change.Standing, s.Config.Standing),
		Cleared:    differs(change.Cleared, s.Config.Cleared),
		Active:     differs(change.Active, s.Config.Active),
		IntervalMs: differs(change.IntervalMs, s.Config.IntervalMs),
		Paused:     differs(change.Paused, s.Config.Paused),
		Mode:       differs(change.Mode, s.Config.Mode),
		Message:    differs(change.Message, s.Config.Message),
	}
	every := change.Command == CommandEvery
	if next.IntervalMs == nil && next.Paused == nil && next.Mode == nil && next.Message == nil && next.Standing == nil && next.Cleared == nil && next.Active == nil && !every {
		return nil
	}
	next.Reanchor = next.IntervalMs != nil || next.Paused != nil || next.Cleared != nil || every
	return next
}

// override is the inverse of differs: what is wanted takes the place of what there is.
func override[T any](have, want *T) {
	if want != nil {
		*have = *want
	}
}

func differs[T comparable](want *T, have T) *T {
	if want == nil || *want == have {
		return nil
	}
	return want
}

// Ack is the event that says that the host took the reminder's push: a one-shot is done, a recurring one goes on at its
// next slot after now (SPEC 6.5).
func (r *Reminder) Ack(now int64) *journal.Ack {
	return &journal.Ack{ID: r.ID, EventID: r.Attempt.EventID, Next: r.next(now)}
}

// Polled is the event that says that the host acknowledged the reminder's current occurrence, which it had polled
// (SPEC 10.3).
func (r *Reminder) Polled(now int64) *journal.Ack {
	return &journal.Ack{By: journal.ByTool, ID: r.ID, EventID: r.OccurrenceID(), Due: r.FireAt, Next: r.next(now)}
}

// next is when the reminder falls due again once it is taken; 0: never.
func (r *Reminder) next(now int64) int64 {
	d := r.Details()
	if !r.Recurring() || d.Left == 1 {
		return 0
	}
	next := r.slotAfter(now)
	if d.Until > 0 && next > d.Until {
		return 0
	}
	return next
}

// slotAfter is the reminder's first slot after now, and after the current one; 0: there is none.
func (r *Reminder) slotAfter(now int64) int64 {
	d := r.Details()
	if !r.OnCalendar() {
		return nextSlot(r.FireAt, r.EveryMs, now)
	}
	next, err := nextOf(&d, d.Zone, max(now, r.FireAt))
	if errors.Is(err, errNoZone) { // not on this machine: that ends no promise
		next, err = nextOf(&d, "UTC", max(now, r.FireAt))
	}
	if err != nil {
		return 0 // it was valid when it was set: a calendar that has no further day
	}
	return next
}

// nextOf is the first time after that at which a calendar's reminder falls in the zone.
func nextOf(d *journal.Details, zone string, after int64) (int64, error) {
	if d.Repeats == "" {
		return NextCron(d.Cron, zone, after)
	}
	rule, err := RuleOf(d, zone)
	if err != nil {
		return 0, err
	}
	return rule.Next(after)
}

// Then are the reminder's n times after the one that it waits for, or that is late, as far as it comes again.
func (r *Reminder) Then(n int, now int64) []int64 {
	var then []int64
	next, d := *r, r.Details()
	for len(then) < n {
		next.SetDetails(d)
		at := next.next(max(now, next.FireAt))
		if at == 0 || at > MostTimeMs {
			break
		}
		then = append(then, at)
		next.FireAt = at
		d.Left = max(0, d.Left-1)
	}
	return then
}

// nextSlot is the first of fireAt+every, fireAt+2*every ... that lies after now: missed slots are one (SPEC 6.4), and the
// phase is kept.
func nextSlot(fireAt, every, now int64) int64 {
	if now < fireAt {
		return fireAt + every
	}
	return fireAt + ((now-fireAt)/every+1)*every
}

// ConfigEdit is the event for what a person changed in a config view that showed base, nil for nothing.
func (s *State) ConfigEdit(by journal.Source, base Config, file FileConfig) *journal.Configure {
	change := Change{
		IntervalMs: differs(file.IntervalMs, base.IntervalMs),
		Paused:     differs(file.Paused, base.Paused),
		Mode:       differs(file.Mode, base.Mode),
		Message:    differs(file.Message, base.Message),
		Standing:   differs(file.Standing, base.Standing),
		Cleared:    differs(file.Cleared, base.Cleared),
		Active:     differs(file.Active, base.Active),
	}
	return s.configure(by, change, base.Extra, file.Extra)
}

// configure is [State.Configure] with the members that are not ours, as somebody made them extra where they were before.
func (s *State) configure(by journal.Source, change Change, before, extra []byte) *journal.Configure {
	next := s.Configure(by, change)
	if bytes.Equal(extra, before) || bytes.Equal(extra, s.Config.Extra) {
		return next
	}
	if next == nil {
		next = &journal.Configure{By: by}
	}
	next.Extra, next.ClearExtra = extra, len(extra) == 0
	return next
}

// ReminderEdits are the events for what a person changed in a reminders view that showed base (SPEC 2.5 b): a
// three-way comparison, so that what happened in the journal since base is neither undone nor taken for an edit. A view
// that is usable in part cancels nothing (SPEC 3.3).
func (s *State) ReminderEdits(by journal.Source, base *State, file FileReminders) []journal.Body {
	var edits []journal.Body
	in := make(map[string]bool, len(file.Reminders))
	for i := range file.Reminders {
		r := &file.Reminders[i]
		in[r.ID] = true
		if shows(base, r) || shows(s, r) {
			continue
		}
		add := &journal.Add{
			By: by, ID: r.ID, Message: r.Message, CreatedAt: r.CreatedAt, FireAt: r.FireAt, EveryMs: r.EveryMs, Fixed: r.Fixed, Details: movedRule(base, r),
		}
		if old, open := s.Reminder(r.ID); open { // who asked for it does not change, and is in no view
			add.Session, add.Conversation = old.Session, old.Conversation
		}
		edits = append(edits, add)

	}
	if len(file.Problems) > 0 {
		return edits
	}
	for _, r := range base.Reminders() {
		if _, open := s.Reminder(r.ID); open && !in[r.ID] {
			edits = append(edits, &journal.Cancel{By: by, ID: r.ID})
		}
	}
	return edits
}

// movedRule are the details of an edited reminder. Where a person moved the time of one whose rule does not come then, the rule
// counts from that time.
func movedRule(base *State, r *Reminder) journal.Details {
	d := r.Details()
	have, ok := base.Reminder(r.ID)
	if d.Repeats == "" || !ok || have.FireAt == r.FireAt || have.Details().From != d.From {
		return d
	}
	rule, err := RuleOf(&d, d.Zone)
	if err == nil && !rule.Holds(r.FireAt) {
		d.From = RuleFrom(WallOf(r.FireAt, rule.zone))
	}
	return d
}

func shows(s *State, r *Reminder) bool {
	have, ok := s.Reminder(r.ID)
	if !ok {
		return false
	}
	d, o := have.Details(), r.Details()
	return have.Message == r.Message && have.CreatedAt == r.CreatedAt && have.FireAt == r.FireAt && have.EveryMs == r.EveryMs && d.Equal(&o)
}
