package engine

import (
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/text"
	"heartbeat-mcpl/rpc/wire"
)

// pushParams are the params of a push/event request (SPEC 6.1, 8.10).
type pushParams struct {
	FeatureSet string      `json:"featureSet"`
	EventID    string      `json:"eventId"`
	Timestamp  string      `json:"timestamp"`
	Origin     origin      `json:"origin"`
	Tags       []string    `json:"tags"`
	Payload    pushPayload `json:"payload"`
}

type origin struct {
	Source         string `json:"source"`
	Reason         string `json:"reason,omitempty"`
	ReminderID     string `json:"reminderId,omitempty"`
	Recurring      *bool  `json:"recurring,omitempty"`
	Silent         bool   `json:"silent,omitempty"`
	ScheduledAt    string `json:"scheduledAt,omitempty"`
	SilentFallback bool   `json:"silentFallback,omitempty"`
	MessageID      string `json:"messageId,omitempty"`
	From           string `json:"from,omitempty"`
	Title          string `json:"title,omitempty"`
	Severity       string `json:"severity,omitempty"`
	URL            string `json:"url,omitempty"`
}

type pushPayload struct {
	Content []textBlock `json:"content"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// beatParams is a heartbeat's push: empty in silent mode (SPEC 6.2, 7.1).
func beatParams(o Offer, state *projection.State, now int64, fallback bool, zone *time.Location) pushParams {
	p := newParams(o, now, "heartbeat:tick")
	p.Origin = origin{Source: "heartbeat", Reason: "schedule", Silent: o.Silent, SilentFallback: fallback}
	if o.Manual {
		p.Origin.Reason = "manual"
		p.Tags = append(p.Tags, "heartbeat:manual")
	}
	if o.Silent {
		p.Origin.ScheduledAt = text.Protocol(o.Due)
	} else {
		p.Payload.Content = append(p.Payload.Content, textBlock{"text", text.HeartbeatWake(state, now, zone)})
	}
	return p
}

// reminderParams is a reminder's push (SPEC 6.3).
func reminderParams(o Offer, r *projection.Reminder, now int64, zone *time.Location) pushParams {
	p := newParams(o, now, "heartbeat:reminder")
	recurring, d := r.Recurring(), r.Details()
	p.Origin = origin{Source: "reminder", ReminderID: r.ID, Recurring: &recurring, Title: d.Title, Severity: d.Severity, URL: d.URL}
	if recurring {
		p.Tags = append(p.Tags, "heartbeat:recurring")
	}
	p.Payload.Content = append(p.Payload.Content, textBlock{"text", text.ReminderWake(r, now, zone)})
	return p
}

func newParams(o Offer, now int64, tag string) pushParams {
	p := pushParams{
		FeatureSet: mcpl.FeatureSet, EventID: o.EventID, Timestamp: text.Protocol(now), Tags: []string{tag},
		Payload: pushPayload{Content: []textBlock{}},
	}
	if now-o.Due >= text.OverdueMs {
		p.Tags = append(p.Tags, "heartbeat:overdue")
	}
	return p
}

// send records that an offer leaves, and has it leave once that is on disk (SPEC 6.6).
func (e *Engine) send(s *Session, o Offer, leaves journal.Body, params pushParams) {
	e.offered++
	o.Seq = e.offered
	e.takeOff(s, o)
	e.record(leaves)
	e.then(func(error) {
		if err := s.host.Offer(o, params, answerLimit); err != nil {
			e.next = append(e.next, func() { e.outcome(s, o, wire.Answer{NoAnswer: true}) })
		}
	})
}

// takeOff has an offer be without an outcome.
func (e *Engine) takeOff(s *Session, o Offer) {
	e.flights[o.EventID] = &flight{o, s}
	s.flying++
}

// land ends an offer's being without an outcome. False: it was not, or another under its event id is.
func (e *Engine) land(o Offer) bool {
	f := e.flights[o.EventID]
	if f == nil || f.Seq != o.Seq {
		return false
	}
	delete(e.flights, o.EventID)
	f.session.flying--
	return true
}
