package projection

import (
	"testing"

	"heartbeat-mcpl/journal"
)

func TestEachResultHasItsStateAndEachStateItsMeaning(t *testing.T) {
	for _, r := range []Result{ResultTaken, ResultRefused, ResultNoAnswer, ResultPending, ResultDropped, ResultCancelled, ResultDue} {
		means := ""
		for _, s := range WakeStates {
			if s.State == r.State() {
				means = s.Means
			}
		}
		if means == "" {
			t.Errorf("%q is in no state that is explained: %q", r, r.State())
		}
	}
}

func TestAReminderOfAReportSaysWhereItStands(t *testing.T) {
	add := func(due, every int64) *journal.Add {
		return &journal.Add{ID: "a", Message: "tea", FireAt: due, EveryMs: every, By: journal.ByTool}
	}
	fire := &journal.Fire{ID: "a", EventID: "e1", Due: 2000}
	ack := &journal.Ack{ID: "a", EventID: "e1"}
	refuse := &journal.Refuse{ID: "a", EventID: "e1", Reason: "busy"}
	for _, c := range []struct {
		name   string
		bodies []journal.Body
		state  WakeState
		at     Instant
		over   bool
	}{
		{"not due yet", []journal.Body{add(99_000, 0)}, StateScheduled, 99_000, false},
		{"due, and not sent", []journal.Body{add(2000, 0)}, StateWaiting, 2000, false},
		{"sent", []journal.Body{add(2000, 0), fire}, StateSent, 2000, false},
		{"refused", []journal.Body{add(2000, 0), fire, refuse}, StateRefused, 2000, false},
		{"not answered", []journal.Body{add(2000, 0), fire, &journal.Refuse{ID: "a", EventID: "e1", NoAnswer: true}}, StateNoAnswer, 2000, false},
		{"taken", []journal.Body{add(2000, 0), fire, ack}, StateTaken, 4000, true},
		{"taken, and to come again", []journal.Body{add(2000, 60_000), fire, &journal.Ack{ID: "a", EventID: "e1", Next: 62_000}}, StateScheduled, 62_000, false},
		{"cancelled before it fired", []journal.Body{add(99_000, 0), &journal.Cancel{ID: "a"}}, StateCancelled, 3000, true},
		{"cancelled while it waits", []journal.Body{add(2000, 0), fire, refuse, &journal.Cancel{ID: "a"}}, StateCancelled, 5000, true},
		{"refused, and then moved", []journal.Body{add(2000, 0), fire, refuse, add(99_000, 0)}, StateScheduled, 99_000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _ := story(append([]journal.Body{&journal.Begin{}}, c.bodies...)...)
			s := h.Report(Filter{}).Reminders[0]
			if s.State != c.state || s.StateAt != c.at || s.Over() != c.over {
				t.Errorf("%s at %d, over %v; want %s at %d, over %v", s.State, s.StateAt, s.Over(), c.state, c.at, c.over)
			}
		})
	}
}

// TestTheFilterChangesNoState: how a reminder stands is said as of now.
func TestTheFilterChangesNoState(t *testing.T) {
	h, _ := story(&journal.Begin{}, &journal.Add{ID: "a", FireAt: 2000}, &journal.Fire{ID: "a", EventID: "e1", Due: 2000}, &journal.Refuse{ID: "a", EventID: "e1"})
	s := h.Report(Filter{Since: 60_000}).Reminders[0]
	if s.State != StateRefused || s.StateAt != 2000 || len(s.Wakes) != 0 {
		t.Errorf("%s at %d with %d wakes", s.State, s.StateAt, len(s.Wakes))
	}
}
