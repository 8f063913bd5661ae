package projection

import (
	"fmt"
	"strings"
	"testing"

	"heartbeat-mcpl/journal"
)

// TestRestorationBringsBackWhatWasSet: settings and reminders, not the slots that what repeats has passed since.
func TestRestorationBringsBackWhatWasSet(t *testing.T) {
	const now = 100_000
	h := newHistory()
	h.record(1000,
		&journal.Add{ID: "gone", Message: "m", CreatedAt: 1, FireAt: 500_000},
		&journal.Add{ID: "past", Message: "m", CreatedAt: 1, FireAt: 2000},
		&journal.Add{ID: "edited", Message: "before", CreatedAt: 1, FireAt: 500_000, Details: journal.Details{Title: "t", Extra: []byte(`{"x":1}`)}},
		&journal.Add{ID: "goes on", Message: "m", CreatedAt: 1, FireAt: 6000, EveryMs: 10_000, Details: journal.Details{Left: 90}},
		&journal.Add{ID: "repeats", Message: "m", CreatedAt: 1, FireAt: 6000, EveryMs: 10_000, Details: journal.Details{Left: 3}},
		&journal.Add{ID: "over", Message: "m", CreatedAt: 1, FireAt: 6000, EveryMs: 10_000, Details: journal.Details{Until: 90_000}},
		&journal.Add{ID: "same", Message: "m", CreatedAt: 1, FireAt: 500_000},
	)
	past := New()
	for _, e := range h.events {
		past.Apply(e)
	}
	paused, text := true, "other"
	h.record(50_000,
		&journal.Configure{Paused: &paused, Message: &text, Reanchor: true, Extra: []byte(`{"mine":1}`)},
		&journal.Cancel{ID: "gone"}, &journal.Cancel{ID: "past"}, &journal.Cancel{ID: "repeats"}, &journal.Cancel{ID: "over"},
		&journal.Add{ID: "edited", Message: "after", CreatedAt: 1, FireAt: 500_000},
		&journal.Add{ID: "since", Message: "m", CreatedAt: 1, FireAt: 500_000},
		&journal.Fire{ID: "goes on", EventID: "e"}, &journal.Ack{ID: "goes on", EventID: "e", Next: 56_000},
	)
	plan := h.state.Restoration(journal.ByCLI, past, now)
	var names []string
	for _, list := range [][]*Reminder{plan.Back, plan.Gone, plan.Changed, plan.Over} {
		for _, r := range list {
			names = append(names, fmt.Sprint(r.ID, "@", r.FireAt))
		}
		names = append(names, "|")
	}
	if got, want := strings.Join(names, " "), "gone@500000 past@2000 repeats@106000 | since@500000 | edited@500000 | over@6000 |"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	settings := ""
	for _, c := range plan.Settings {
		settings += fmt.Sprintf("%s: %s -> %s; ", c.Name, c.From, c.To)
	}
	for _, want := range []string{"paused: true -> false", `message: "other" -> "[heartbeat] `, "other members"} {
		if !strings.Contains(settings, want) {
			t.Errorf("the settings %q do not say %s", settings, want)
		}
	}
	h.record(now, plan.Bodies()...)
	if h.state.Config.Digest() != past.Config.Digest() || h.state.Len() != 6 {
		t.Errorf("got %+v with %d reminders", h.state.Config, h.state.Len())
	}
	if r, _ := h.state.Reminder("edited"); r.Message != "before" || r.Details().Title != "t" || string(r.Details().Extra) != `{"x":1}` {
		t.Errorf("got %+v", r)
	}
	if again := h.state.Restoration(journal.ByCLI, past, now); len(again.Bodies()) != 0 {
		t.Errorf("done twice: %+v", again)
	}
}
