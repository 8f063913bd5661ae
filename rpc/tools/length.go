package tools

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"heartbeat-mcpl/projection"
)

var lengthUnits = map[string]int64{
	"ms": 1,
	"s":  second, "sec": second, "secs": second, "second": second, "seconds": second,
	"m": minute, "min": minute, "mins": minute, "minute": minute, "minutes": minute,
	"h": hour, "hr": hour, "hrs": hour, "hour": hour, "hours": hour,
	"d": 24 * hour, "day": 24 * hour, "days": 24 * hour,
	"w": 7 * 24 * hour, "week": 7 * 24 * hour, "weeks": 7 * 24 * hour,
}

// lengthPart is one number with its unit.
var lengthPart = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(?:and\s+)?(\d{1,12}(?:\.\d{1,9})?|\.\d{1,9})\s*([a-z]+)\s*,?`)
})

var errLength = errors.New("give a number with its unit, such as 90s, 10m, 2h, 1d, 1.5h or 1h30m")

// ParseLength reads a length of time as people write it (SPEC 11.1): 90s, 10m, 2h, 1d, decimals, long units (10 min, 2 hours),
// and sums such as 1h30m. The result is in milliseconds.
func ParseLength(text string) (int64, error) {
	ms, rest, err := CutLength(text)
	if err == nil && strings.TrimSpace(rest) != "" {
		err = errLength
	}
	return ms, err
}

// CutLength reads the length of time that text begins with, and returns what follows it.
func CutLength(text string) (ms int64, rest string, err error) {
	var total float64
	tight := false
	rest = text
	for parts := 0; ; parts++ {
		m := lengthPart().FindStringSubmatchIndex(strings.ToLower(rest))
		if m == nil || len(strings.ToLower(rest)) != len(rest) {
			if parts == 0 || tight && rest != "" { // 10m30, 10m:
				return 0, text, errLength
			}
			break
		}
		unit, known := lengthUnits[strings.ToLower(rest[m[4]:m[5]])]
		switch {
		case !known && parts == 0:
			return 0, text, fmt.Errorf("%q is no unit of time; %w", cut(rest[m[4]:m[5]], 20), errLength)
		case !known && tight:
			return 0, text, errLength
		case !known:
			return roundMs(total), rest, bounded(total)
		}
		n, err := strconv.ParseFloat(rest[m[2]:m[3]], 64)
		if err != nil {
			return 0, text, errLength
		}
		total += n * float64(unit)
		tight = m[1] == m[5] // nothing separates what follows
		rest = rest[m[1]:]
	}
	return roundMs(total), rest, bounded(total)
}

func roundMs(ms float64) int64 { return int64(math.Round(min(ms, 2*projection.MostLengthMs))) }

func bounded(ms float64) error {
	if ms > projection.MostLengthMs {
		return errors.New("100 years (36525 days) are the most")
	}
	return nil
}
