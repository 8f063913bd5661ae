package projection

import (
	"fmt"
	"net/url"
	"strings"

	"heartbeat-mcpl/journal"
)

// SeverityHigh marks a reminder that must be told at once; without it a reminder is normal (SPEC 10.5).
const SeverityHigh = "high"

// mostAcked bounds how many acknowledged alerts about the files are remembered.
const mostAcked = 100

// IsWebURL says whether a text is an absolute http or https URL.
func IsWebURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= MostURLBytes && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// OccurrenceID names the reminder's current occurrence for hosts that poll: the same for as long as it is not taken, across
// restarts, and never that of another one; without colon and white space (SPEC 10.2).
func (r *Reminder) OccurrenceID() string {
	return fmt.Sprintf("reminder-%s-%d", strings.ReplaceAll(url.QueryEscape(r.ID), "+", "%20"), r.Since)
}

// Acknowledged says whether an alert about the files was acknowledged, and may not be shown at now.
func (s *State) Acknowledged(eventID string, now int64) bool {
	until, ok := s.acked[eventID]
	return ok && (until == 0 || now < until)
}

// applyPolled folds an acknowledgement of what is no reminder's.
func (s *State) applyPolled(b *journal.Ack, e journal.Event) {
	switch b.EventID {
	case s.HeartbeatOccurrenceID():
		s.anchor(e)
		s.beatReached(e)
		return
	case s.AskedOccurrenceID():
		s.beatReached(e)
		return
	}
	if len(s.acked) >= mostAcked {
		clear(s.acked)
	}
	s.acked[b.EventID] = b.Until
}
