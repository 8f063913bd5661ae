package projection

import (
	"bytes"

	"heartbeat-mcpl/journal"
)

// Change is what somebody wants to change in the settings: the fields that are not nil.
type Change struct {
	IntervalMs *int64
	Paused     *bool
	Mode       *string
	Message    *string
}

// Configure is the event that brings the settings to what change asks for, nil where they are that already. A new
// interval, a pause and its end re-anchor the timer (SPEC 5.2).
func (s *State) Configure(by journal.Source, change Change) *journal.Configure {
	next := &journal.Configure{
		By:         by,
		IntervalMs: differs(change.IntervalMs, s.Config.IntervalMs),
		Paused:     differs(change.Paused, s.Config.Paused),
		Mode:       differs(change.Mode, s.Config.Mode),
		Message:    differs(change.Message, s.Config.Message),
	}
	if next.IntervalMs == nil && next.Paused == nil && next.Mode == nil && next.Message == nil {
		return nil
	}
	next.Reanchor = next.IntervalMs != nil || next.Paused != nil
	return next
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
	if r.EveryMs == 0 {
		return 0
	}
	return nextSlot(r.FireAt, r.EveryMs, now)
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
	}
	next := s.Configure(by, change)
	if bytes.Equal(file.Extra, base.Extra) || bytes.Equal(file.Extra, s.Config.Extra) {
		return next
	}
	if next == nil {
		next = &journal.Configure{By: by}
	}
	next.Extra, next.ClearExtra = file.Extra, len(file.Extra) == 0
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
		edits = append(edits, &journal.Add{
			By: by, ID: r.ID, Message: r.Message, CreatedAt: r.CreatedAt, FireAt: r.FireAt, EveryMs: r.EveryMs,
			Fixed: r.Fixed, Title: r.Title, Severity: r.Severity, URL: r.URL, Extra: r.Extra,
		})
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

func shows(s *State, r *Reminder) bool {
	have, ok := s.Reminder(r.ID)
	return ok && have.Message == r.Message && have.CreatedAt == r.CreatedAt && have.FireAt == r.FireAt &&
		have.EveryMs == r.EveryMs && have.Title == r.Title && have.Severity == r.Severity && have.URL == r.URL && bytes.Equal(have.Extra, r.Extra)
}
