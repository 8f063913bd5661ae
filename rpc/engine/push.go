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
func beatParams(f *flight, said string, now int64, fallback bool) pushParams {
	p := newParams(f, now, "heartbeat:tick")
	p.Origin = origin{Source: "heartbeat", Reason: "schedule", Silent: f.silent, SilentFallback: fallback}
	if f.manual {
		p.Origin.Reason = "manual"
		p.Tags = append(p.Tags, "heartbeat:manual")
	}
	if f.silent {
		p.Origin.ScheduledAt = text.Protocol(f.due)
	} else {
		p.Payload.Content = append(p.Payload.Content, textBlock{"text", said})
	}
	return p
}

// reminderParams is a reminder's push (SPEC 6.3).
func reminderParams(f *flight, r *projection.Reminder, now int64, zone *time.Location) pushParams {
	p := newParams(f, now, "heartbeat:reminder")
	recurring, d := r.Recurring(), r.Details()
	p.Origin = origin{Source: "reminder", ReminderID: r.ID, Recurring: &recurring, Title: d.Title, Severity: d.Severity, URL: d.URL}
	if recurring {
		p.Tags = append(p.Tags, "heartbeat:recurring")
	}
	p.Payload.Content = append(p.Payload.Content, textBlock{"text", text.ReminderWake(r, now, zone)})
	return p
}

func newParams(f *flight, now int64, tag string) pushParams {
	p := pushParams{
		FeatureSet: mcpl.FeatureSet, EventID: f.eventID, Timestamp: text.Protocol(now), Tags: []string{tag},
		Payload: pushPayload{Content: []textBlock{}},
	}
	if now-f.due >= text.OverdueMs {
		p.Tags = append(p.Tags, "heartbeat:overdue")
	}
	return p
}

// send records that a push leaves, and has it leave once that is on disk (SPEC 6.6). last is the push of the same wake before it, nil
// for none.
func (e *Engine) send(f *flight, last *projection.Attempt, leaves journal.Body, params pushParams) {
	if last != nil {
		delete(e.soon, last.EventID)
	}
	e.flights[f.eventID] = f
	e.record(leaves)
	e.then(func(error) { e.push(params, func(a wire.Answer) { e.answered(f, a) }) })
}

// push sends one push. The loop calls answered with what came of it.
func (e *Engine) push(params pushParams, answered func(wire.Answer)) {
	err := e.host.Call("push/event", params, answerLimit, func(a wire.Answer) {
		e.do(func() { answered(a) })
	})
	if err != nil {
		e.next = append(e.next, func() { answered(wire.Answer{NoAnswer: true}) })
	}
}
