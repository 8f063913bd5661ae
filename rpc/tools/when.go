package tools

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"heartbeat-mcpl/projection"
)

// mostTimeText is how long the text of a time may be.
const mostTimeText = 100

// Moment is a time that somebody gave.
type Moment struct {
	At   time.Time
	Wall time.Time      // what the clock on the wall shows then, told as if it were UTC: as it was said, also where no clock shows it
	Zone *time.Location // of Wall
}

// ParseWhen reads a time that lies ahead, as people and agents give it (SPEC 5.8): ISO 8601, also behind its weekday; a time of day
// such as 15:00, the next one that is still to come; today, tomorrow or a weekday before it; or a length of time from now, such as
// in 2h. What has no offset of its own is in the zone.
func ParseWhen(text string, now time.Time, zone *time.Location) (Moment, error) {
	return when{now, zone, false}.read(text)
}

// ParseSince is [ParseWhen] for a time that lies behind: a time of day is the last one, a length of time is that long ago.
func ParseSince(text string, now time.Time, zone *time.Location) (Moment, error) {
	return when{now, zone, true}.read(text)
}

// when is what a time that is given depends on.
type when struct {
	now  time.Time
	zone *time.Location
	past bool
}

const weekdayNames = `sun(?:day)?|mon(?:day)?|tue(?:s|sday)?|wed(?:nesday)?|thu(?:r|rs|rsday)?|fri(?:day)?|sat(?:urday)?`

var (
	dayForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:(today|tomorrow|yesterday|` + weekdayNames + `),?(?: at)? )?(\d{1,2}):(\d{2})(?::(\d{2}))?$`)
	})
	namedForm  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(` + weekdayNames + `),? (\d{4}.*)$`) })
	lengthForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(in )?(.+?)( ago)?$`) })
)

func (w when) read(text string) (Moment, error) {
	if len(text) > mostTimeText {
		return Moment{}, w.wrongForm()
	}
	text = strings.Join(strings.Fields(text), " ")
	said := strings.ToLower(text)
	if m := dayForm().FindStringSubmatch(said); m != nil {
		return w.ofDay(m)
	}
	if m := namedForm().FindStringSubmatchIndex(said); m != nil {
		at, err := w.iso(text[m[4]:])
		if err == nil && !isDay(said[:m[3]], at.Wall.Weekday()) {
			err = fmt.Errorf("%s is a %s", at.Wall.Format(time.DateOnly), at.Wall.Weekday())
		}
		return at, err
	}
	if m := lengthForm().FindStringSubmatch(said); m != nil {
		in, length, ago := m[1] != "", m[2], m[3] != ""
		if ms, err := ParseLength(length); err == nil {
			return w.away(ms, in, ago)
		}
	}
	return w.iso(text)
}

// wrongForm says which times can be read, with an example that lies ahead.
func (w when) wrongForm() error {
	day := projection.WallOf(w.now.UnixMilli(), w.zone).AddDate(0, 0, 3)
	length := "in 2h"
	if w.past {
		day, length = day.AddDate(0, 0, -6), "2h for two hours ago"
	}
	return fmt.Errorf("give a time such as %sT15:00 or %s 15:00, or %s", day.Format(time.DateOnly), strings.ToLower(day.Format("Mon")), length)
}

// away is a length of time from now, or before it.
func (w when) away(ms int64, in, ago bool) (Moment, error) {
	switch {
	case in && ago, ago && !w.past:
		return Moment{}, w.wrongForm()
	case in && w.past:
		return Moment{}, fmt.Errorf("it lies ahead: %w", w.wrongForm())
	case w.past:
		ms = -ms
	}
	at := w.now.Add(time.Duration(ms) * time.Millisecond)
	return Moment{at, projection.WallOf(at.UnixMilli(), w.zone), w.zone}, nil
}

// ofDay is a time of day, on the day that is named or on the first one on which it is still to come.
func (w when) ofDay(m []string) (Moment, error) {
	n := func(i int) int { v, _ := strconv.Atoi(m[i]); return v } // digits, by the form; 0 for what is left out
	hours, minutes, seconds := n(2), n(3), n(4)
	if hours > 23 || minutes > 59 || seconds > 59 {
		return Moment{}, errNoTimeOfDay
	}
	today := projection.WallOf(w.now.UnixMilli(), w.zone)
	on := func(days int) Moment {
		wall := time.Date(today.Year(), today.Month(), today.Day()+days, hours, minutes, seconds, 0, time.UTC)
		return Moment{projection.InZone(wall, w.zone), wall, w.zone}
	}
	step := 1
	if w.past {
		step = -1
	}
	switch day := m[1]; day {
	case "today", "tomorrow", "yesterday":
		at := on(map[string]int{"today": 0, "tomorrow": 1, "yesterday": -1}[day])
		if at.At.After(w.now) == w.past {
			return at, fmt.Errorf("%s: %w", map[bool]string{false: "it is past", true: "it lies ahead"}[w.past], w.wrongForm())
		}
		return at, nil
	default:
		for days := 0; ; days += step { // within eight days
			if at := on(days); at.At.After(w.now) != w.past && (day == "" || isDay(day, at.Wall.Weekday())) {
				return at, nil
			}
		}
	}
}

// isDay says whether the day has that name, in full or cut short.
func isDay(name string, day time.Weekday) bool {
	return strings.HasPrefix(strings.ToLower(day.String()), name[:3])
}

// isoForm is ISO 8601's extended and basic form, a date alone or with a time; seconds, fraction and offset may be left out.
// Behind it may stand a zone in brackets, as this server prints times (RFC 9557).
var isoForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\d{4})(-?)(\d{2})(-?)(\d{2})` +
		`(?:[Tt ](\d{2})(?:(:?)(\d{2})(?:(:?)(\d{2})(?:[.,](\d+))?)?)?\s?(Z|z|[+-]\d{2}(?::?\d{2})?)?)?` +
		`(?: ?\[([^\[\]]+)\])?$`)
})

var errNoTimeOfDay = errors.New("there is no such time of day")

// iso reads a time in ISO 8601 or RFC 3339.
func (w when) iso(text string) (Moment, error) {
	m := isoForm().FindStringSubmatch(strings.TrimSpace(text))
	if m == nil || m[2] != m[4] || m[10] != "" && m[7] != m[9] {
		return Moment{}, w.wrongForm()
	}
	wall, err := wallOf(m)
	if err != nil {
		return Moment{}, err
	}
	zone := w.zone
	if name := m[13]; name != "" {
		if zone, err = time.LoadLocation(name); err != nil || name == "Local" {
			return Moment{}, fmt.Errorf("%q is no time zone", name)
		}
	}
	at := Moment{projection.InZone(wall, zone), wall, zone}
	if offset := m[12]; offset != "" {
		seconds, err := offsetOf(offset)
		if err != nil {
			return Moment{}, err
		}
		at.At = wall.Add(-time.Duration(seconds) * time.Second)
		if _, have := at.At.In(zone).Zone(); m[13] != "" && have != seconds {
			return Moment{}, fmt.Errorf("%s is not the offset of %s at that time", offset, zone)
		}
		at.Wall = projection.WallOf(at.At.UnixMilli(), zone)
	}
	if at.At.Year() > 9999 || at.At.UTC().Year() > 9999 {
		return Moment{}, errors.New("the year 9999 is the last")
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
		return time.Time{}, errNoTimeOfDay
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
