package text

import (
	"strconv"
	"strings"
)

const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// Length is a length of time in milliseconds as people read and write it, exact: 10m, 1h30m, 6d 3h, 1.5s, 250ms. Those of SPEC 5 and
// 6, which programs parse, are in seconds: [Seconds].
func Length(ms int64) string {
	switch {
	case ms < 0:
		return "-" + Length(-ms)
	case ms > 0 && ms < second:
		return strconv.FormatInt(ms, 10) + "ms"
	}
	var b strings.Builder
	if days := ms / day; days > 0 {
		b.WriteString(strconv.FormatInt(days, 10) + "d")
		if ms %= day; ms > 0 {
			b.WriteByte(' ')
		}
	}
	if n := ms / hour; n > 0 {
		b.WriteString(strconv.FormatInt(n, 10) + "h")
	}
	if n := ms % hour / minute; n > 0 {
		b.WriteString(strconv.FormatInt(n, 10) + "m")
	}
	if rest := ms % minute; rest > 0 || b.Len() == 0 {
		b.WriteString(Seconds(rest) + "s")
	}
	return b.String()
}

// About is a length as Length writes it, rounded to what people want to know of one that was measured: 6d 3h, 3h12m, 4m17s, 2.3s, 8ms.
func About(ms int64) string {
	if ms < 0 {
		return "-" + About(-ms)
	}
	for _, step := range []struct{ below, to int64 }{{second, 1}, {minute, 100}, {hour, second}, {day, minute}} {
		if rounded := (ms + step.to/2) / step.to * step.to; rounded < step.below {
			return Length(rounded)
		}
	}
	return Length((ms + hour/2) / hour * hour)
}
