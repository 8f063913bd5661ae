package projection

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"heartbeat-mcpl/journal"
)

// story makes a history of bodies, a second apart from second 1 on.
func story(bodies ...journal.Body) (*History, *State) {
	h, s := NewHistory(), New()
	for i, b := range bodies {
		e := journal.Event{Index: uint64(i + 1), Time: int64(i+1) * 1000, Kind: b.Kind(), Body: b}
		s.Apply(e)
		h.Apply(e)
	}
	h.Finish(s, int64(len(bodies)+1)*1000)
	return h, s
}

// told is a history in short: each subject's wakes, with their pushes.
func told(h *History) string {
	var all []string
	for _, s := range append([]*Subject{h.Heartbeat, h.Messages}, h.Reminders...) {
		for _, w := range s.Wakes {
			var pushes []string
			for _, p := range w.Pushes {
				pushes = append(pushes, string(p.Result))
			}
			all = append(all, fmt.Sprintf("%s due %d %s [%s]", s.ID, w.Due/1000, w.Result, strings.Join(pushes, ",")))
		}
	}
	return strings.Join(all, "; ")
}

func TestHistoryTellsWhatBecameOfEachWake(t *testing.T) {
	begin := &journal.Begin{}
	start := &journal.Start{PID: 7, Version: "v"}
	add := &journal.Add{ID: "a", Message: "tea", FireAt: 5000, By: journal.ByTool}
	fire := func(id, event string, due int64) *journal.Fire {
		return &journal.Fire{ID: id, EventID: event, Due: due}
	}
	tell := func(message, event string) *journal.Tell {
		return &journal.Tell{Message: message, From: "b", EventID: event, WrittenAt: 1000}
	}
	for _, c := range []struct {
		name   string
		bodies []journal.Body
		want   string
	}{
		{"taken", []journal.Body{begin, start, add, fire("a", "e1", 5000), &journal.Ack{ID: "a", EventID: "e1"}}, "a due 5 taken [taken]"},
		{"refused, and taken under another event id", []journal.Body{begin, add, fire("a", "e1", 5000), &journal.Refuse{ID: "a", EventID: "e1", Reason: "busy"},
			fire("a", "e2", 5000), &journal.Ack{ID: "a", EventID: "e2"}}, "a due 5 taken [refused,taken]"},
		{"refused, and waiting", []journal.Body{begin, add, fire("a", "e1", 5000), &journal.Refuse{ID: "a", EventID: "e1", Reason: "busy"}}, "a due 5 refused [refused]"},
		{"a crash before the answer", []journal.Body{begin, start, add, fire("a", "e1", 5000), start, fire("a", "e1", 5000), &journal.Ack{ID: "a", EventID: "e1"}},
			"a due 5 taken [no answer,taken]"},
		{"taken late, after nobody answered", []journal.Body{begin, add, fire("a", "e1", 5000), &journal.Refuse{ID: "a", EventID: "e1", NoAnswer: true},
			&journal.Ack{ID: "a", EventID: "e1", Late: true}}, "a due 5 taken [taken]"},
		{"cancelled while it waits", []journal.Body{begin, add, fire("a", "e1", 5000), &journal.Refuse{ID: "a", EventID: "e1"}, &journal.Cancel{ID: "a"}},
			"a due 5 cancelled [refused]"},
		{"recurring", []journal.Body{begin, &journal.Add{ID: "a", FireAt: 3000, EveryMs: 5000}, fire("a", "e1", 3000), &journal.Ack{ID: "a", EventID: "e1", Next: 8000},
			fire("a", "e2", 8000), &journal.Ack{ID: "a", EventID: "e2", Next: 13000}}, "a due 3 taken [taken]; a due 8 taken [taken]"},
		{"due and never sent", []journal.Body{begin, add, &journal.Policy{}, &journal.Policy{}, &journal.Policy{}}, "a due 5 due []"},
		{"not due yet", []journal.Body{begin, &journal.Add{ID: "a", FireAt: 1e9}}, ""},
		{"a silent heartbeat that was refused goes out with its text", []journal.Body{begin, &journal.Fire{EventID: "e1", Due: 1000, Silent: true},
			&journal.Refuse{EventID: "e1", Reason: "empty"}, &journal.Fire{EventID: "e2", Due: 1000, Fallback: true}, &journal.Ack{EventID: "e2"}}, " due 1 taken [refused,taken]"},
		{"a refused heartbeat is not the next one", []journal.Body{begin, &journal.Fire{EventID: "e1", Due: 1000}, &journal.Refuse{EventID: "e1"},
			&journal.Fire{EventID: "e2", Due: 4000}, &journal.Ack{EventID: "e2"}}, " due 1 refused [refused];  due 4 taken [taken]"},
		{"a dropped heartbeat", []journal.Body{begin, &journal.Drop{Due: 1000, Reason: "host is MCP-only"}}, " due 1 dropped []"},
		{"a message that was pushed, one that was polled, and one that an older version told",
			[]journal.Body{begin, &journal.Told{From: "b", WrittenAt: 500, PushedAt: 1500}, &journal.Told{From: "b", WrittenAt: 1000}, &journal.Told{From: "b"}},
			"mesh due 0 taken [taken]; mesh due 1 taken []; mesh due 4 taken [taken]"},
		{"a message that was refused, not answered, and taken", []journal.Body{begin, start, tell("m", "e1"), &journal.Refuse{Message: "m", EventID: "e1", Reason: "busy"},
			tell("m", "e2"), start, tell("m", "e2"), &journal.Told{Message: "m", From: "b", EventID: "e2", WrittenAt: 1000, PushedAt: 7000}},
			"mesh due 1 taken [refused,no answer,taken]"},
		{"a late answer to the first of two pushes under one event id, the second of which was refused", []journal.Body{begin, add, fire("a", "e1", 5000),
			&journal.Refuse{ID: "a", EventID: "e1", NoAnswer: true}, fire("a", "e1", 5000), &journal.Refuse{ID: "a", EventID: "e1"},
			&journal.Ack{ID: "a", EventID: "e1", Late: true}}, "a due 5 taken [taken,refused]"},
		{"a message that was refused, and then polled", []journal.Body{begin, tell("m", "e1"), &journal.Refuse{Message: "m", EventID: "e1"},
			&journal.Told{Message: "m", From: "b", EventID: "mesh-m", WrittenAt: 1000}}, "mesh due 1 taken [refused]"},
		{"a message that was read before the host took it, one that waits, and one that was taken late after all",
			[]journal.Body{begin, tell("m", "e1"), &journal.Refuse{Message: "m", EventID: "e1"}, tell("n", "e2"), tell("o", "e3"), &journal.Read{IDs: []string{"m", "o"}},
				&journal.Told{Message: "o", From: "b", EventID: "e3", WrittenAt: 1000, PushedAt: 5000, Late: true}},
			"mesh due 1 cancelled [refused]; mesh due 1 sent [sent]; mesh due 1 taken [taken]"},
		{"the middle of a story", []journal.Body{&journal.Ack{ID: "x", EventID: "e0"}, &journal.Refuse{ID: "x", EventID: "e0"}, fire("x", "e1", 1000), &journal.Ack{ID: "x", EventID: "e1"}},
			"x due 1 taken [taken]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _ := story(c.bodies...)
			if got := told(h); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestReportCountsWhatItShows(t *testing.T) {
	h, _ := story(
		&journal.Begin{}, &journal.Start{PID: 1}, // seconds 1, 2
		&journal.Add{ID: "a", FireAt: 4000, By: journal.ByTool},                  // 3
		&journal.Fire{ID: "a", EventID: "e1", Due: 4000},                         // 4
		&journal.Refuse{ID: "a", EventID: "e1", Code: -1, Reason: "busy"},        // 5
		&journal.Fire{ID: "a", EventID: "e2", Due: 4000},                         // 6
		&journal.Ack{ID: "a", EventID: "e2"},                                     // 7
		&journal.Add{ID: "b", FireAt: 9000, EveryMs: 60_000, By: journal.ByTool}, // 8
		&journal.Start{PID: 2},                                                   // 9: the first server crashed at 8
		&journal.Drop{Due: 9500, Reason: "host is MCP-only"},                     // 10
		&journal.Fire{EventID: "e3", Due: 11000, Manual: true},                   // 11
		&journal.Ack{EventID: "e3"},                                              // 12
		&journal.Stop{PID: 2, Reason: "signal"},                                  // 13
		&journal.Told{From: "builder", WrittenAt: 13_200, PushedAt: 13_500},      // 14: not late, whoever wrote it has another clock
	)
	r := h.Report(Filter{})
	if want := (Totals{Reminders: 2, Open: 1, Wakes: 5, Messages: 1, Pushes: 4, Taken: 3, Refused: 1, Dropped: 1, Waiting: 1}); r.Totals != want {
		t.Errorf("totals %+v\nwant   %+v", r.Totals, want)
	}
	if want := (Lateness{Count: 1, P50: 3000, P90: 3000, P99: 3000, Max: 3000}); r.Lateness != want {
		t.Errorf("lateness %+v", r.Lateness)
	}
	if len(r.Gaps) != 2 || r.Gaps[0] != (Gap{From: 8000, To: 9000, Crash: true}) || r.Gaps[1] != (Gap{From: 13000}) {
		t.Errorf("gaps %+v", r.Gaps)
	}
	if r := h.Report(Filter{Reminder: "b"}); r.Heartbeat != nil || r.Messages != nil || len(r.Reminders) != 1 || r.Totals.Wakes != 1 || r.Totals.Waiting != 1 {
		t.Errorf("of one reminder: %+v", r.Totals)
	}
	if r := h.Report(Filter{Since: 9200, Until: 10000}); r.Totals.Dropped != 1 || r.Totals.Taken != 0 || len(r.Gaps) != 0 {
		t.Errorf("of a time: %+v, gaps %+v", r.Totals, r.Gaps)
	}
	if data, err := json.Marshal(r); err != nil || !strings.Contains(string(data), `"due":"1970-01-01T00:00:04.000Z"`) {
		t.Errorf("as JSON: %s, %v", data, err)
	}
}

// TestAWakeKeepsWhatWasSaidThen: settings that changed since are not those that it went out with.
func TestAWakeKeepsWhatWasSaidThen(t *testing.T) {
	then, now, every := "then", "now", int64(7_200_000)
	h, _ := story(
		&journal.Begin{},
		&journal.Fire{EventID: "e1", Due: 2000}, // as it comes
		&journal.Configure{Message: &then, IntervalMs: &every},
		&journal.Fire{EventID: "e2", Due: 4000},
		&journal.Add{ID: "a", Message: "first", FireAt: 5000, EveryMs: 60_000},
		&journal.Fire{ID: "a", EventID: "e3", Due: 5000},
		&journal.Ack{ID: "a", EventID: "e3", Next: 65_000},
		&journal.Add{ID: "a", Message: "edited", FireAt: 65_000, EveryMs: 60_000},
		&journal.Fire{EventID: "e4", Due: 9000, Silent: true},
		&journal.Configure{Message: &now},
		&journal.Fire{EventID: "e5", Due: 9000, Fallback: true},
		&journal.Fire{EventID: "e6", Due: 12_000},
	)
	r := h.Report(Filter{})
	for i, want := range []Wake{
		{Message: DefaultMessage, EveryMs: DefaultConfig().IntervalMs}, {Message: then}, {}, {}, // what is as it is now is not said twice
	} {
		if w := r.Heartbeat.Wakes[i]; w.Message != want.Message || w.EveryMs != want.EveryMs {
			t.Errorf("heartbeat %d: %q every %d, want %q every %d", i+1, w.Message, w.EveryMs, want.Message, want.EveryMs)
		}
	}
	if s := r.Reminders[0]; s.Message != "edited" || s.Wakes[0].Message != "first" || s.Wakes[0].EveryMs != 0 {
		t.Errorf("%q, its wake %+v", s.Message, s.Wakes[0])
	}
}

// TestAnAnswerToWhatWasSettledEndsNoReminder: the occurrence was polled, or the push refused and another is out.
func TestAnAnswerToWhatWasSettledEndsNoReminder(t *testing.T) {
	for name, settle := range map[string]journal.Body{
		"polled":  &journal.Ack{By: journal.ByTool, ID: "a", EventID: (&Reminder{ID: "a", Since: 2}).OccurrenceID(), Due: 3000, Next: 63_000},
		"changed": &journal.Add{ID: "a", Message: "changed", FireAt: 63_000, EveryMs: 60_000},
	} {
		h, s := story(
			&journal.Begin{}, &journal.Add{ID: "a", FireAt: 3000, EveryMs: 60_000},
			&journal.Fire{ID: "a", EventID: "e1", Due: 3000}, settle,
			&journal.Ack{ID: "a", EventID: "e1"}, // no longer the reminder's own: it has no next
		)
		if r := h.Report(Filter{}); r.Totals.Reminders != 1 || r.Totals.Open != 1 || s.Len() != 1 {
			t.Errorf("%s: %+v, and %d reminders are open", name, r.Totals, s.Len())
		}
	}
}

func TestPercentilesAreNearestRank(t *testing.T) {
	r := &Report{}
	for i := range 200 {
		r.LateMs = append(r.LateMs, int64(200-i))
	}
	r.rank()
	if want := (Lateness{Count: 200, P50: 100, P90: 180, P99: 198, Max: 200}); r.Lateness != want {
		t.Errorf("%+v", r.Lateness)
	}
}
