package host

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Push is one wake that the server pushed.
type Push struct {
	FeatureSet string         `json:"featureSet"`
	EventID    string         `json:"eventId"`
	Timestamp  string         `json:"timestamp"`
	Origin     map[string]any `json:"origin"`
	Tags       []string       `json:"tags"`
	Payload    struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	} `json:"payload"`

	At   time.Time // when it arrived
	Line int       // as which of the server's lines
	Raw  json.RawMessage

	h  *Host
	id json.RawMessage
}

func (h *Host) newPush(id, params json.RawMessage) (*Push, error) {
	p := &Push{h: h, id: id, At: time.Now(), Line: h.lines, Raw: params}
	if err := json.Unmarshal(params, p); err != nil {
		return nil, err
	}
	if len(id) == 0 || p.EventID == "" || p.FeatureSet == "" || p.Payload.Content == nil {
		return nil, fmt.Errorf("a push lacks its id, eventId, featureSet or content")
	}
	return p, nil
}

// Push waits for the next push.
func (h *Host) Push(ctx context.Context) (*Push, error) {
	var p *Push
	err := h.await(ctx, "no push came", func() bool {
		if len(h.pushes) == 0 {
			return false
		}
		p, h.pushes = h.pushes[0], h.pushes[1:]
		return true
	})
	return p, err
}

// OnPush has f called for each further push, in a goroutine of its own, in place of [Host.Push].
func (h *Host) OnPush(f func(*Push)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onPush = f
}

// Text is the text that the model would read; empty for a silent wake.
func (p *Push) Text() string {
	text := ""
	for _, c := range p.Payload.Content {
		text += c.Text
	}
	return text
}

// Accept takes the push.
func (p *Push) Accept() error {
	return p.Answer("result", map[string]any{"accepted": true, "inferenceId": "inf_" + p.EventID})
}

// Refuse answers that the push is not accepted.
func (p *Push) Refuse(reason string) error {
	return p.Answer("result", map[string]any{"accepted": false, "reason": reason})
}

// Fail answers with a JSON-RPC error.
func (p *Push) Fail(code int, message string) error {
	return p.Answer("error", map[string]any{"code": code, "message": message})
}

// Answer answers with a member of the caller's choice.
func (p *Push) Answer(member string, value any) error {
	return p.h.write(map[string]any{"jsonrpc": "2.0", "id": p.id, member: value})
}
