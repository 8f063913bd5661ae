package projection

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"heartbeat-mcpl/journal"
)

func TestViewsHaveTheShapeOfTheNodeServer(t *testing.T) {
	got := string(ConfigView(Config{IntervalMs: 90_500, Mode: "silent", Message: "a \"b\" <c>"}, ViewRef{ID: "abc", Index: 7}))
	want := `{
  "intervalSeconds": 90.5,
  "paused": false,
  "deliveryMode": "silent",
  "message": "a \"b\" <c>",
  "journal": {"id": "abc", "index": 7}
}
`
	if got != want {
		t.Errorf("config view:\n%s\nwant\n%s", got, want)
	}
	got = string(RemindersView([]*Reminder{
		{ID: "rem_a", Message: "one", CreatedAt: 1, FireAt: 2},
		{ID: "rem_b", Message: "two", CreatedAt: 3, FireAt: 4, EveryMs: 7500, details: &journal.Details{Extra: []byte(`{"tag":["x"]}`)}},
	}, ViewRef{ID: "0123456789abcdef", Index: 9}))
	want = `[
  {
    "id": "rem_a",
    "message": "one",
    "createdAt": 1,
    "fireAt": 2,
    "everySeconds": null,
    "journalIndex": 9,
    "journalId": "0123456789ab"
  },
  {
    "id": "rem_b",
    "message": "two",
    "createdAt": 3,
    "fireAt": 4,
    "everySeconds": 7.5,
    "tag": [
      "x"
    ],
    "journalIndex": 9
  }
]
`
	if got != want {
		t.Errorf("reminders view:\n%s\nwant\n%s", got, want)
	}
	if ref := FirstViewRef([]byte(got)); ref != (ViewRef{ID: "0123456789ab", Index: 9}) {
		t.Errorf("it seems to name %+v", ref)
	}
	if got := string(RemindersView(nil, ViewRef{Index: 9})); got != "[]\n" {
		t.Errorf("empty reminders view: %q", got)
	}
}

func TestConfigViewIsReadForWhatItIsGoodFor(t *testing.T) {
	for _, c := range []struct {
		name     string
		file     string
		want     Config
		problems string // a part of the problems, joined
		damaged  bool
	}{
		{name: "the Node.js server's file", file: `{"intervalSeconds":60,"paused":true,"deliveryMode":"silent","message":"hi"}`,
			want: Config{IntervalMs: 60_000, Paused: true, Mode: "silent", Message: "hi"}},
		{name: "fields that are missing stay as they are", file: `{"paused":true}`,
			want: Config{IntervalMs: 14_400_000, Paused: true, Mode: "message", Message: DefaultMessage}},
		{name: "members that are not ours are kept", file: `{"note":{"b":1,"a":"<"}}`,
			want: Config{IntervalMs: 14_400_000, Mode: "message", Message: DefaultMessage, Extra: []byte(`{"note":{"b":1,"a":"<"}}`)}},
		{name: "a byte order mark is no damage", file: "\ufeff{}", want: DefaultConfig()},
		{name: "a bad field leaves the others", file: `{"intervalSeconds":"60","paused":true}`, problems: "intervalSeconds is no number",
			want: Config{IntervalMs: 14_400_000, Paused: true, Mode: "message", Message: DefaultMessage}},
		{name: "a short interval is out of range", file: `{"intervalSeconds":59.9994}`, problems: "intervalSeconds is out of range", want: DefaultConfig()},
		{name: "a number for a bool", file: `{"paused":1}`, problems: "paused is neither true nor false", want: DefaultConfig()},
		{name: "a mode that is none", file: `{"deliveryMode":"Silent"}`, problems: "deliveryMode is neither", want: DefaultConfig()},
		{name: "a blank message", file: `{"message":" \n"}`, problems: "message is blank", want: DefaultConfig()},
		{name: "an infinite interval", file: `{"intervalSeconds":1e999}`, problems: "intervalSeconds is no number", want: DefaultConfig()},
		{name: "bytes that are not UTF-8", file: "{\"message\":\"caf\xe9\"}", problems: "not UTF-8",
			want: Config{IntervalMs: 14_400_000, Mode: "message", Message: "caf\ufffd"}},
		{name: "a torn file", file: `{"intervalSeconds":60,"pau`, damaged: true},
		{name: "an empty file", file: ``, damaged: true},
		{name: "an array", file: `[]`, damaged: true},
		{name: "null", file: `null`, damaged: true},
		{name: "zero bytes", file: "\x00\x00\x00", damaged: true},
		{name: "two documents", file: `{}{}`, damaged: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := ReadConfigView([]byte(c.file))
			if c.damaged {
				if !errors.Is(err, ErrDamaged) {
					t.Fatalf("got %+v, %v, want damage", f, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Over(DefaultConfig()); got.Digest() != c.want.Digest() {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if all := strings.Join(f.Problems, "; "); !strings.Contains(all, c.problems) || (c.problems == "") != (all == "") {
				t.Errorf("problems %q, want %q", all, c.problems)
			}
		})
	}
}

func TestRemindersViewKeepsItsGoodEntries(t *testing.T) {
	const good = `{"id":"rem_a","message":"m","createdAt":1,"fireAt":2,"everySeconds":null}`
	for _, c := range []struct {
		name     string
		file     string
		ids      string
		problems string
		damaged  bool
	}{
		{name: "a good file", file: `[` + good + `]`, ids: "rem_a"},
		{name: "an empty one", file: `[]`},
		{name: "no createdAt and no everySeconds", file: `[{"id":"x","message":"m","fireAt":5}]`, ids: "x"},
		{name: "an unknown field is no reason to reject", file: `[{"id":"x","message":"m","fireAt":5,"colour":"red"}]`, ids: "x"},
		{name: "an entry without an id", file: `[{"message":"m","fireAt":5},` + good + `]`, ids: "rem_a", problems: "entry 1: id is missing"},
		{name: "an entry that is no object", file: `[7,` + good + `]`, ids: "rem_a", problems: "entry 1: not an object"},
		{name: "a time that is text", file: `[{"id":"x","message":"m","fireAt":"tomorrow"},` + good + `]`, ids: "rem_a", problems: "fireAt is neither milliseconds nor a time in ISO 8601 (\"tomorrow\")"},
		{name: "a time after the year 9999", file: `[{"id":"x","message":"m","fireAt":1e15}]`, problems: "fireAt is out of range"},
		{name: "an interval below five seconds", file: `[{"id":"x","message":"m","fireAt":5,"everySeconds":4}]`, problems: "everySeconds is out of range"},
		{name: "the same id twice", file: `[` + good + `,` + good + `]`, ids: "rem_a", problems: `the id "rem_a" is there twice`},
		{name: "a calendar that is none", file: `[{"id":"x","message":"m","fireAt":5,"cron":"0 9 * * MON-FRY","timeZone":"UTC"}]`, problems: `cron "0 9 * * MON-FRY" in the zone "UTC": give five fields`},
		{name: "a calendar in no zone", file: `[{"id":"x","message":"m","fireAt":5,"cron":"0 9 * * *","timeZone":"Mars/X"}]`, problems: `"Mars/X" is no time zone`},
		{name: "a calendar in a zone that is no text", file: `[{"id":"x","message":"m","fireAt":5,"cron":"0 9 * * *","timeZone":5}]`, problems: "timeZone is no text (5)"},
		{name: "a calendar and an interval", file: `[{"id":"x","message":"m","fireAt":5,"cron":"0 9 * * *","everySeconds":60}]`, problems: "cron contradicts everySeconds"},
		{name: "a zone without a calendar is another's", file: `[{"id":"x","message":"m","fireAt":5,"timeZone":"Mars/X"}]`, ids: "x"},
		{name: "an end before the next time", file: `[{"id":"x","message":"m","fireAt":5,"everySeconds":60,"until":4}]`, problems: "until is before fireAt"},
		{name: "an end of what does not repeat", file: `[{"id":"x","message":"m","fireAt":5,"remaining":3}]`, problems: "until and remaining end what repeats"},
		{name: "no times left", file: `[{"id":"x","message":"m","fireAt":5,"everySeconds":60,"remaining":0}]`, problems: "remaining is no whole number from 1 to"},
		{name: "an end that is text", file: `[{"id":"x","message":"m","fireAt":5,"everySeconds":60,"until":""}]`, problems: "until is neither milliseconds"},
		{name: "what is null or empty says nothing", file: `[{"id":"x","message":"m","fireAt":5,"cron":null,"until":null,"remaining":null,"title":"","severity":"normal","url":null}]`, ids: "x"},
		{name: "a severity that is none", file: `[{"id":"x","message":"m","fireAt":5,"severity":"urgent"}]`, problems: "severity is neither"},
		{name: "an address that is none", file: `[{"id":"x","message":"m","fireAt":5,"url":"ftp://x"}]`, problems: "url is no absolute http or https URL"},
		{name: "an object", file: `{}`, damaged: true},
		{name: "a torn file", file: `[` + good, damaged: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := ReadRemindersView([]byte(c.file), 100, "UTC")
			if c.damaged != errors.Is(err, ErrDamaged) {
				t.Fatalf("error %v, want damage %v", err, c.damaged)
			}
			var ids []string
			for _, r := range f.Reminders {
				ids = append(ids, r.ID)
			}
			if got := strings.Join(ids, " "); got != c.ids {
				t.Errorf("kept %q, want %q", got, c.ids)
			}
			if all := strings.Join(f.Problems, "; "); !strings.Contains(all, c.problems) || (c.problems == "") != (all == "") {
				t.Errorf("problems %q, want %q", all, c.problems)
			}
		})
	}
}

// TestACalendarWithoutAZoneIsInTheAgents, however it is left out.
func TestACalendarWithoutAZoneIsInTheAgents(t *testing.T) {
	for _, zone := range []string{``, `,"timeZone":""`, `,"timeZone":null`} {
		f, err := ReadRemindersView([]byte(`[{"id":"x","message":"m","fireAt":5,"cron":"0 9 * * *"`+zone+`}]`), 1, "Europe/Berlin")
		if err != nil || len(f.Reminders) != 1 || f.Reminders[0].Details().Zone != "Europe/Berlin" {
			t.Errorf("%s: %+v, %v", zone, f, err)
		}
	}
}

// TestACalendarGoesOnWhereItsZoneIsNotKnown: a machine without that zone ends no promise.
func TestACalendarGoesOnWhereItsZoneIsNotKnown(t *testing.T) {
	r := Reminder{ID: "x", FireAt: 5, Attempt: &Attempt{EventID: "e"}}
	r.SetDetails(journal.Details{Cron: "0 9 * * *", Zone: "Mars/X"})
	if want := int64(9 * 3600e3); r.Ack(6).Next != want {
		t.Errorf("next %d, want %d", r.Ack(6).Next, want)
	}
}

func TestViewsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[\p{L}"\\<>&\x{2028} ]{0,8}x`)
		var all []Reminder
		for i := range rapid.IntRange(0, 5).Draw(t, "n") {
			r := Reminder{ID: string(rune('a' + i)), Message: word.Draw(t, "message"), CreatedAt: rapid.Int64Range(0, MostTimeMs).Draw(t, "created"),
				FireAt: rapid.Int64Range(0, MostTimeMs).Draw(t, "fire")}
			if rapid.Bool().Draw(t, "recurring") {
				r.EveryMs = rapid.Int64Range(LeastEveryMs, MostLengthMs).Draw(t, "every")
			}
			if rapid.Bool().Draw(t, "extra") {
				extra, _ := json.Marshal(map[string]string{word.Draw(t, "name"): word.Draw(t, "value")})
				r.SetDetails(journal.Details{Title: word.Draw(t, "title"), Extra: extra})
			}
			all = append(all, r)
		}
		index := rapid.Uint64Range(1, 1<<50).Draw(t, "index")
		ref := ViewRef{ID: rapid.SampledFrom([]string{"", "0123456789abcdef"}).Draw(t, "journal"), Index: index}
		f, err := ReadRemindersView(RemindersView(pointers(all), ref), 0, "UTC")
		if err != nil || len(f.Problems) > 0 || len(f.Reminders) != len(all) || len(all) > 0 && (f.Index != index || ref.ID != "" && !slices.Equal(f.Journals, []string{ref.Short().ID})) {
			t.Fatalf("got %+v, %v of %+v", f, err, all)
		}
		// Extra is compared as JSON by reading it twice: the second reading must be a fixed point.
		again, err := ReadRemindersView(RemindersView(pointers(f.Reminders), ref), 0, "UTC")
		if err != nil || DigestReminders(again.Reminders) != DigestReminders(f.Reminders) {
			t.Fatalf("got %+v, %v, want %+v", again, err, f)
		}
	})
}

func TestEditsAreFoundByThreeWayComparison(t *testing.T) {
	base := newHistory()
	base.record(1000, &journal.Add{ID: "kept", Message: "m", FireAt: 9000}, &journal.Add{ID: "removed", Message: "m", FireAt: 9000},
		&journal.Add{ID: "edited", Message: "m", FireAt: 9000}, &journal.Add{ID: "taken", Message: "m", FireAt: 1500})
	now := New()
	for _, e := range base.events {
		now.Apply(e)
	}
	later := []journal.Body{
		&journal.Add{ID: "newer", Message: "m", FireAt: 9000}, // the file does not know it yet
		&journal.Cancel{ID: "taken"},                          // the file still shows it
	}
	for _, b := range later {
		now.Apply(journal.Event{Index: now.Index + 1, Time: 2000, Kind: b.Kind(), Body: b})
	}
	file := FileReminders{Reminders: []Reminder{
		{ID: "kept", Message: "m", FireAt: 9000},
		{ID: "edited", Message: "other", FireAt: 9000},
		{ID: "taken", Message: "m", FireAt: 1500},
		{ID: "added", Message: "m", FireAt: 9000},
	}}
	var got []string
	for _, b := range now.ReminderEdits(journal.ByFile, base.state, file) {
		switch b := b.(type) {
		case *journal.Add:
			got = append(got, "add "+b.ID)
		case *journal.Cancel:
			got = append(got, "cancel "+b.ID)
		}
	}
	if s := strings.Join(got, ", "); s != "add edited, add added, cancel removed" {
		t.Errorf("edits: %s", s)
	}
	file.Problems = []string{"entry 5: not an object"}
	for _, b := range now.ReminderEdits(journal.ByFile, base.state, file) {
		if b.Kind() == journal.KindCancel {
			t.Error("a view that is usable in part cancelled a reminder")
		}
	}
}

func FuzzReadViews(f *testing.F) {
	f.Add([]byte(`{"intervalSeconds":60}`))
	f.Add([]byte(`[{"id":"a","message":"m","fireAt":1}]`))
	f.Add([]byte("\xff[{}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := ReadConfigView(data); err == nil {
			if _, err := ReadConfigView(ConfigView(c.Over(DefaultConfig()), ViewRef{})); err != nil {
				t.Fatalf("what was read cannot be read back: %v", err)
			}
		}
		if r, err := ReadRemindersView(data, 0, "UTC"); err == nil {
			if again, err := ReadRemindersView(RemindersView(pointers(r.Reminders), ViewRef{Index: 1}), 0, "UTC"); err != nil || len(again.Problems) > 0 {
				t.Fatalf("what was read cannot be read back: %v, %v", err, again.Problems)
			}
		}
	})
}

func pointers(all []Reminder) []*Reminder {
	var to []*Reminder
	for i := range all {
		to = append(to, &all[i])
	}
	return to
}
