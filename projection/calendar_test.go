package projection

import (
	"testing"
	"time"

	_ "time/tzdata" // as in the binary

	"heartbeat-mcpl/journal"
)

func at(t *testing.T, text string) int64 {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when.UnixMilli()
}

func TestCronFallsOnTheWallClockOnce(t *testing.T) {
	for _, c := range []struct {
		name, cron, zone string
		times            []string // each is the next after the one before
	}{
		{"each working day", "0 9 * * 1-5", "America/Los_Angeles",
			[]string{"2026-10-09T09:00:00-07:00", "2026-10-12T09:00:00-07:00", "2026-10-13T09:00:00-07:00"}},
		{"through a change to winter time", "30 8 * * *", "America/Los_Angeles",
			[]string{"2026-10-31T08:30:00-07:00", "2026-11-01T08:30:00-08:00", "2026-11-02T08:30:00-08:00"}},
		{"a skipped time falls at the change", "30 2 * * *", "America/Los_Angeles",
			[]string{"2026-03-07T02:30:00-08:00", "2026-03-08T03:00:00-07:00", "2026-03-09T02:30:00-07:00"}},
		{"several skipped times fall at the change once", "0,20,40 2 * * *", "America/Los_Angeles",
			[]string{"2026-03-07T02:40:00-08:00", "2026-03-08T03:00:00-07:00", "2026-03-09T02:00:00-07:00"}},
		{"what falls all along an hour does not fall in one that is skipped", "*/20 2 * * *", "America/Los_Angeles",
			[]string{"2026-03-07T02:40:00-08:00", "2026-03-09T02:00:00-07:00"}},
		{"a skipped time and one at the change fall once", "0,30 2,3 * * *", "America/Los_Angeles",
			[]string{"2026-03-07T03:30:00-08:00", "2026-03-08T03:00:00-07:00", "2026-03-08T03:30:00-07:00"}},
		{"a repeated time falls once, the first time", "30 1 * * *", "America/Los_Angeles",
			[]string{"2026-10-31T01:30:00-07:00", "2026-11-01T01:30:00-07:00", "2026-11-02T01:30:00-08:00"}},
		{"what falls all along a day falls in both passes", "*/30 * * * *", "America/Los_Angeles",
			[]string{"2026-11-01T01:00:00-07:00", "2026-11-01T01:30:00-07:00", "2026-11-01T01:00:00-08:00", "2026-11-01T01:30:00-08:00", "2026-11-01T02:00:00-08:00"}},
		{"each quarter of an hour, also when the clocks go back", "*/15 * * * *", "Europe/London",
			[]string{"2027-10-31T01:30:00+01:00", "2027-10-31T01:45:00+01:00", "2027-10-31T01:00:00+00:00", "2027-10-31T01:15:00+00:00"}},
		{"each hour, also when the clocks go back", "0 * * * *", "Europe/London",
			[]string{"2027-10-31T01:00:00+01:00", "2027-10-31T01:00:00+00:00", "2027-10-31T02:00:00+00:00"}},
		{"the last day of a month", "0 18 L * *", "UTC", []string{"2027-01-31T18:00:00Z", "2027-02-28T18:00:00Z", "2027-03-31T18:00:00Z"}},
		{"the first Monday", "0 10 * * 1#1", "UTC", []string{"2026-12-07T10:00:00Z", "2027-01-04T10:00:00Z", "2027-02-01T10:00:00Z"}},
		{"the last Friday", "0 10 * * 5L", "UTC", []string{"2026-12-25T10:00:00Z", "2027-01-29T10:00:00Z", "2027-02-26T10:00:00Z"}},
		{"either a day of the month or a weekday", "0 10 1-2 * 1", "UTC", []string{"2026-11-30T10:00:00Z", "2026-12-01T10:00:00Z", "2026-12-02T10:00:00Z", "2026-12-07T10:00:00Z"}},
		{"a change of half an hour", "15 2 * * *", "Australia/Lord_Howe",
			[]string{"2026-10-03T02:15:00+10:30", "2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"a leap day", "0 0 29 2 *", "UTC", []string{"2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, want := range c.times[1:] {
				got, err := NextCron(c.cron, c.zone, at(t, c.times[i]))
				if err != nil || got != at(t, want) {
					t.Errorf("after %s comes %s, %v; want %s", c.times[i], Instant(got), err, want)
				}
			}
		})
	}
	for _, cron := range []string{"", "0 9 * *", "0 9 * * * *", "@daily", "61 * * * *", "x * * * *", "0 0 31 2 *"} {
		if got, err := NextCron(cron, "UTC", at(t, "2026-01-01T00:00:00Z")); err == nil {
			t.Errorf("%q falls at %s", cron, Instant(got))
		}
	}
	if _, err := NextCron("0 9 * * *", "Mars/Olympus", 0); err == nil {
		t.Error("a zone that is none")
	}
}

func TestActiveHours(t *testing.T) {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, hours, from, want string }{
		{"always", "", "2026-10-10T03:00:00-07:00", "2026-10-10T03:00:00-07:00"},
		{"within", "08:00-22:30", "2026-10-10T22:29:59-07:00", "2026-10-10T22:29:59-07:00"},
		{"at their end", "08:00-22:30", "2026-10-10T22:30:00-07:00", "2026-10-11T08:00:00-07:00"},
		{"before they begin", "08:00-22:30", "2026-10-10T07:59:59-07:00", "2026-10-10T08:00:00-07:00"},
		{"past midnight, within", "20:00-02:00", "2026-10-10T01:59:00-07:00", "2026-10-10T01:59:00-07:00"},
		{"past midnight, outside", "20:00-02:00", "2026-10-10T02:00:00-07:00", "2026-10-10T20:00:00-07:00"},
		{"they begin in a skipped hour", "02:30-12:00", "2026-03-08T01:00:00-08:00", "2026-03-08T03:00:00-07:00"},
		{"to the end of the day", "12:00-24:00", "2026-10-10T23:59:00-07:00", "2026-10-10T23:59:00-07:00"},
	} {
		config := Config{Active: c.hours}
		if got := config.NextActive(at(t, c.from), zone); got != at(t, c.want) {
			t.Errorf("%s: %s, want %s", c.name, Instant(got), c.want)
		}
	}
	for _, text := range []string{"8-22", "08:00", "25:00-26:00", "08:60-09:00", "09:00-09:00", "24:00-08:00"} {
		if h, err := ParseHours(text); err == nil {
			t.Errorf("%q: %+v", text, h)
		}
	}
}

func TestUntilAndCountEndARecurringReminder(t *testing.T) {
	s := New()
	index := uint64(0)
	do := func(b journal.Body, now int64) {
		index++
		s.Apply(journal.Event{Index: index, Time: now, Kind: b.Kind(), Body: b})
	}
	do(&journal.Add{ID: "a", FireAt: 1000, EveryMs: 5000, Details: journal.Details{Left: 3}}, 1)
	do(&journal.Add{ID: "b", FireAt: 1000, EveryMs: 5000, Details: journal.Details{Until: 11_000}}, 1)
	do(&journal.Add{ID: "c", FireAt: at(t, "2026-10-09T16:00:00Z"), Details: journal.Details{Cron: "0 9 * * 1-5", Zone: "America/Los_Angeles", Left: 2}}, 1)
	for id, want := range map[string]int{"a": 3, "b": 3, "c": 2} {
		taken := 0
		for r, open := s.Reminder(id); open && taken < 10; r, open = s.Reminder(id) {
			now := r.FireAt
			do(&journal.Fire{ID: id, EventID: "e", Due: now}, now)
			r, _ = s.Reminder(id)
			do(r.Ack(now), now)
			taken++
		}
		if taken != want {
			t.Errorf("%s was taken %d times, want %d", id, taken, want)
		}
	}
}
