package engine

import (
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/text"
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
func beatParams(o Offer, words string, now int64, fallback bool) pushParams {
	p := newParams(o, now, "heartbeat:tick")
	p.Origin = origin{Source: "heartbeat", Reason: "schedule", Silent: o.Silent, SilentFallback: fallback}
	if o.Manual {
		p.Origin.Reason = "manual"
		p.Tags = append(p.Tags, "heartbeat:manual")
	}
	if o.Silent {
		p.Origin.ScheduledAt = text.Protocol(o.Due)
	} else {
		p.Payload.Content = append(p.Payload.Content, textBlock{"text", words})
	}
	return p
}

// reminderParams is a reminder's push (SPEC 6.3).
func reminderParams(o Offer, r *projection.Reminder, words string, now int64) pushParams {
	p := newParams(o, now, "heartbeat:reminder")
	recurring, d := r.Recurring(), r.Details()
	p.Origin = origin{Source: "reminder", ReminderID: r.ID, Recurring: &recurring, Title: d.Title, Severity: d.Severity, URL: d.URL}
	if recurring {
		p.Tags = append(p.Tags, "heartbeat:recurring")
	}
	p.Payload.Content = append(p.Payload.Content, textBlock{"text", words})
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
