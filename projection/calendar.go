package projection

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/adhocore/gronx"
)

// Calendars count on the clock on the wall of a time zone. A wall time is told as if it were UTC, where no day lacks an hour
// or has one twice; only then is it made a point in time.

// NextCron is the first time after that (Unix milliseconds) at which the cron expression (five fields) falls in the zone. Where the
// minute or the hour begins with *, it follows elapsed time: what a change of the clocks skips does not fall, what comes twice
// falls twice. Any other time that is skipped falls once, at the change; one that comes twice falls once, the first time (SPEC 6.9).
func NextCron(expression, zone string, after int64) (int64, error) {
	location, err := loadZone(zone)
	if err != nil {
		return 0, err
	}
	if err := checkCron(expression); err != nil {
		return 0, err
	}
	if elapses(expression) {
		return nextElapsed(expression, location, after)
	}
	wall := wallClock(time.UnixMilli(after), location)
	for range 200 { // in the hour that comes twice, the times of its first pass are skipped
		if wall, err = gronx.NextTickAfter(expression, wall, false); err != nil || wall.Year() > 9998 {
			return 0, errNever
		}
		if at := firstPass(wall, location); at > after {
			return at, nil
		}
	}
	return 0, errNever
}

var (
	errNever  = errors.New("it never falls due again")
	errNoZone = errors.New("is no time zone")
)

// loadZone is the IANA zone of that name.
func loadZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" || name == "" {
		return nil, fmt.Errorf("%q %w", name, errNoZone)
	}
	return zone, nil
}

// elapses says whether an expression falls all along an hour or a day: its minute or its hour begins with *.
func elapses(expression string) bool {
	fields := strings.Fields(expression)
	return strings.HasPrefix(fields[0], "*") || strings.HasPrefix(fields[1], "*")
}

// nextElapsed goes through the times between two changes of the clocks, in each of which the wall keeps its distance from UTC.
func nextElapsed(expression string, zone *time.Location, after int64) (int64, error) {
	from := time.UnixMilli(after).Truncate(time.Minute).Add(time.Minute) // no time between two minutes falls
	for from.Year() <= 9998 {
		_, offset := from.In(zone).Zone()
		_, change := from.In(zone).ZoneBounds()
		shift := time.Duration(offset) * time.Second
		wall := from.UTC().Add(shift)
		if !wall.Truncate(time.Minute).Equal(wall) { // an offset with seconds, as they once were
			wall = wall.Truncate(time.Minute).Add(time.Minute)
		}
		wall, err := gronx.NextTickAfter(expression, wall, true)
		if err != nil {
			return 0, errNever
		}
		at := wall.Add(-shift)
		if change.IsZero() || at.Before(change) {
			return at.UnixMilli(), nil
		}
		from = change
	}
	return 0, errNever
}

var errCron = errors.New("give five fields, each in its range: minute (0-59), hour (0-23), day of the month (1-31, L), month (1-12), day of the week (0-6, SUN-SAT, 1#1, 5L), such as 0 9 * * 1-5, or @daily")

// cronNames are the expressions that have a name.
var cronNames = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *",
}

// Cron is an expression as five fields: @daily and the like are written out.
func Cron(expression string) string {
	if fields, ok := cronNames[strings.ToLower(strings.TrimSpace(expression))]; ok {
		return fields
	}
	return expression
}

// CronEither says whether a day on which either the day of the month or the weekday fits is one of the expression's: both are
// given, and neither begins with *.
func CronEither(expression string) bool {
	fields := strings.Fields(expression)
	if len(fields) != 5 {
		return false
	}
	any := func(field string) bool { return strings.HasPrefix(field, "*") || field == "?" }
	return !any(fields[2]) && !any(fields[4])
}

// checkCron takes five fields alone: what the library takes beyond them (seconds, years, its own names) is not what SPEC means.
func checkCron(expression string) error {
	if len(strings.Fields(expression)) != 5 || len(expression) > 200 || !gronx.IsValid(expression) {
		return errCron
	}
	return nil
}

// wallClock is what the clock on the wall shows at t, as if it were UTC.
func wallClock(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// firstPass is when the clock on the wall first shows that time, or passes it by: Unix milliseconds.
func firstPass(wall time.Time, zone *time.Location) int64 {
	_, before := wall.AddDate(0, 0, -1).In(zone).Zone()
	_, after := wall.AddDate(0, 0, 1).In(zone).Zone()
	early := wall.Add(-time.Duration(max(before, after)) * time.Second)
	late := wall.Add(-time.Duration(min(before, after)) * time.Second)
	for _, t := range []time.Time{early, late} {
		if wallClock(t, zone).Equal(wall) {
			return t.UnixMilli()
		}
	}
	// Skipped: the change lies between the two readings.
	_, change := early.In(zone).ZoneBounds()
	if change.IsZero() || change.After(late) {
		return late.UnixMilli()
	}
	return change.UnixMilli()
}

// Hours are the hours of a day in which the heartbeat may come, in minutes since midnight; To may be less than From, past
// midnight.
type Hours struct{ From, To int }

var hoursForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})$`)
})

// ParseHours reads hours such as 08:00-22:30.
func ParseHours(text string) (Hours, error) {
	m := hoursForm().FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return Hours{}, errors.New("give hours such as 08:00-22:30")
	}
	n := make([]int, 5)
	for i := 1; i < 5; i++ {
		n[i], _ = strconv.Atoi(m[i]) // digits, by the form
	}
	h := Hours{n[1]*60 + n[2], n[3]*60 + n[4]}
	if n[2] > 59 || n[4] > 59 || h.From >= 24*60 || h.To > 24*60 || h.From == h.To {
		return Hours{}, errors.New("there are no such hours; give two times of a day such as 08:00-22:30")
	}
	return h, nil
}

func (h Hours) hold(minute int) bool {
	if h.From < h.To {
		return minute >= h.From && minute < h.To
	}
	return minute >= h.From || minute < h.To
}

// NextActive is the first time from ms on (Unix milliseconds) that lies in the active hours of the zone; ms itself where the
// hours are always.
func (c *Config) NextActive(ms int64, zone *time.Location) int64 {
	if c.Active == "" {
		return ms
	}
	h, err := ParseHours(c.Active)
	if err != nil {
		return ms
	}
	wall := wallClock(time.UnixMilli(ms), zone)
	if h.hold(wall.Hour()*60 + wall.Minute()) {
		return ms
	}
	day := time.Date(wall.Year(), wall.Month(), wall.Day(), 0, h.From, 0, 0, time.UTC)
	for range 3 {
		if at := firstPass(day, zone); at >= ms {
			return at
		}
		day = day.AddDate(0, 0, 1)
	}
	return ms
}
