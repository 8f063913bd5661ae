package engine

import (
	"slices"
	"strings"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/text"
)

// messages are those of the mesh that wait for this journal's agents (SPEC 12.5). The mesh keeps them, the state what became of
// their offers.
type messages struct {
	unread map[string][]projection.Letter // by agent
	read   map[string]bool                // those that the agent acknowledged, by id: whether the host had taken them, too
}

func newMessages() messages {
	return messages{unread: map[string][]projection.Letter{}, read: map[string]bool{}}
}

// Remember keeps as whom a session takes part in the mesh, and returns once that is in the journal.
func (e *Engine) Remember(session, agent, pane string) {
	e.await(func(done func()) {
		p := projection.Participant{Agent: agent, Pane: pane, Session: session}
		if last, _ := e.state().Participant(); last != p {
			b := &journal.CheckIn{Agent: agent, Pane: pane}
			journal.Attribute(b, session, "")
			e.record(b)
		}
		e.then(func(error) { done() })
	})
}

// Letters says which messages wait for an agent. Call it whenever that changes.
func (e *Engine) Letters(agent string, unread []projection.Letter) {
	e.do(func() {
		e.unreadOf(agent, slices.DeleteFunc(unread, func(l projection.Letter) bool {
			_, read := e.messages.read[l.ID]
			return read
		}))
	})
}

// LettersRead says that an agent has acknowledged messages: nothing that was listed before brings them back, and their books end.
func (e *Engine) LettersRead(agent string, ids []string) {
	e.do(func() {
		if len(e.messages.read) > 10*projection.MostInbox { // longer ago than any list that is under way
			clear(e.messages.read)
		}
		for _, id := range ids {
			e.messages.read[id] = e.messages.read[id] || e.state().Told(id)
		}
		e.unreadOf(agent, slices.DeleteFunc(slices.Clone(e.messages.unread[agent]), func(l projection.Letter) bool { return slices.Contains(ids, l.ID) }))
		known := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !e.state().Told(id) && e.state().Tried(id) == nil })
		if len(known) > 0 {
			e.record(&journal.Read{Agent: agent, IDs: known})
		}
	})
}

// unreadOf makes the messages that wait for an agent known, and has the queue follow.
func (e *Engine) unreadOf(agent string, unread []projection.Letter) {
	before := e.messages.unread[agent]
	e.messages.unread[agent] = unread
	for _, m := range slices.Concat(before, unread) {
		e.schedule(messageKey + m.ID)
	}
}

// messageWake is the wake for a message that no host took yet.
func (e *Engine) messageWake(id string) (wake, bool) {
	for agent, unread := range e.messages.unread {
		i := slices.IndexFunc(unread, func(l projection.Letter) bool { return l.ID == id })
		if i < 0 || e.state().Told(id) {
			continue
		}
		m, last := unread[i], e.state().Tried(id)
		w := wake{key: messageKey + id, due: m.SentMs, kind: kindMessage, owner: e.state().SessionOf(agent), attempt: last, offer: func(d deliverer, now int64) { e.offerMessage(d, agent, m, now) }}
		if last != nil {
			w.due, w.retryAt = last.At, last.RetryAt
		}
		return w, true
	}
	return wake{}, false
}

// messageEvent is the event id of a message's wake, pushed or polled: that of the last push if nobody answered it, and a fresh one if
// it was refused (SPEC 6.6, 10.2).
func messageEvent(l projection.Letter, last *projection.Attempt) string {
	switch {
	case last == nil:
		return "mesh-" + l.ID
	case last.Outcome == projection.Refused:
		return "mesh-" + l.ID + "-" + journal.HashBytes([]byte(last.EventID))[:8]
	}
	return last.EventID
}

// offerMessage offers a wake for a message.
func (e *Engine) offerMessage(d deliverer, agent string, l projection.Letter, now int64) {
	last := e.state().Tried(l.ID)
	o := Offer{Message: &OfferedMessage{ID: l.ID, From: l.From, Agent: agent, SentMs: l.SentMs}, EventID: messageEvent(l, last), Due: now}
	again := last != nil && last.EventID == o.EventID
	params, words := newParams(o, now, "heartbeat:mesh"), text.Letter(l, now, e.o.Zone)
	params.Origin = origin{Source: "mesh", MessageID: l.ID, From: l.From}
	params.Payload.Content = append(params.Payload.Content, textBlock{"text", words})
	leaves := &journal.Tell{Message: l.ID, From: l.From, EventID: o.EventID, WrittenAt: l.SentMs, Again: again, To: d.String()}
	e.send(d, o, last, leaves, content{kind: kindMessage, text: words, params: params, conversation: e.conversationOf("")})
}

// messageTaken records that the host took a message, the first time.
func (e *Engine) messageTaken(m *OfferedMessage, how journal.Told) {
	taken, read := e.messages.read[m.ID]
	if taken || e.state().Told(m.ID) {
		return
	}
	if read {
		e.messages.read[m.ID] = true
	}
	how.Message, how.From, how.WrittenAt = m.ID, m.From, m.SentMs
	e.record(&how)
}

// polledMessages offers messages to a host that polls.
func (e *Engine) polledMessages(now int64) []polledEvent {
	var all []polledEvent
	for _, l := range e.messages.unread[e.callersAgent()] {
		if e.state().Told(l.ID) {
			continue // a wake is taken once (SPEC 10.6)
		}
		all = append(all, polledEvent{
			Kind: "alert", EventID: messageEvent(l, e.state().Tried(l.ID)), SourceType: "mesh", SourceName: "Agent mesh", Title: "Message from " + l.From,
			Content: cutBytes(text.Letter(l, now, e.o.Zone), mostContent), Severity: "normal", SuggestedTone: "calm and brief",
			Metrics: map[string]string{"from": l.From, "sent": text.Protocol(l.SentMs)}, due: l.SentMs,
		})
	}
	return all
}

// messageOf is the message that a polled event's id means: the one that it has now, or had before it was refused.
func (e *Engine) messageOf(eventID string) (l projection.Letter, isLetter bool) {
	for _, l := range e.messages.unread[e.callersAgent()] {
		if id := "mesh-" + l.ID; eventID == id || strings.HasPrefix(eventID, id+"-") {
			return l, true
		}
	}
	return l, false
}

// callersAgent is the agent of the session that calls: as whom it checked in, or who checked in last.
func (e *Engine) callersAgent() string {
	p, _ := e.state().Participant()
	for _, o := range e.state().Agents {
		if s := e.call.session; s != nil && o.Session == s.name {
			return o.Agent
		}
	}
	return p.Agent
}

// takeMessages is the acknowledging of messages that were polled; nil for none.
func (e *Engine) takeMessages(ids []string) func() {
	s := e.call.session
	if e.mesh == nil || s == nil || len(ids) == 0 {
		return nil
	}
	name := s.name
	return func() { e.mesh.Take(name, ids) }
}

// Participants are as whom the sessions took part when this process opened the journal. Call it before [Engine.Run].
func (e *Engine) Participants() []projection.Participant { return e.state().Agents }
