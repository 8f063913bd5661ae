package projection

import (
	"fmt"
	"testing"
	"time"

	"heartbeat-mcpl/journal"
)

func TestPausesGrowUpToATenthLongerByChance(t *testing.T) {
	for waited, want := range []time.Duration{
		30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, time.Hour, time.Hour,
	} {
		seen := map[int64]bool{}
		for i := range 1000 {
			a := &Attempt{EventID: fmt.Sprint("evt_", i), At: 1_000_000, Outcome: Refused, Count: waited + 1, Waited: waited}
			pause := a.RetryAt() - a.At
			if least := want.Milliseconds(); pause < least || pause > least+least/10 {
				t.Fatalf("pause %d is %d ms, want %s and up to a tenth more", waited+1, pause, want)
			}
			if again := a.RetryAt() - a.At; again != pause {
				t.Fatalf("asked again it is %d ms, not %d", again, pause)
			}
			seen[pause] = true
		}
		if len(seen) < 500 {
			t.Errorf("pause %d: a thousand wakes come at %d times", waited+1, len(seen))
		}
	}
}

// TestTriesAreCountedByTheFold: those that failed in a row, whatever the reason of each, across snapshots; what came before its time makes
// no pause longer.
func TestTriesAreCountedByTheFold(t *testing.T) {
	s := Begun(1)
	now := int64(1000)
	apply := func(b journal.Body) {
		t.Helper()
		s.Apply(journal.Event{Index: s.Index + 1, Time: now, Kind: b.Kind(), Body: b})
		s = reloaded(t, s)
	}
	attempt := func() *Attempt { r, _ := s.Reminder("r"); return r.Attempt }
	fire := func(eventID string) { t.Helper(); apply(&journal.Fire{ID: "r", EventID: eventID, Due: 1000}) }
	refuse := func(eventID string, noAnswer bool) {
		t.Helper()
		apply(&journal.Refuse{ID: "r", EventID: eventID, Reason: "busy", NoAnswer: noAnswer})
	}
	failing := func() (n int) {
		for range s.Failing() {
			n++
		}
		return n
	}
	is := func(what string, tries, waited, failed int) {
		t.Helper()
		if a := attempt(); a.Tries() != tries || a.Waited != waited || failing() != failed {
			t.Errorf("%s: %d tries, %d pauses, %d failing; want %d, %d, %d", what, a.Tries(), a.Waited, failing(), tries, waited, failed)
		}
	}
	apply(&journal.Add{ID: "r", Message: "m", FireAt: 1000, EveryMs: 3_600_000})
	fire("a")
	is("out", 0, 0, 0)
	refuse("a", true)
	is("not answered", 1, 0, 1)
	refuse("a", false)
	is("a late refusal of the same try", 1, 0, 1)
	now += 1000
	fire("b")
	refuse("b", false)
	is("hurried, and refused", 2, 0, 1)
	now = attempt().RetryAt()
	fire("c")
	is("by itself", 2, 1, 1)
	now += 5
	fire("c")
	is("again after a crash", 3, 1, 1)
	refuse("c", true)
	refuse("other", true)
	is("not answered again", 4, 1, 1)
	apply(&journal.Ack{ID: "r", EventID: "c", Next: 5_000_000, Late: true})
	if attempt() != nil || failing() != 0 {
		t.Errorf("taken, and its next occurrence begins with %+v", attempt())
	}
	fire("d")
	refuse("d", false)
	apply(&journal.Cancel{ID: "r"})
	if failing() != 0 {
		t.Error("cancelled, and still failing")
	}
}

// reloaded is a state out of its own snapshot.
func reloaded(t *testing.T, s *State) *State {
	t.Helper()
	bodies, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var parts []journal.Event
	for i, b := range bodies {
		parts = append(parts, journal.Event{Index: s.Index + 1 + uint64(i), Time: s.TimeMs, Kind: b.Kind(), Body: b})
	}
	loaded, err := LoadSnapshot(parts)
	if err != nil {
		t.Fatal(err)
	}
	loaded.Index = s.Index
	if !loaded.Same(s) || loaded.Missed != s.Missed || loaded.Asked != s.Asked || (loaded.Beat == nil) != (s.Beat == nil) || s.Beat != nil && *loaded.Beat != *s.Beat {
		t.Fatalf("the snapshot is not what the events led to: %+v %+v, want %+v %+v", loaded.Beat, loaded.Missed, s.Beat, s.Missed)
	}
	return loaded
}

// TestAttemptOfAnOlderVersionIsTriedAgain, which counted nothing.
func TestAttemptOfAnOlderVersionIsTriedAgain(t *testing.T) {
	old := &Attempt{EventID: "a", At: 1000, Sent: 3, Outcome: Refused, Reason: "busy"}
	if old.Tries() != 1 || old.RetryAt() < 31_000 || old.RetryAt() > 34_000 {
		t.Errorf("%d tries, again at %d", old.Tries(), old.RetryAt())
	}
}

func TestRecurringOneIsTriedAgainAtItsNextSlotAtTheLatest(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Reminder
		d    journal.Details
		want int64 // 0: by the pause
	}{
		{"a short interval", Reminder{FireAt: 1000, EveryMs: 10_000}, journal.Details{}, 11_000},
		{"a long one", Reminder{FireAt: 1000, EveryMs: 600_000}, journal.Details{}, 0},
		{"a one-shot", Reminder{FireAt: 1000}, journal.Details{}, 0},
		{"the last one of a count", Reminder{FireAt: 1000, EveryMs: 10_000}, journal.Details{Left: 1}, 0},
		{"the last one before its end", Reminder{FireAt: 1000, EveryMs: 10_000}, journal.Details{Until: 5000}, 0},
	} {
		c.r.SetDetails(c.d)
		c.r.Attempt = &Attempt{EventID: "a", At: 2000, Outcome: Refused, Count: 1}
		want := c.want
		if want == 0 {
			want = c.r.Attempt.RetryAt()
		}
		if got := c.r.RetryAt(); got != want {
			t.Errorf("%s: %d, want %d", c.name, got, want)
		}
	}
}

// TestHeartbeatsThatDidNotReachTheAgentAreCounted until one does (SPEC 6.2a).
func TestHeartbeatsThatDidNotReachTheAgentAreCounted(t *testing.T) {
	s := Begun(1)
	now := int64(1000)
	apply := func(b journal.Body) {
		t.Helper()
		now += 1000
		s.Apply(journal.Event{Index: s.Index + 1, Time: now, Kind: b.Kind(), Body: b})
		s = reloaded(t, s)
	}
	before := func(what string, manual bool, want Missed) {
		t.Helper()
		if got := s.MissedBefore(manual); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	apply(&journal.Fire{EventID: "a", Due: 2000})
	before("while the answer is awaited, one by hand", true, Missed{})
	apply(&journal.Refuse{EventID: "a", Reason: "busy"})
	before("refused", true, Missed{1, 2000, "busy"})
	apply(&journal.Fire{EventID: "b", Due: 2000, Fallback: true, Retry: true})
	if s.AnchorMs != 2000 || s.Beat.Attempt.Tries() != 1 || s.Beat.Due != 2000 {
		t.Errorf("tried again: anchored at %d, %+v", s.AnchorMs, s.Beat)
	}
	apply(&journal.Drop{Due: 9000, Reason: "blocked"})
	before("dropped", false, Missed{2, 2000, "blocked"})
	apply(&journal.Fire{EventID: "c", Due: 10_000})
	apply(&journal.Refuse{EventID: "c", Reason: "no answer within 30 s", NoAnswer: true})
	apply(&journal.Fire{EventID: "d", Due: 11_000})
	before("not answered", true, Missed{3, 2000, "no answer within 30 s"})
	apply(&journal.Ack{EventID: "c", Late: true})
	before("one of them was taken after all", true, Missed{2, 2000, "no answer within 30 s"})
	apply(&journal.Ack{EventID: "d"})
	before("taken", false, Missed{})
	if s.Beat != nil || s.Beats.Taken != 2 {
		t.Errorf("%+v, %+v", s.Beat, s.Beats)
	}

	interval := int64(60_000)
	apply(&journal.Fire{EventID: "e", Due: 20_000})
	apply(&journal.Refuse{EventID: "e", Reason: "busy"})
	apply(&journal.Configure{IntervalMs: &interval, Reanchor: true})
	before("configured meanwhile", false, Missed{1, 20_000, "busy"})
	if s.Beat != nil {
		t.Error("configured anew, and the old one is still tried")
	}
	apply(&journal.Configure{Command: CommandEvery, Reanchor: true})
	before("another heartbeat was set", false, Missed{})
}

// TestHistoryShowsTriesOfAHeartbeatAsOneWake: which waits while it is tried again, and is given up when the next one takes its place.
func TestHistoryShowsTriesOfAHeartbeatAsOneWake(t *testing.T) {
	s, h := Begun(1), NewHistory()
	apply := func(b journal.Body) {
		e := journal.Event{Index: s.Index + 1, Time: 1000 * int64(s.Index+1), Kind: b.Kind(), Body: b}
		s.Apply(e)
		h.Apply(e)
	}
	report := func() Totals {
		h.Finish(s, s.TimeMs)
		return h.Report(Filter{}).Totals
	}
	apply(&journal.Fire{EventID: "a", Due: 2000})
	apply(&journal.Refuse{EventID: "a", Reason: "busy"})
	apply(&journal.Fire{EventID: "b", Due: 2000, Fallback: true, Retry: true})
	apply(&journal.Refuse{EventID: "b", NoAnswer: true, Reason: "no answer"})
	if got := report(); got.Wakes != 1 || got.Pushes != 2 || got.Refused != 1 || got.NoAnswer != 1 || got.Waiting != 1 || got.GivenUp != 0 {
		t.Errorf("while it is tried again: %+v", got)
	}
	apply(&journal.Fire{EventID: "c", Due: 9000})
	if got := report(); got.Wakes != 2 || got.GivenUp != 1 || got.Waiting != 1 {
		t.Errorf("when the next one took its place: %+v", got)
	}
}
