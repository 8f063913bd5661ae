package projection

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"heartbeat-mcpl/journal"
)

// stretch is a time in which a zone's clocks keep their distance from UTC.
type stretch struct {
	from, to int64 // Unix seconds
	offset   int64
}

// stretches are found by looking at the clock each quarter of an hour.
func stretches(zone *time.Location, from, to time.Time) []stretch {
	var all []stretch
	for t := from; t.Before(to); t = t.Add(15 * time.Minute) {
		_, offset := t.In(zone).Zone()
		if n := len(all); n == 0 || all[n-1].offset != int64(offset) {
			all = append(all, stretch{from: t.Unix(), offset: int64(offset)})
		}
		all[len(all)-1].to = t.Unix() + 15*60
	}
	return all
}

// instant is when the wall shows that time (as if it were UTC): the first pass, or as much after the change as it was skipped by.
func instant(all []stretch, wall int64) int64 {
	for _, s := range all {
		if at := wall - s.offset; at >= s.from && at < s.to {
			return at
		}
	}
	for i, s := range all[1:] {
		if before := all[i]; wall >= s.from+before.offset && wall < s.from+s.offset {
			return wall - before.offset
		}
	}
	return -1
}

func location(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// falls says by the definition whether a rule falls on a day: it looks at no other day than that and the first.
func falls(unit string, n int, first, day time.Time) bool {
	days := int(day.Sub(first).Hours() / 24)
	months := (day.Year()-first.Year())*12 + int(day.Month()-first.Month())
	ends := day.AddDate(0, 0, 1).Day() == 1
	sameDay := day.Day() == first.Day() || ends && first.Day() > day.Day()
	switch unit {
	case "day":
		return days%n == 0
	case "week":
		return days%(7*n) == 0
	case "month":
		return months%n == 0 && sameDay
	case "year":
		return months%(12*n) == 0 && sameDay
	}
	return day.Weekday() != time.Saturday && day.Weekday() != time.Sunday
}

func TestRulesAgainstBruteForce(t *testing.T) {
	random := rand.New(rand.NewSource(59))
	begin, end := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2033, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "America/Sao_Paulo",
		"Asia/Kathmandu", "Pacific/Chatham", "Asia/Tehran", "America/Havana"} {
		zone := location(t, name)
		all := stretches(zone, begin, end)
		for range 100 {
			unit := []string{"day", "week", "month", "year", "weekday"}[random.Intn(5)]
			n := 1 + random.Intn(map[string]int{"day": 40, "week": 8, "month": 14, "year": 3, "weekday": 1}[unit])
			first := time.Date(2021, time.Month(1+random.Intn(12)), 1+random.Intn(31), random.Intn(24), 15*random.Intn(4), 0, 0, time.UTC)
			if random.Intn(3) == 0 { // a time that changes of the clocks skip and repeat
				first = time.Date(first.Year(), first.Month(), first.Day(), random.Intn(4), first.Minute(), 0, 0, time.UTC)
			}
			d := journal.Details{Repeats: unit, From: RuleFrom(first)}
			if unit != "weekday" {
				d.Repeats = fmt.Sprintf("%d %s", n, unit)
			}
			rule, err := RuleOf(&d, name)
			if err != nil {
				t.Fatal(err)
			}
			at := first.AddDate(-1, 0, 0).UnixMilli()
			last := int64(-1)
			for day := first; day.Year() < 2032; day = day.AddDate(0, 0, 1) {
				if !falls(unit, n, first, day) {
					continue
				}
				want := instant(all, day.Unix())
				if want == last { // both moved to the same time
					continue
				}
				last = want
				if at, err = rule.Next(at); err != nil || at != want*1000 {
					t.Fatalf("every %s from %s in %s: %s, %v, want %s", d.Repeats, d.From, name, Instant(at), err, Instant(want*1000))
				}
			}
		}
	}
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, every, from, zone string
		times                   []string
	}{
		{"a day keeps its time when the clocks change", "1d", "2026-10-24T09:00:00", "Europe/Berlin",
			[]string{"2026-10-24T09:00:00+02:00", "2026-10-25T09:00:00+01:00", "2026-10-26T09:00:00+01:00"}},
		{"a time that is skipped moves by what is skipped, and back", "day", "2026-03-28T02:30:00", "Europe/Berlin",
			[]string{"2026-03-28T02:30:00+01:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"a time that comes twice is the first", "daily", "2026-10-24T02:30:00", "Europe/Berlin",
			[]string{"2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"every second Thursday", "2 weeks", "2026-12-10T15:00:00", "UTC", []string{"2026-12-10T15:00:00Z", "2026-12-24T15:00:00Z", "2027-01-07T15:00:00Z"}},
		{"the 31st is the last day of a shorter month, and the 31st again", "1 month", "2027-01-31T18:00:00", "UTC",
			[]string{"2027-01-31T18:00:00Z", "2027-02-28T18:00:00Z", "2027-03-31T18:00:00Z", "2027-04-30T18:00:00Z"}},
		{"a leap day", "1y", "2028-02-29T12:00:00", "UTC",
			[]string{"2028-02-29T12:00:00Z", "2029-02-28T12:00:00Z", "2030-02-28T12:00:00Z", "2031-02-28T12:00:00Z", "2032-02-29T12:00:00Z"}},
		{"weekdays", "weekdays", "2026-12-10T09:00:00.5", "UTC", []string{"2026-12-10T09:00:00.5Z", "2026-12-11T09:00:00.5Z", "2026-12-14T09:00:00.5Z"}},
		{"weekdays from a Saturday on", "weekday", "2026-12-12T09:00:00", "UTC", []string{"2026-12-14T09:00:00Z", "2026-12-15T09:00:00Z"}},
		{"a day that a zone left out", "1 day", "2011-12-29T09:00:00", "Pacific/Apia", []string{"2011-12-29T09:00:00-10:00", "2011-12-31T09:00:00+14:00", "2012-01-01T09:00:00+14:00"}},
	} {
		d := journal.Details{From: c.from}
		var isRule bool
		var err error
		if d.Repeats, isRule, err = ParseRule(c.every); !isRule || err != nil {
			t.Fatalf("%s: %t, %v", c.every, isRule, err)
		}
		rule, err := RuleOf(&d, c.zone)
		if err != nil {
			t.Fatal(err)
		}
		after := at(t, c.times[0]) - 1
		for _, want := range c.times {
			if after, err = rule.Next(after); err != nil || after != at(t, want) || !rule.Holds(after) {
				t.Errorf("%s: %s, %v, want %s", c.name, Instant(after), err, want)
				break
			}
		}
	}
	for _, text := range []string{"", "1h", "90m", "1.5d", "1d12h", "month 1", "2 fortnights", "tag"} {
		if rule, isRule, err := ParseRule(text); isRule || err != nil {
			t.Errorf("%q is the rule %q, %v", text, rule, err)
		}
	}
	for _, text := range []string{"0 days", "2 weekdays", "101 years", "999999d"} {
		if rule, isRule, err := ParseRule(text); !isRule || err == nil {
			t.Errorf("%q is the rule %q, %t", text, rule, isRule)
		}
	}
}

func TestARuleGoesOnFromEachTimeThatIsTaken(t *testing.T) {
	s := New()
	index := uint64(0)
	do := func(b journal.Body, now int64) {
		index++
		s.Apply(journal.Event{Index: index, Time: now, Kind: b.Kind(), Body: b})
	}
	do(&journal.Add{ID: "a", FireAt: at(t, "2027-01-31T18:00:00Z"), Details: journal.Details{Repeats: "1 month", From: "2027-01-31T18:00:00", Zone: "UTC", Left: 3}}, 1)
	for i, want := range []string{"2027-01-31T18:00:00Z", "2027-03-31T18:00:00Z", "2027-04-30T18:00:00Z"} {
		r, open := s.Reminder("a")
		if !open || r.FireAt != at(t, want) || !r.Recurring() || i > 0 && !r.Fixed {
			t.Fatalf("got %+v, want it at %s", r, want)
		}
		now := r.FireAt
		if i == 0 {
			now = at(t, "2027-03-01T00:00:00Z") // late: February's is past, too
		}
		do(&journal.Fire{ID: "a", EventID: "e", Due: r.FireAt}, now)
		r, _ = s.Reminder("a")
		do(r.Ack(now), now)
	}
	if r, open := s.Reminder("a"); open {
		t.Errorf("after the third time: %+v", r)
	}
}

func TestARuleInTheView(t *testing.T) {
	s := New()
	s.Apply(journal.Event{Index: 7, Time: 1, Kind: journal.KindAdd, Body: &journal.Add{ID: "a", Message: "m", CreatedAt: 1, FireAt: at(t, "2027-01-31T17:00:00Z"), Fixed: true,
		Details: journal.Details{Repeats: "1 month", From: "2027-01-31T18:00:00", Zone: "Europe/Berlin"}}})
	view := string(RemindersView(s.Reminders(), ViewRef{Index: 7}))
	edit := func(entries string) (*journal.Add, []string) {
		t.Helper()
		file, err := ReadRemindersView([]byte(entries), at(t, "2027-01-01T00:00:00Z"), "Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range s.ReminderEdits(journal.ByFile, s, file) {
			if add, ok := b.(*journal.Add); ok {
				return add, file.Problems
			}
		}
		return nil, file.Problems
	}
	if add, problems := edit(view); add != nil || len(problems) > 0 {
		t.Errorf("the view itself is an edit: %+v, %v\n%s", add, problems, view)
	}
	const fire = `"fireAt": 1801414800000`
	for _, c := range []struct{ name, entries, repeats, from, zone string }{
		{"another rule", replaced(t, view, `"repeats": "1 month"`, `"repeats": "2w"`), "2 weeks", "2027-01-31T18:00:00", "Europe/Berlin"},
		{"another time moves the rule", replaced(t, view, fire, fmt.Sprintf(`"fireAt": %d`, at(t, "2027-02-10T08:00:00Z"))), "1 month", "2027-02-10T09:00:00", "Europe/Berlin"},
		{"a later time of the rule does not", replaced(t, view, fire, fmt.Sprintf(`"fireAt": %d`, at(t, "2027-02-28T17:00:00Z"))), "1 month", "2027-01-31T18:00:00", "Europe/Berlin"},
		{"a new one counts from its first time, in the agent's zone", `[{"id": "b", "message": "m", "fireAt": 1801414800000, "repeats": "day"}]`, "1 day", "2027-01-31T18:00:00", "Europe/Berlin"},
		{"in another zone", `[{"id": "b", "message": "m", "fireAt": 1801414800000, "repeats": "day", "timeZone": "Asia/Tokyo"}]`, "1 day", "2027-02-01T02:00:00", "Asia/Tokyo"},
	} {
		add, problems := edit(c.entries)
		if len(problems) > 0 || add == nil || add.Repeats != c.repeats || add.From != c.from || add.Zone != c.zone || !add.Fixed {
			t.Errorf("%s: %+v, %v", c.name, add, problems)
		}
	}
	if add, problems := edit(`[{"id": "b", "message": "m", "fireAt": 1801414800000, "cron": "@Daily"}]`); add == nil || add.Cron != "0 0 * * *" {
		t.Errorf("a calendar by its name: %+v, %v", add, problems)
	}
	for name, entries := range map[string]string{
		"an interval, too":    `[{"id": "b", "message": "m", "fireAt": 1801414800000, "everySeconds": 60, "repeats": "day"}]`,
		"a calendar, too":     `[{"id": "b", "message": "m", "fireAt": 1801414800000, "cron": "0 9 * * *", "repeats": "day"}]`,
		"no rule":             `[{"id": "b", "message": "m", "fireAt": 1801414800000, "repeats": "sometimes"}]`,
		"a zone that is none": `[{"id": "b", "message": "m", "fireAt": 1801414800000, "repeats": "day", "timeZone": "Mars/Olympus"}]`,
		"no first time":       `[{"id": "b", "message": "m", "fireAt": 1801414800000, "repeats": "day", "from": "noon"}]`,
	} {
		if add, problems := edit(entries); add != nil || len(problems) != 1 {
			t.Errorf("%s: %+v, %v", name, add, problems)
		}
	}
}

func replaced(t *testing.T, text, old, by string) string {
	t.Helper()
	before, after, found := strings.Cut(text, old)
	if !found {
		t.Fatalf("%s is not in %s", old, text)
	}
	return before + by + after
}
