package tools

import (
	"strings"
	"testing"
	"time"

	"heartbeat-mcpl/projection"
)

func TestTimesAsAgentsSayThem(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, ahead, behind string }{ // empty: refused
		{"a time of day that is still to come", "15:00", "2026-12-07T15:00:00+01:00", "2026-12-06T15:00:00+01:00"},
		{"one that is past", "9:00", "2026-12-08T09:00:00+01:00", "2026-12-07T09:00:00+01:00"},
		{"with seconds", "09:12:14", "2026-12-07T09:12:14+01:00", "2026-12-06T09:12:14+01:00"},
		{"this very moment", "09:12:13", "2026-12-08T09:12:13+01:00", "2026-12-07T09:12:13+01:00"},
		{"today", "today 15:00", "2026-12-07T15:00:00+01:00", ""},
		{"today, past", "today 08:00", "", "2026-12-07T08:00:00+01:00"},
		{"tomorrow", "Tomorrow at 08:15", "2026-12-08T08:15:00+01:00", ""},
		{"yesterday", "yesterday 22:00", "", "2026-12-06T22:00:00+01:00"},
		{"a weekday", "thu 15:00", "2026-12-10T15:00:00+01:00", "2026-12-03T15:00:00+01:00"},
		{"its whole name", "Thursday, 15:00", "2026-12-10T15:00:00+01:00", "2026-12-03T15:00:00+01:00"},
		{"this weekday, still to come", "mon  15:00", "2026-12-07T15:00:00+01:00", "2026-11-30T15:00:00+01:00"},
		{"this weekday, past", "monday 08:00", "2026-12-14T08:00:00+01:00", "2026-12-07T08:00:00+01:00"},
		{"a length", "2h", "2026-12-07T11:12:13+01:00", "2026-12-07T07:12:13+01:00"},
		{"a length from now", "in 1 hour 30 min", "2026-12-07T10:42:13+01:00", ""},
		{"a length ago", "90m ago", "", "2026-12-07T07:42:13+01:00"},
		{"ISO 8601", "2026-12-10T15:00", "2026-12-10T15:00:00+01:00", "2026-12-10T15:00:00+01:00"},
		{"as replies say it", "Thu 2026-12-10 15:00", "2026-12-10T15:00:00+01:00", "2026-12-10T15:00:00+01:00"},
		{"with a zone", "thu 2026-12-10T15:00 [Asia/Tokyo]", "2026-12-10T07:00:00+01:00", "2026-12-10T07:00:00+01:00"},
		{"another weekday than the day has", "Fri 2026-12-10 15:00", "", ""},
		{"a day without a time", "tomorrow", "", ""},
		{"a weekday without a time", "thu", "", ""},
		{"another language", "morgen 15:00", "", ""},
		{"a number", "15", "", ""},
		{"a time that is none", "25:00", "", ""},
		{"both ways at once", "in 2h ago", "", ""},
		{"a month", "in 1 month", "", ""},
		{"nothing", "", "", ""},
		{"too much", "2h" + strings.Repeat(" ", 200), "", ""},
	} {
		for _, way := range []struct {
			read func(string, time.Time, *time.Location) (projection.GivenTime, error)
			want string
		}{{ParseWhen, c.ahead}, {ParseSince, c.behind}} {
			got, err := way.read(c.text, monday, berlin)
			if text := got.At.In(berlin).Format(time.RFC3339); err == nil && text != way.want || err != nil && way.want != "" {
				t.Errorf("%s: %q is %s, %v; want %q", c.name, c.text, text, err, way.want)
			}
		}
	}
}

func TestTimesAroundChangesOfTheClocks(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, now, text, want, wall string }{
		{"a skipped one moves forward by what is skipped", "2027-03-27T23:00:00Z", "02:30", "2027-03-28T03:30:00+02:00", "02:30"},
		{"one that comes twice is the earlier", "2026-10-24T23:00:00Z", "02:30", "2026-10-25T02:30:00+02:00", "02:30"},
		{"in the second pass it is over", "2026-10-25T01:10:00Z", "02:30", "2026-10-26T02:30:00+01:00", "02:30"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseWhen(c.text, now, berlin)
		if err != nil || got.At.In(berlin).Format(time.RFC3339) != c.want || got.Wall.Format("15:04") != c.wall {
			t.Errorf("%s: %+v, %v, want %s", c.name, got, err, c.want)
		}
	}
}

// TestRefusedTimesComeWithAnExampleThatIsRightToday: the example itself is read, as a time that lies ahead, or behind.
func TestRefusedTimesComeWithAnExampleThatIsRightToday(t *testing.T) {
	for days := range 8 {
		now := monday.AddDate(0, 0, days)
		for _, ahead := range []bool{true, false} {
			read := ParseSince
			if ahead {
				read = ParseWhen
			}
			_, err := read("soon", now, time.UTC)
			if err == nil {
				t.Fatal("soon is a time")
			}
			_, examples, _ := strings.Cut(err.Error(), "such as ")
			examples, _, _ = strings.Cut(examples, ", or")
			iso, day, _ := strings.Cut(examples, " or ")
			a, errA := read(iso, now, time.UTC)
			b, errB := read(day, now, time.UTC)
			if errA != nil || errB != nil || !a.At.Equal(b.At) || a.At.After(now) != ahead {
				t.Errorf("%v: %s is %v, %v; %s is %v, %v", err, iso, a.At, errA, day, b.At, errB)
			}
		}
	}
}
