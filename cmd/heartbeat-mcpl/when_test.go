package main

import (
	"testing"
	"time"
)

// TestLengthsBeyondWhatADurationHoldsAreLong: they must not come out short, or after now.
func TestLengthsBeyondWhatADurationHoldsAreLong(t *testing.T) {
	now := time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"90m":     time.Date(2026, 12, 1, 22, 30, 0, 0, time.UTC),
		"2w":      time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC),
		"999999w": now.Add(-15250 * 7 * 24 * time.Hour),
	} {
		if got, err := parseWhen("since", text, time.UTC, now); err != nil || !got.Equal(want) {
			t.Errorf("%s before %s: %s, %v, want %s", text, now, got, err, want)
		}
	}
}
