package projection

import (
	"fmt"
	"io"
	"testing"

	"heartbeat-mcpl/journal"
)

func adds(n int) []journal.Event {
	events := make([]journal.Event, n)
	for i := range events {
		events[i] = journal.Event{Index: uint64(i + 1), Time: 1, Body: &journal.Add{
			By: journal.ByTool, ID: fmt.Sprintf("rem_%012d", i), Message: "Look at the build: is it green?", CreatedAt: 1, FireAt: int64(4_000_000_000_000 + i*7919%n),
		}}
	}
	return events
}

func folded(events []journal.Event) *State {
	s := New()
	for _, e := range events {
		s.Apply(e)
	}
	return s
}

var sizes = []int{1, 1000, 100_000}

// BenchmarkFold applies one recurring reminder's fire and ack beside others.
func BenchmarkFold(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint("reminders=", n), func(b *testing.B) {
			s := folded(adds(n))
			s.Apply(journal.Event{Index: uint64(n + 1), Time: 1, Body: &journal.Add{ID: "rem_x", Message: "x", CreatedAt: 1, FireAt: 10_000, EveryMs: 5000}})
			index := uint64(n + 1)
			b.ReportAllocs()
			for b.Loop() {
				r, _ := s.Reminder("rem_x")
				index++
				s.Apply(journal.Event{Index: index, Time: r.FireAt, Body: &journal.Fire{ID: r.ID, EventID: r.OccurrenceID()}})
				r, _ = s.Reminder("rem_x")
				ack := &journal.Ack{ID: r.ID, EventID: r.Attempt.EventID, Next: r.FireAt + r.EveryMs}
				index++
				s.Apply(journal.Event{Index: index, Time: r.FireAt, Body: ack})
			}
		})
	}
}

// BenchmarkDecide decides what an accepted push of a recurring reminder becomes.
func BenchmarkDecide(b *testing.B) {
	s := folded(adds(1000))
	s.Apply(journal.Event{Index: 1001, Time: 1, Body: &journal.Add{ID: "rem_x", Message: "x", CreatedAt: 1, FireAt: 10_000, EveryMs: 5000}})
	r, _ := s.Reminder("rem_x")
	s.Apply(journal.Event{Index: 1002, Time: 10_000, Body: &journal.Fire{ID: r.ID, EventID: r.OccurrenceID()}})
	b.ReportAllocs()
	for b.Loop() {
		if ack := r.Ack(1_000_000); ack.Next != 1_005_000 {
			b.Fatal(ack.Next)
		}
	}
}

// BenchmarkRemindersView makes the bytes of the whole view.
func BenchmarkRemindersView(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint("reminders=", n), func(b *testing.B) {
			s := folded(adds(n))
			b.SetBytes(int64(len(RemindersView(s.Reminders(), ViewRef{Index: 1}))))
			b.ReportAllocs()
			for b.Loop() {
				if err := WriteReminders(io.Discard, s.Reminders(), ViewRef{Index: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReadReminders reads the view back.
func BenchmarkReadReminders(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint("reminders=", n), func(b *testing.B) {
			view := RemindersView(folded(adds(n)).Reminders(), ViewRef{Index: 1})
			b.SetBytes(int64(len(view)))
			b.ReportAllocs()
			for b.Loop() {
				if f, err := ReadRemindersView(view, 1, "UTC"); err != nil || len(f.Reminders) != n {
					b.Fatal(err, len(f.Reminders))
				}
			}
		})
	}
}

// BenchmarkSoonest lists a page of 20 from the middle.
func BenchmarkSoonest(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint("reminders=", n), func(b *testing.B) {
			s := folded(adds(n))
			after, _ := s.Reminder(fmt.Sprintf("rem_%012d", n/2))
			b.ReportAllocs()
			for b.Loop() {
				listed := 0
				s.Soonest(after, func(*Reminder) bool { listed++; return listed < 20 })
				_ = s.Behind(after)
			}
		})
	}
}
