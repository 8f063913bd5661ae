package projection

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"heartbeat-mcpl/journal"
)

// TestAMisspeltSettingStaysAsTheJournalHasIt (SPEC 2.10); at the first import it is kept as somebody else's, and said.
func TestAMisspeltSettingStaysAsTheJournalHasIt(t *testing.T) {
	have := DefaultConfig()
	have.Extra = []byte(`{"pausedd":1}`)
	for _, c := range []struct{ name, file, problems, edit string }{
		{"a letter is missing", `{"paused":false,"pause":true}`, `"pause" is no member of it: did you mean paused?`, "paused=false"},
		{"and what is meant was changed, too", `{"paused":true,"pause":true}`, `"pause" is no member of it: did you mean paused?`, "paused=false"},
		{"the others count", `{"pause":true,"intervalSeconds":60}`, `"pause"`, "interval=60000"},
		{"by case", `{"DeliveryMode":"silent"}`, "did you mean deliveryMode?", "mode=message"},
		{"more than one is meant", `{"intervalSecond":60,"Message":"x"}`, `"intervalSecond" is no member of it: did you mean intervalSeconds?`, "interval=14400000"},
		{"somebody else's", `{"label":"mine","pausedReason":"x","paused":true}`, "", "paused=true"},
		{"one that the journal holds", `{"pausedd":1}`, "", "paused=false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := ReadConfigView([]byte(c.file))
			if err != nil {
				t.Fatal(err)
			}
			f.Settle(have, false)
			over := f.Over(have)
			shown := fmt.Sprintf("paused=%v interval=%d mode=%s", over.Paused, over.IntervalMs, over.Mode)
			if all := strings.Join(f.Problems, "; "); !strings.Contains(all, c.problems) || (c.problems == "") != (all == "") {
				t.Errorf("problems %q, want %q", all, c.problems)
			}
			if !strings.Contains(shown, c.edit) || over.Message != DefaultMessage {
				t.Errorf("%s, want %s", shown, c.edit)
			}
			if c.problems != "" && (strings.Contains(string(f.Extra), `"pause"`) || strings.Contains(string(f.Extra), "Mode")) {
				t.Errorf("the slip is kept: %s", f.Extra)
			}
		})
	}
	f, _ := ReadConfigView([]byte(`{"pause":true}`))
	if f.Settle(DefaultConfig(), true); len(f.Problems) != 1 || string(f.Extra) != `{"pause":true}` {
		t.Errorf("imported: %q, %s", f.Problems, f.Extra)
	}
}

// TestADoubtfulEntryStaysAsTheJournalHasIt: it never becomes a one-shot, nor due in 1970.
func TestADoubtfulEntryStaysAsTheJournalHasIt(t *testing.T) {
	h := newHistory()
	h.record(1000, &journal.Add{ID: "r", Message: "m", CreatedAt: 5, FireAt: 4e12, EveryMs: 60_000, Details: journal.Details{Extra: []byte(`{"source_url":1}`)}})
	for _, c := range []struct{ name, entry, problems string }{
		{"as it is", `"everySeconds":60,"createdAt":5,"fireAt":4000000000000,"source_url":1`, ""},
		{"a misspelt interval", `"everySecond":60,"createdAt":5,"fireAt":4000000000000,"source_url":1`, `entry 1: "everySecond" is no member of it: did you mean everySeconds?`},
		{"beside null", `"everySeconds":null,"everySecond":60,"createdAt":5,"fireAt":4000000000000`, `"everySecond"`},
		{"a misspelt member that is missing", `"FireAt":4000000000000`, `fireAt is missing; "FireAt" is no member of it: did you mean fireAt?`},
		{"somebody else's", `"everySeconds":60,"fireAt":4000000000000,"colour":"red","label":2`, ""},
		{"seconds", `"everySeconds":60,"createdAt":5,"fireAt":1790000000`, "entry 1: fireAt is 1790000000, which are seconds: give milliseconds, 1790000000000"},
		{"seconds of its making", `"everySeconds":60,"createdAt":1790000000,"fireAt":4000000000000`, "createdAt is 1790000000, which are seconds"},
		{"made at no time that is known", `"everySeconds":60,"createdAt":0,"fireAt":4000000000000`, ""},
		{"seconds of its end", `"everySeconds":60,"fireAt":4000000000000,"until":4000000001`, "until is before fireAt; until is 4000000001, which are seconds: give milliseconds, 4000000001000"},
		{"no time of a clock", `"everySeconds":60,"fireAt":7`, "fireAt is 7, which is before 2001"},
		{"ISO 8601 in the agent's zone", `"everySeconds":60,"createdAt":"2026-10-10T09:00","fireAt":"2026-12-10T09:00","until":"2027-12-10T09:00+02:00"`, ""},
		{"another text", `"everySeconds":60,"fireAt":"soon"`, "fireAt is neither milliseconds nor a time in ISO 8601"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := ReadRemindersView([]byte(`[{"id":"r","message":"m",`+c.entry+`}]`), 1e12, "Europe/Berlin")
			if err != nil {
				t.Fatal(err)
			}
			f.Settle(h.state, false)
			all := strings.Join(f.Problems, "; ")
			if !strings.Contains(all, c.problems) || (c.problems == "") != (all == "") {
				t.Errorf("problems %q, want %q", all, c.problems)
			}
			if (len(f.Reminders) == 1) != (c.problems == "") {
				t.Errorf("kept %+v", f.Reminders)
			}
			if strings.HasPrefix(c.name, "ISO") {
				r := f.Reminders[0]
				for _, one := range []struct {
					ms   int64
					want string
				}{{r.CreatedAt, "2026-10-10T07:00:00Z"}, {r.FireAt, "2026-12-10T08:00:00Z"}, {r.Details().Until, "2027-12-10T07:00:00Z"}} {
					if got := time.UnixMilli(one.ms).UTC().Format(time.RFC3339); got != one.want {
						t.Errorf("got %s, want %s", got, one.want)
					}
				}
			}
		})
	}
	f, _ := ReadRemindersView([]byte(`[{"id":"n","message":"m","fireAt":4000000000000,"everySecond":60},{"id":"o","message":"m","fireAt":1790000000}]`), 1, "UTC")
	if f.Settle(New(), true); len(f.Problems) != 2 || len(f.Reminders) != 1 || string(f.Reminders[0].Details().Extra) != `{"everySecond":60}` {
		t.Errorf("imported: %q, %+v", f.Problems, f.Reminders)
	}
}
