package tools

import (
	"time"

	"heartbeat-mcpl/projection"
)

// ParseTime reads a time in ISO 8601 or RFC 3339 (SPEC 5.4); without an offset it is in the zone.
func ParseTime(text string, zone *time.Location) (time.Time, error) {
	return projection.ParseISO(text, zone)
}
