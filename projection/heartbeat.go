package projection

import (
	"cmp"
	"fmt"

	"heartbeat-mcpl/journal"
)

// Beats counts the heartbeats that the host took since the heartbeat was set (SPEC 11.5).
type Beats struct {
	Taken  int64 `msgpack:"n"`
	LastMs int64 `msgpack:"l"` // when the last one was taken; 0: none was
}

// Beat is the newest heartbeat, from its first push until the host takes it or another one takes its place (SPEC 6.5a). It is never
// changed.
type Beat struct {
	Attempt Attempt `msgpack:"at"`
	Due     int64   `msgpack:"du"`
	Manual  bool    `msgpack:"mn,omitempty"`
	Silent  bool    `msgpack:"si,omitempty"` // its last push had no text
}

// why is why it did not reach the agent.
func (b *Beat) why() string {
	_, _, reason := b.Attempt.Failed()
	return cmp.Or(reason, "the server ended before the host answered")
}

// Missed are heartbeats in a row that did not reach the agent: dropped, refused or not answered (SPEC 6.2a).
type Missed struct {
	Count int    `msgpack:"n"`
	Since int64  `msgpack:"s"` // when the first of them was due
	Why   string `msgpack:"w"` // of the last one
}

func (m Missed) and(due int64, why string) Missed {
	if m.Count == 0 {
		m.Since = due
	}
	return Missed{m.Count + 1, m.Since, why}
}

// HeartbeatDue is when the next heartbeat falls due; false while it is paused.
func (s *State) HeartbeatDue() (int64, bool) {
	return s.AnchorMs + s.Config.IntervalMs, !s.Config.Paused
}

// MissedBefore are the heartbeats that did not reach the agent before one that is sent now, or is polled. One by hand may come
// while the answer to another is awaited.
func (s *State) MissedBefore(manual bool) Missed {
	if b := s.Beat; b != nil && !(manual && b.Attempt.Outcome == Pending) {
		return s.Missed.and(b.Due, b.why())
	}
	return s.Missed
}

// HeartbeatOccurrenceID names the next heartbeat for hosts that poll, as [Reminder.OccurrenceID] does a reminder's.
func (s *State) HeartbeatOccurrenceID() string { return fmt.Sprintf("heartbeat-%d", s.AnchorIndex) }

// AskedOccurrenceID is the same for one that was asked for by hand, to be polled; empty while none is.
func (s *State) AskedOccurrenceID() string {
	if s.Asked.Index == 0 {
		return ""
	}
	return fmt.Sprintf("heartbeat-%d", s.Asked.Index)
}

// Asked is a heartbeat that somebody asked for where nothing is pushed: it waits to be polled. The zero value: there is none.
type Asked struct {
	Index uint64 `msgpack:"i"` // of the event
	At    int64  `msgpack:"a"`
}

// PolledHeartbeat is the event that says that the host acknowledged the heartbeat that is due.
func (s *State) PolledHeartbeat() *journal.Ack {
	return &journal.Ack{By: journal.ByTool, EventID: s.HeartbeatOccurrenceID(), Due: s.AnchorMs + s.Config.IntervalMs}
}

// PolledAsked is the same for one that was asked for.
func (s *State) PolledAsked() *journal.Ack {
	return &journal.Ack{By: journal.ByTool, EventID: s.AskedOccurrenceID(), Due: s.Asked.At}
}

// anchor starts the heartbeat's interval anew at the event.
func (s *State) anchor(e journal.Event) { s.AnchorMs, s.AnchorIndex = e.Time, e.Index }

func (s *State) beatFired(b *journal.Fire, e journal.Event) {
	again := s.Beat != nil && b.Fallback && b.Due == s.Beat.Due
	if !again {
		s.beatReplaced(b.Manual)
	}
	if !b.Manual && !b.Fallback {
		s.anchor(e)
	}
	var last *Attempt
	if again {
		last = &s.Beat.Attempt
	}
	next := last.next(b.EventID, b.To, e.Time)
	if again && !b.Retry { // that the host takes no silent one is no failure of this one
		next.Count = max(0, next.Count-1)
	}
	s.Beat = &Beat{Attempt: *next, Due: b.Due, Manual: b.Manual, Silent: b.Silent}
}

// beatReplaced says that another heartbeat takes the place of the newest one.
func (s *State) beatReplaced(manual bool) { s.Missed, s.Beat = s.MissedBefore(manual), nil }

func (s *State) beatRefused(b *journal.Refuse, now int64) {
	if s.Beat != nil && s.Beat.Attempt.EventID == b.EventID {
		refused := *s.Beat
		refused.Attempt = *s.Beat.Attempt.refused(b, now)
		s.Beat = &refused
	}
}

func (s *State) beatDropped(b *journal.Drop, e journal.Event) {
	s.beatReplaced(false)
	s.Missed = s.Missed.and(b.Due, b.Reason)
	s.anchor(e)
}

// beatTaken says that the host took a heartbeat's push.
func (s *State) beatTaken(b *journal.Ack, e journal.Event) {
	if s.Beat != nil && s.Beat.Attempt.EventID == b.EventID {
		s.beatReached(e)
		return
	}
	s.countBeat(e)
	if s.Missed.Count--; s.Missed.Count <= 0 { // a late answer, to one that another had taken the place of
		s.Missed = Missed{}
	}
}

// beatReached says that the agent has the newest heartbeat.
func (s *State) beatReached(e journal.Event) {
	s.countBeat(e)
	s.Beat, s.Missed, s.Asked = nil, Missed{}, Asked{}
}

func (s *State) countBeat(e journal.Event) {
	s.Beats.Taken++
	s.Beats.LastMs = e.Time
}
