package engine

import "time"

// stepMs is the least step back of the wall clock that is taken for one: below it, reading two clocks differs anyway.
const stepMs = 20

// clock watches the wall clock against the monotonic one, which no step moves. In a suspend the wall clock gets ahead,
// which needs no care: what fell due meanwhile is due. Only a wall clock that was set back makes intervals longer than
// they are (SPEC 6.8).
type clock struct {
	wall  func() time.Time
	start time.Time // with a monotonic reading
	ahead time.Duration
}

func newClock(wall func() time.Time) clock {
	c := clock{wall: wall, start: time.Now()}
	c.ahead = c.offset()
	return c
}

func (c *clock) offset() time.Duration {
	return time.Duration(c.wall().UnixNano()) - time.Since(c.start)
}

// setBack is by how many milliseconds the wall clock was set back since the last look; 0 for not at all.
func (c *clock) setBack() int64 {
	now := c.offset()
	back := (c.ahead - now).Milliseconds()
	if back >= 0 && back < stepMs {
		return 0
	}
	c.ahead = now
	return max(0, back)
}
