package main

import (
	"fmt"
	"regexp"
	"sync"
	"time"

	"heartbeat-mcpl/rpc/tools"
)

// parseWhen reads a point in time as a flag gives it (SPEC 5.8): ISO 8601, the last 15:00 or thu 15:00, or a length before now.
func parseWhen(flag, value string, zone *time.Location, now time.Time) (time.Time, error) {
	at, err := tools.ParseSince(value, now, zone)
	if err != nil {
		return at.At, usageError{fmt.Errorf("--%s %q: %w", flag, value, err)}
	}
	return at.At, nil
}

var dayForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\d{4}-?\d{2}-?\d{2}$`)
})

// span is the time that --since and --until let through, in Unix milliseconds; 0: no bound.
type span struct{ since, until int64 }

func parseSpan(since, until string, zone *time.Location) (s span, err error) {
	now := time.Now()
	if since != "" {
		at, err := parseWhen("since", since, zone, now)
		if err != nil {
			return s, err
		}
		s.since = at.UnixMilli()
	}
	if until != "" {
		at, err := parseWhen("until", until, zone, now)
		if err != nil {
			return s, err
		}
		s.until = at.UnixMilli()
		if dayForm().MatchString(until) { // a day holds its whole day
			s.until = at.AddDate(0, 0, 1).UnixMilli() - 1
		}
	}
	if s.since != 0 && s.until != 0 && s.since > s.until {
		return s, usageError{fmt.Errorf("--since %s is after --until %s: nothing can be between them", since, until)}
	}
	return s, nil
}

func (s span) holds(ms int64) bool {
	return (s.since == 0 || ms >= s.since) && (s.until == 0 || ms <= s.until)
}
