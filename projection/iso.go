package projection

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// MostTimeText is how long the text of a time may be, in bytes.
const MostTimeText = 100

// GivenTime is a time that somebody gave.
type GivenTime struct {
	At   time.Time
	Wall time.Time      // what the clock on the wall shows then, told as if it were UTC: as it was said, also where no clock shows it
	Zone *time.Location // of Wall
}

// isoForm is ISO 8601's extended and basic form, a date alone or with a time; seconds, fraction and offset may be left out.
// Behind it may stand a zone in brackets, as this server prints times (RFC 9557).
var isoForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\d{4})(-?)(\d{2})(-?)(\d{2})` +
		`(?:[Tt ](\d{2})(?:(:?)(\d{2})(?:(:?)(\d{2})(?:[.,](\d+))?)?)?\s?(Z|z|[+-]\d{2}(?::?\d{2})?)?)?` +
		`(?: ?\[([^\[\]]+)\])?$`)
})

// ErrNoTimeOfDay says that a day has no such time.
var ErrNoTimeOfDay = errors.New("there is no such time of day")

// ErrTimeForm says that a text is no time in ISO 8601.
var ErrTimeForm = errors.New("give a time in ISO 8601, such as 2026-10-10T08:30:00-07:00 or 2026-10-10T08:30")

// ParseISO reads a time in ISO 8601 or RFC 3339 (SPEC 5.4). Without an offset it is in the zone: a time that a change of
// the clocks skips moves forward by what was skipped, one that comes twice is the earlier.
func ParseISO(text string, zone *time.Location) (GivenTime, error) {
	m := isoForm().FindStringSubmatch(strings.TrimSpace(text))
	if m == nil || len(text) > MostTimeText || m[2] != m[4] || m[10] != "" && m[7] != m[9] {
		return GivenTime{}, ErrTimeForm
	}
	wall, err := wallOf(m)
	if err != nil {
		return GivenTime{}, err
	}
	if name := m[13]; name != "" {
		if zone, err = time.LoadLocation(name); err != nil || name == "Local" {
			return GivenTime{}, fmt.Errorf("%q is no time zone", name)
		}
	}
	at := GivenTime{InZone(wall, zone), wall, zone}
	if offset := m[12]; offset != "" {
		seconds, err := offsetOf(offset)
		if err != nil {
			return GivenTime{}, err
		}
		at.At = wall.Add(-time.Duration(seconds) * time.Second)
		if _, have := at.At.In(zone).Zone(); m[13] != "" && have != seconds {
			return GivenTime{}, fmt.Errorf("%s is not the offset of %s at that time", offset, zone)
		}
		at.Wall = WallOf(at.At.UnixMilli(), zone)
	}
	if at.At.Year() > 9999 || at.At.UTC().Year() > 9999 {
		return GivenTime{}, errors.New("the year 9999 is the last")
	}
	return at, nil
}

// wallOf is what the form says, told as if it were UTC.
func wallOf(m []string) (time.Time, error) {
	n := func(i int) int {
		v, err := strconv.Atoi(m[i])
		if err != nil {
			return 0 // left out; the form lets only digits through
		}
		return v
	}
	year, month, day, hours, minutes, seconds := n(1), n(3), n(5), n(6), n(8), n(10)
	if year == 0 || month < 1 || month > 12 || day < 1 || time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() != day {
		return time.Time{}, fmt.Errorf("there is no day %s-%s-%s", m[1], m[3], m[5])
	}
	midnight := hours == 24 && minutes == 0 && seconds == 0 && strings.Trim(m[11], "0") == ""
	if !midnight && (hours > 23 || minutes > 59 || seconds > 59) {
		return time.Time{}, ErrNoTimeOfDay
	}
	nanos := 0
	if m[11] != "" {
		nanos, _ = strconv.Atoi((m[11] + "000000000")[:9]) // digits, by the form
	}
	return time.Date(year, time.Month(month), day, hours, minutes, seconds, nanos, time.UTC), nil
}

func offsetOf(text string) (int, error) {
	if text == "Z" || text == "z" {
		return 0, nil
	}
	digits := strings.ReplaceAll(text[1:], ":", "")
	hours, _ := strconv.Atoi(digits[:2]) // digits, by the form
	minutes := 0
	if len(digits) == 4 {
		minutes, _ = strconv.Atoi(digits[2:])
	}
	if hours > 23 || minutes > 59 {
		return 0, fmt.Errorf("%s is no offset", text)
	}
	seconds := hours*3600 + minutes*60
	if text[0] == '-' {
		seconds = -seconds
	}
	return seconds, nil
}
