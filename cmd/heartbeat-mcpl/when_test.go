package main

import (
	"testing"
	"time"
)

func TestATimeMayBeALengthBeforeNow(t *testing.T) {
	now := time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"90m":        time.Date(2026, 12, 1, 22, 30, 0, 0, time.UTC),
		"1h30m":      time.Date(2026, 12, 1, 22, 30, 0, 0, time.UTC),
		"0.5h":       time.Date(2026, 12, 1, 23, 30, 0, 0, time.UTC),
		"5s":         time.Date(2026, 12, 1, 23, 59, 55, 0, time.UTC),
		"2 weeks":    time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC),
		"15:00":      time.Date(2026, 12, 1, 15, 0, 0, 0, time.UTC),
		"mon 08:15":  time.Date(2026, 11, 30, 8, 15, 0, 0, time.UTC),
		"2026-11-18": time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := parseWhen("since", text, time.UTC, now); err != nil || !got.Equal(want) {
			t.Errorf("%s before %s: %s, %v, want %s", text, now, got, err, want)
		}
	}
	if got, err := parseWhen("since", "999999w", time.UTC, now); err == nil {
		t.Errorf("more than a century is %s", got)
	}
}
