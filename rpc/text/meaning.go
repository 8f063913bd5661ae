package text

import (
	"fmt"
	"strings"
	"time"

	"heartbeat-mcpl/projection"
)

// MostThen is how many of a recurring reminder's next times a reply names.
const MostThen = 3

// Meaning is the second line of the reply to reminder_add: it lets an agent see whether it said what it meant (SPEC 5.4). then are
// the times after the next one.
func Meaning(r *projection.Reminder, then []int64, now int64, zone *time.Location) string {
	said := fmt.Sprintf("That is %s, %s", Weekday(r.FireAt, zone), Away(r.FireAt, now))
	switch {
	case r.FireAt > now:
		said += " from now."
	case r.FireAt == now:
		said = "That is now."
	default:
		said += ": it comes at once."
	}
	if !r.Recurring() {
		return said
	}
	var times []string
	for _, ms := range then {
		times = append(times, dayAndTime(ms, zone))
	}
	switch {
	case len(then) == MostThen:
		said += " Then " + strings.Join(times, ", ") + "."
	case len(then) > 0:
		said += " Then " + strings.Join(times, ", ") + ", and no more."
	default:
		said += " Then no more."
	}
	if caution := Caution(r); caution != "" {
		said += " " + caution
	}
	return said
}

// Caution is what a reminder may not mean: of a day of the month and a weekday, either is enough in cron.
func Caution(r *projection.Reminder) string {
	if !projection.CronEither(r.Details().Cron) {
		return ""
	}
	return "In cron either is enough, the day of the month or the weekday; for both write 1#1 as the weekday (the first Monday of a month) or 5L (its last Friday), with * as the day."
}

// dayAndTime is a time with its weekday: Thu 2027-01-28 18:00.
func dayAndTime(ms int64, zone *time.Location) string {
	t := time.UnixMilli(ms).In(zone)
	if t.Second() != 0 {
		return t.Format("Mon 2006-01-02 15:04:05")
	}
	return t.Format("Mon 2006-01-02 15:04")
}

// Weekday is the day of the week in the zone.
func Weekday(ms int64, zone *time.Location) string {
	return time.UnixMilli(ms).In(zone).Weekday().String()
}

// Offset is a time as data for an agent carries it: with the zone's offset, in whole seconds.
func Offset(ms int64, zone *time.Location) string {
	return time.UnixMilli(ms).In(zone).Format("2006-01-02T15:04:05-07:00")
}

// Offsets are times as [Offset] writes them.
func Offsets(all []int64, zone *time.Location) []string {
	said := make([]string, len(all))
	for i, ms := range all {
		said[i] = Offset(ms, zone)
	}
	return said
}

// Away is how far away a time is, in its two largest units: 24 days 9 hours; "2 hours ago" for one that is past.
func Away(ms, now int64) string {
	if ms < now {
		return inUnits(now-ms, longUnit, " ") + " ago"
	}
	return inUnits(ms-now, longUnit, " ")
}

// shortAway is a length in its two largest units: 24d 9h.
func shortAway(ms int64) string {
	return inUnits(ms, func(n int64, unit string) string { return fmt.Sprintf("%d%c", n, unit[0]) }, " ")
}

func longUnit(n int64, unit string) string { return Plural(int(n), unit) }

// inUnits is a length in its two largest units that follow one on the other, in whole seconds.
func inUnits(ms int64, say func(n int64, unit string) string, between string) string {
	rest := ms / 1000
	var parts []string
	for _, u := range []struct {
		seconds int64
		name    string
	}{{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}} {
		n := rest / u.seconds
		rest %= u.seconds
		if n > 0 {
			parts = append(parts, say(n, u.name))
		}
		if n == 0 && len(parts) > 0 || len(parts) == 2 {
			break
		}
	}
	if len(parts) == 0 {
		return say(0, "second")
	}
	return strings.Join(parts, between)
}
