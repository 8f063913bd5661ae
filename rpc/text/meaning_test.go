package text

import (
	"testing"
	"time"
	_ "time/tzdata" // as in the binary

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

func TestMeaning(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 12, 7, 8, 12, 13, 0, berlin).UnixMilli()
	at := func(month time.Month, day, hour, minute int) int64 {
		return time.Date(2026, month, day, hour, minute, 0, 0, berlin).UnixMilli()
	}
	recurring := func(fireAt, everyMs int64, d journal.Details) *projection.Reminder {
		r := &projection.Reminder{ID: "r", Message: "m", FireAt: fireAt, EveryMs: everyMs}
		if d.Cron != "" || d.Repeats != "" {
			d.Zone = "Europe/Berlin"
		}
		r.SetDetails(d)
		return r
	}
	for _, c := range []struct {
		name string
		r    *projection.Reminder
		want string
	}{
		{"once", recurring(at(12, 31, 18, 0), 0, journal.Details{}), "That is Thursday, 24 days 9 hours from now."},
		{"soon", recurring(now+90_000, 0, journal.Details{}), "That is Monday, 1 minute 30 seconds from now."},
		{"in one unit", recurring(now+3600_000+5000, 0, journal.Details{}), "That is Monday, 1 hour from now."},
		{"now", recurring(now, 0, journal.Details{}), "That is now."},
		{"past", recurring(now-3*86400_000, 0, journal.Details{}), "That is Friday, 3 days ago: it comes at once."},
		{"a calendar", recurring(at(12, 31, 18, 0), 0, journal.Details{Cron: "0 18 L * *"}),
			"That is Thursday, 24 days 9 hours from now. Then Sun 2027-01-31 18:00, Sun 2027-02-28 18:00, Wed 2027-03-31 18:00."},
		{"either day", recurring(at(12, 14, 10, 0), 0, journal.Details{Cron: "0 10 1-7 * 1"}),
			"That is Monday, 7 days 1 hour from now. Then Mon 2026-12-21 10:00, Mon 2026-12-28 10:00, Fri 2027-01-01 10:00. In cron either is enough, the day of the month or the weekday; " +
				"for both write 1#1 as the weekday (the first Monday of a month) or 5L (its last Friday), with * as the day."},
		{"a rule", recurring(at(12, 10, 15, 0), 0, journal.Details{Repeats: "2 weeks", From: "2026-12-10T15:00:00"}),
			"That is Thursday, 3 days 6 hours from now. Then Thu 2026-12-24 15:00, Thu 2027-01-07 15:00, Thu 2027-01-21 15:00."},
		{"an interval, with its seconds", recurring(now+90_000, 90_000, journal.Details{}),
			"That is Monday, 1 minute 30 seconds from now. Then Mon 2026-12-07 08:15:13, Mon 2026-12-07 08:16:43, Mon 2026-12-07 08:18:13."},
		{"late, its next slots lie ahead", recurring(now-5000, 3600_000, journal.Details{}),
			"That is Monday, 5 seconds ago: it comes at once. Then Mon 2026-12-07 09:12:08, Mon 2026-12-07 10:12:08, Mon 2026-12-07 11:12:08."},
		{"twice", recurring(at(12, 8, 9, 0), 0, journal.Details{Cron: "0 9 * * *", Left: 2}),
			"That is Tuesday, 1 day from now. Then Wed 2026-12-09 09:00, and no more."},
		{"until it first comes", recurring(at(12, 8, 9, 0), 0, journal.Details{Cron: "0 9 * * *", Until: at(12, 8, 9, 0)}),
			"That is Tuesday, 1 day from now. Then no more."},
	} {
		if got := Meaning(c.r, c.r.Then(MostThen, now), now, berlin); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}
