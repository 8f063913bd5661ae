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

// ParseWhen reads a time that lies ahead, as people and agents give it (SPEC 5.8): ISO 8601, also behind its weekday; a time of day
// such as 15:00, the next one that is still to come; today, tomorrow or a weekday before it; or a length of time from now, such as
// in 2h. What has no offset of its own is in the zone.
func ParseWhen(text string, now time.Time, zone *time.Location) (projection.GivenTime, error) {
	return when{now, zone, false}.read(text)
}

// ParseSince is [ParseWhen] for a time that lies behind: a time of day is the last one, a length of time is that long ago.
func ParseSince(text string, now time.Time, zone *time.Location) (projection.GivenTime, error) {
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

func (w when) read(text string) (projection.GivenTime, error) {
	if len(text) > projection.MostTimeText {
		return projection.GivenTime{}, w.wrongForm()
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
func (w when) away(ms int64, in, ago bool) (projection.GivenTime, error) {
	switch {
	case in && ago, ago && !w.past:
		return projection.GivenTime{}, w.wrongForm()
	case in && w.past:
		return projection.GivenTime{}, fmt.Errorf("it lies ahead: %w", w.wrongForm())
	case w.past:
		ms = -ms
	}
	at := w.now.Add(time.Duration(ms) * time.Millisecond)
	return projection.GivenTime{At: at, Wall: projection.WallOf(at.UnixMilli(), w.zone), Zone: w.zone}, nil
}

// ofDay is a time of day, on the day that is named or on the first one on which it is still to come.
func (w when) ofDay(m []string) (projection.GivenTime, error) {
	n := func(i int) int { v, _ := strconv.Atoi(m[i]); return v } // digits, by the form; 0 for what is left out
	hours, minutes, seconds := n(2), n(3), n(4)
	if hours > 23 || minutes > 59 || seconds > 59 {
		return projection.GivenTime{}, projection.ErrNoTimeOfDay
	}
	today := projection.WallOf(w.now.UnixMilli(), w.zone)
	on := func(days int) projection.GivenTime {
		wall := time.Date(today.Year(), today.Month(), today.Day()+days, hours, minutes, seconds, 0, time.UTC)
		return projection.GivenTime{At: projection.InZone(wall, w.zone), Wall: wall, Zone: w.zone}
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

// iso reads a time in ISO 8601 or RFC 3339.
func (w when) iso(text string) (projection.GivenTime, error) {
	at, err := projection.ParseISO(text, w.zone)
	if errors.Is(err, projection.ErrTimeForm) {
		err = w.wrongForm()
	}
	return at, err
}
