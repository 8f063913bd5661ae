package projection

import (
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fits says whether a value is in a field of a cron expression: lists of *, numbers, ranges, and steps of these.
func fits(field string, value, least, most int) bool {
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	for part := range strings.SplitSeq(field, ",") {
		span, step, stepped := strings.Cut(part, "/")
		from, to, by := least, most, 1
		if stepped {
			by = number(step)
		}
		if span != "*" {
			a, b, isRange := strings.Cut(span, "-")
			if from, to = number(a), number(a); isRange {
				to = number(b)
			}
		}
		for v := from; v <= to; v += by {
			if v == value {
				return true
			}
		}
	}
	return false
}

// fitsDay is the rule of days: both fields where either begins with *, else one of them.
func fitsDay(day, weekday string, wall time.Time) bool {
	last := wall.AddDate(0, 0, 1-wall.Day()).AddDate(0, 1, -1).Day()
	onDay := day == "L" && wall.Day() == last || day != "L" && fits(day, wall.Day(), 1, 31)
	onWeekday := false
	switch {
	case strings.HasSuffix(weekday, "L"):
		onWeekday = fits(strings.TrimSuffix(weekday, "L"), int(wall.Weekday()), 0, 6) && wall.Day()+7 > last
	case strings.Contains(weekday, "#"):
		of, nth, _ := strings.Cut(weekday, "#")
		onWeekday = fits(of, int(wall.Weekday()), 0, 6) && fits(nth, (wall.Day()+6)/7, 1, 5)
	default:
		onWeekday = fits(weekday, int(wall.Weekday()), 0, 6)
	}
	if strings.HasPrefix(day, "*") || strings.HasPrefix(weekday, "*") {
		return onDay && onWeekday
	}
	return onDay || onWeekday
}

func fitsAll(expression string, wall time.Time) bool {
	f := strings.Fields(expression)
	return fits(f[0], wall.Minute(), 0, 59) && fits(f[1], wall.Hour(), 0, 23) && fits(f[3], int(wall.Month()), 1, 12) && fitsDay(f[2], f[4], wall)
}

func randomField(random *rand.Rand, least, most int) string {
	one := func() int { return least + random.Intn(most-least+1) }
	a, b := one(), one()
	switch a, b = min(a, b), max(a, b); random.Intn(6) {
	case 0:
		return "*"
	case 1:
		return fmt.Sprintf("*/%d", 1+random.Intn(most))
	case 2:
		return fmt.Sprintf("%d-%d", a, b)
	case 3:
		return fmt.Sprintf("%d-%d/%d", a, b, 1+random.Intn(4))
	case 4:
		return fmt.Sprintf("%d,%d", a, b)
	}
	return strconv.Itoa(a)
}

// TestCronDaysAgainstBruteForce: which days an expression has, L, # and both fields of days among them.
func TestCronDaysAgainstBruteForce(t *testing.T) {
	random := rand.New(rand.NewSource(510))
	for range 600 {
		day, weekday := randomField(random, 1, 31), randomField(random, 0, 6)
		switch random.Intn(4) {
		case 0:
			day = "L"
		case 1:
			weekday = fmt.Sprintf("%d#%d", random.Intn(7), 1+random.Intn(5))
		case 2:
			weekday = fmt.Sprintf("%dL", random.Intn(7))
		}
		if random.Intn(2) == 0 {
			day = "*"
		}
		expression := fmt.Sprintf("30 10 %s %s %s", day, randomField(random, 1, 12), weekday)
		from := time.Date(2024, 1, 1, 10, 30, 0, 0, time.UTC).AddDate(0, 0, random.Intn(1000))
		got := from.UnixMilli() - 1
		for wall := from; wall.Before(from.AddDate(2, 0, 0)); wall = wall.AddDate(0, 0, 1) {
			if !fitsAll(expression, wall) {
				continue
			}
			var err error
			if got, err = NextCron(expression, "UTC", got); err != nil || got != wall.UnixMilli() {
				t.Fatalf("%s: got %s, %v, want %s", expression, Instant(got), err, wall)
			}
		}
	}
}

// TestCronThroughChangesOfTheClocks: the rule of SPEC 6.9, minute by minute around each change in seven years.
func TestCronThroughChangesOfTheClocks(t *testing.T) {
	random := rand.New(rand.NewSource(69))
	for _, name := range []string{"Europe/London", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Chatham", "America/Havana", "Asia/Kolkata"} {
		zone := location(t, name)
		all := stretches(zone, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC))
		for i := range all[1:] {
			change := time.Unix(all[i+1].from, 0)
			for range 5 {
				expression := fmt.Sprintf("%s %s * * *", randomField(random, 0, 59), randomField(random, 0, 5))
				from, to := change.Add(-20*time.Hour), change.Add(20*time.Hour)
				var want []int64
				if f := strings.Fields(expression); f[0][0] == '*' || f[1][0] == '*' {
					for at := from.Add(time.Minute); !at.After(to); at = at.Add(time.Minute) {
						if fitsAll(expression, wallClock(at, zone)) {
							want = append(want, at.UnixMilli())
						}
					}
				} else {
					want = onceADay(expression, all, change, from, to)
				}
				at := from.UnixMilli()
				for _, next := range want {
					var err error
					if at, err = NextCron(expression, name, at); err != nil || at != next {
						t.Fatalf("%s in %s around %s: got %s, %v, want %s", expression, name, change.In(zone), time.UnixMilli(at).In(zone), err, time.UnixMilli(next).In(zone))
					}
				}
				if after, err := NextCron(expression, name, at); err == nil && after <= to.UnixMilli() {
					t.Fatalf("%s in %s around %s: one more at %s", expression, name, change.In(zone), time.UnixMilli(after).In(zone))
				}
			}
		}
	}
}

// onceADay are the times of an expression that does not follow elapsed time: each of its times on the wall falls at its first pass,
// and at the change where it is skipped.
func onceADay(expression string, all []stretch, change, from, to time.Time) []int64 {
	var times []int64
	for wall := from.UTC().AddDate(0, 0, -1).Truncate(time.Minute); wall.Before(to.UTC().AddDate(0, 0, 1)); wall = wall.Add(time.Minute) {
		if !fitsAll(expression, wall) {
			continue
		}
		at := instant(all, wall.Unix())
		if !shown(all, at, wall.Unix()) {
			at = change.Unix()
		}
		if at > from.Unix() && at <= to.Unix() && !slices.Contains(times, at*1000) {
			times = append(times, at*1000)
		}
	}
	slices.Sort(times)
	return times
}

// shown says whether the wall shows that time at that moment.
func shown(all []stretch, at, wall int64) bool {
	for _, s := range all {
		if at >= s.from && at < s.to {
			return at+s.offset == wall
		}
	}
	return false
}
