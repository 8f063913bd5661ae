package engine

import (
	"encoding/json"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/rpc/text"
	"heartbeat-mcpl/rpc/wire"
)

// A Claude Code channel is a notification that has no answer, and that a host without the channel drops silently (SPEC 14.3). So each
// asks to be acknowledged, until one was: from then on they count as taken once they are written.

// confirmWithin is how long a message of a channel may stay unacknowledged before it counts as not answered.
const confirmWithin = 5 * time.Minute

// channelParams are the params of notifications/claude/channel. The keys of meta are identifiers: the host drops others.
type channelParams struct {
	Content string            `json:"content"`
	Meta    map[string]string `json:"meta"`
}

// channel hands a wake over as a message of the session's channel.
func (s *Session) channel(o Offer, c content) {
	p := channelParams{Content: c.text, Meta: map[string]string{"event_id": o.EventID, "kind": c.kind}}
	if o.Reminder != "" {
		p.Meta["reminder_id"] = o.Reminder
	}
	if o.Due > 0 {
		p.Meta["due"] = text.Protocol(o.Due)
	}
	if !s.confirmed {
		p.Content += "\n\n(Please call acknowledge_events with event_ids [\"" + o.EventID + "\"], once: it tells the server that these messages reach you.)"
	}
	if err := s.host.Notify("notifications/claude/channel", p); err != nil {
		s.e.failed(s, o)
		return
	}
	if s.confirmed {
		s.e.next = append(s.e.next, func() { s.e.outcome(s, o, wire.Answer{Result: json.RawMessage(`{}`), Unconfirmed: true}) })
		return
	}
	time.AfterFunc(confirmWithin, func() {
		s.Outcome(o, wire.Answer{NoAnswer: true, Err: &jsonrpc2.Error{Message: "nothing acknowledged it within 5 minutes: this session may not take messages of channels"}})
	})
}

// acknowledged takes in that the agent acknowledged an offer that is out. False: there is no such one.
func (e *Engine) acknowledged(eventID string) bool {
	f, out := e.flights[eventID]
	if !out {
		return false
	}
	if s, is := f.by.(*Session); is && s.client.Channel {
		s.confirmed = true
	}
	e.outcome(f.by, f.Offer, wire.Answer{Result: json.RawMessage(`{}`)})
	return true
}
