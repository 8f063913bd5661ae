package projection

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"heartbeat-mcpl/journal"
)

// Rule repeats something every so many days, weeks, months or years at one time of day, or on each weekday (SPEC 5.9). It counts on
// the clock on the wall from its first time, so that neither a change of the clocks nor a short month moves what comes later: the
// 31st is the last day of a shorter month, and the 31st again after it. A time that a change of the clocks skips moves forward
// by what was skipped, one that comes twice is the earlier.
type Rule struct {
	n    int
	unit string // day, week, month, year or weekday
	from time.Time
	zone *time.Location
}

// The units of a rule, the names that people have for them, and how many of each are the most: 100 years.
var (
	ruleUnits = map[string]string{
		"d": "day", "day": "day", "days": "day", "w": "week", "wk": "week", "week": "week", "weeks": "week",
		"mo": "month", "month": "month", "months": "month", "y": "year", "yr": "year", "year": "year", "years": "year",
		"weekday": "weekday", "weekdays": "weekday",
	}
	ruleWords = map[string]string{"daily": "1 day", "weekly": "1 week", "monthly": "1 month", "yearly": "1 year"}
	ruleMost  = map[string]int{"day": 36525, "week": 5217, "month": 1200, "year": 100, "weekday": 1}
)

var ruleForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:(\d{1,6})\s*)?([a-z]+)$`) })

// errNoRule says that a text is no rule, but may be a length of time.
var errNoRule = errors.New("give days, weeks, months or years such as 1 day, 2 weeks or 1 month, or weekday")

// ParseRule is a rule in its one form, such as 2 weeks, out of what people write: 2w, day, daily, weekday. False: it is none. An
// error says what is wrong with one.
func ParseRule(text string) (rule string, isRule bool, err error) {
	text = strings.ToLower(strings.TrimSpace(text))
	if word, ok := ruleWords[text]; ok {
		return word, true, nil
	}
	m := ruleForm().FindStringSubmatch(text)
	if m == nil || ruleUnits[m[2]] == "" {
		return "", false, nil
	}
	n, unit := 1, ruleUnits[m[2]]
	if m[1] != "" {
		n, _ = strconv.Atoi(m[1]) // digits, by the form
	}
	switch {
	case n < 1 || n > ruleMost[unit] && unit != "weekday":
		return "", true, fmt.Errorf("give 1 to %d %ss", ruleMost[unit], unit)
	case unit == "weekday" && n > 1:
		return "", true, errors.New("weekday is each day from Monday to Friday: give it without a number, or days or weeks")
	case unit == "weekday":
		return unit, true, nil
	case n == 1:
		return "1 " + unit, true, nil
	}
	return fmt.Sprintf("%d %ss", n, unit), true, nil
}

// wallForm is how a rule's first time is written: as the clock on the wall shows it, with the fraction that it has.
const wallForm = "2006-01-02T15:04:05.999"

// RuleFrom is a rule's first time in its one form, out of what the clock on the wall shows, told as if it were UTC.
func RuleFrom(wall time.Time) string { return wall.Truncate(time.Millisecond).Format(wallForm) }

// RuleOf is the rule of a reminder's details in the zone.
func RuleOf(d *journal.Details, zone string) (r Rule, err error) {
	if r.zone, err = loadZone(zone); err != nil {
		return r, err
	}
	text, isRule, err := ParseRule(d.Repeats)
	if !isRule || err != nil {
		return r, errors.Join(errNoRule, err)
	}
	r.n = 1
	number, unit, several := strings.Cut(text, " ")
	if several {
		r.n, _ = strconv.Atoi(number) // digits, by the form
		r.unit = strings.TrimSuffix(unit, "s")
	} else {
		r.unit = text
	}
	if r.from, err = time.ParseInLocation(wallForm, d.From, time.UTC); err != nil {
		return r, fmt.Errorf("from %q is no time such as 2026-10-10T09:00:00", d.From)
	}
	return r, nil
}

// Next is the rule's first time after that, in Unix milliseconds; no time is before its first one.
func (r Rule) Next(after int64) (int64, error) {
	low := 0
	if days := int(wallClock(time.UnixMilli(after), r.zone).Sub(r.from).Hours() / 24); days > 0 {
		low = max(0, days/r.longest()-2) // the changes of the clocks are within a day or two
	}
	for k := low; ; k++ {
		wall := r.wall(k)
		if wall.Year() > 9998 {
			return 0, errors.New("it never falls due again")
		}
		if r.unit == "weekday" && (wall.Weekday() == time.Saturday || wall.Weekday() == time.Sunday) {
			continue
		}
		if at := InZone(wall, r.zone).UnixMilli(); at > after {
			return at, nil
		}
	}
}

// Holds says whether the time is one of the rule's.
func (r Rule) Holds(ms int64) bool {
	next, err := r.Next(ms - 1)
	return err == nil && next == ms
}

// longest is how many days lie between two of the rule's times at most.
func (r Rule) longest() int {
	days := map[string]int{"day": 1, "week": 7, "month": 31, "year": 366, "weekday": 1}
	return r.n * days[r.unit]
}

// wall is the rule's time number k on the wall, counted from 0.
func (r Rule) wall(k int) time.Time {
	k *= r.n
	switch r.unit {
	case "week":
		return r.from.AddDate(0, 0, 7*k)
	case "month":
		return addMonths(r.from, k)
	case "year":
		return addMonths(r.from, 12*k)
	}
	return r.from.AddDate(0, 0, k)
}

// addMonths is the same day of a later month, or the last one of a month that does not have it.
func addMonths(from time.Time, months int) time.Time {
	month := time.Date(from.Year(), from.Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
	last := month.AddDate(0, 1, -1).Day()
	return month.AddDate(0, 0, min(from.Day(), last)-1).Add(from.Sub(from.Truncate(24 * time.Hour)))
}

// WallOf is what the clock on the wall of the zone shows at the time, told as if it were UTC.
func WallOf(ms int64, zone *time.Location) time.Time { return wallClock(time.UnixMilli(ms), zone) }

// InZone is when the clock on the wall of the zone shows a time that is told as if it were UTC: one that a change of the clocks
// skips moves forward by what was skipped, one that comes twice is the earlier (SPEC 5.4).
func InZone(wall time.Time, zone *time.Location) time.Time {
	at := func(offset int) time.Time { return wall.Add(-time.Duration(offset) * time.Second) }
	_, before := wall.AddDate(0, 0, -1).In(zone).Zone()
	_, after := wall.AddDate(0, 0, 1).In(zone).Zone()
	for _, t := range []time.Time{at(max(before, after)), at(min(before, after))} {
		if wallClock(t, zone).Equal(wall) {
			return t
		}
	}
	return at(before) // the old offset shows a time after the change
}
