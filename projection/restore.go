package projection

import (
	"heartbeat-mcpl/journal"
)

// Restoration is what brings a state back to what it was earlier (SPEC 2.9): settings and reminders, and nothing of what was sent.
// A recurring reminder that went on since has not changed.
type Restoration struct {
	Settings []ConfigChange
	Back     []*Reminder // are gone, and come back
	Gone     []*Reminder // were set since, and go
	Changed  []*Reminder // as they will be
	Over     []*Reminder // would come back, but have no further time

	config *journal.Configure
	by     journal.Source
}

// Restoration is what brings s back to past. Recurring reminders go on at their next slot after now.
func (s *State) Restoration(by journal.Source, past *State, now int64) *Restoration {
	r := &Restoration{Settings: s.Config.Changes(past.Config), by: by}
	then := past.Config
	r.config = s.configure(by, Change{
		IntervalMs: &then.IntervalMs, Paused: &then.Paused, Mode: &then.Mode, Message: &then.Message,
		Standing: &then.Standing, Cleared: &then.Cleared, Active: &then.Active,
	}, s.Config.Extra, then.Extra)
	for _, was := range past.Reminders() {
		have, open := s.Reminder(was.ID)
		switch {
		case open && have.sameAs(was):
		case !was.comesAfter(now):
			r.Over = append(r.Over, was)
		case open:
			r.Changed = append(r.Changed, was.goingOn(now))
		default:
			r.Back = append(r.Back, was.goingOn(now))
		}
	}
	for _, have := range s.Reminders() {
		if _, was := past.Reminder(have.ID); !was {
			r.Gone = append(r.Gone, have)
		}
	}
	return r
}

// Bodies are the events that do it; none where nothing differs.
func (r *Restoration) Bodies() []journal.Body {
	var all []journal.Body
	if r.config != nil {
		all = append(all, r.config)
	}
	for _, gone := range r.Gone {
		all = append(all, &journal.Cancel{By: r.by, ID: gone.ID})
	}
	for _, list := range [][]*Reminder{r.Changed, r.Back} {
		for _, was := range list {
			all = append(all, &journal.Add{
				By: r.by, ID: was.ID, Message: was.Message, CreatedAt: was.CreatedAt, FireAt: was.FireAt, EveryMs: was.EveryMs, Fixed: was.Fixed, Details: was.Details(),
			})
		}
	}
	return all
}

// sameAs says whether r is what was set as o: where it repeats, at whatever slot it stands.
func (r *Reminder) sameAs(o *Reminder) bool {
	d, p := r.Details(), o.Details()
	if r.Recurring() {
		d.Left = p.Left
	}
	sameTime := r.FireAt == o.FireAt
	switch {
	case r.EveryMs > 0 && r.EveryMs == o.EveryMs:
		sameTime = (r.FireAt-o.FireAt)%r.EveryMs == 0
	case d.Cron != "":
		sameTime = true
	}
	return r.Message == o.Message && r.CreatedAt == o.CreatedAt && r.EveryMs == o.EveryMs && sameTime && d.Equal(&p)
}

// comesAfter says whether a recurring reminder still has a time; a one-shot that is past comes at once.
func (r *Reminder) comesAfter(now int64) bool {
	return !r.Recurring() || r.FireAt > now || r.slotInForce(now) > 0
}

// slotInForce is the recurring reminder's first slot after now that its end lets be; 0: none.
func (r *Reminder) slotInForce(now int64) int64 {
	next := r.slotAfter(now)
	if until := r.Details().Until; until > 0 && next > until {
		return 0
	}
	return next
}

// goingOn is the reminder at its next time: what repeats does not come for what is past.
func (r *Reminder) goingOn(now int64) *Reminder {
	next := *r
	next.Attempt = nil
	if r.Recurring() && r.FireAt <= now {
		next.FireAt = r.slotInForce(now)
	}
	return &next
}
