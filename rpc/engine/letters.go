package engine

import (
	"fmt"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/text"
	"heartbeat-mcpl/rpc/wire"
)

// letterRetry is after how long a message whose push was refused is pushed again, if nothing else is a reason before.
const letterRetry = 5 * time.Minute

// letters are the messages of the mesh that wait for this agent (SPEC 12.5). The mesh keeps them; here is only what became
// of their pushes.
type letters struct {
	unread []projection.Letter
	pushed map[string]*letterPush // by message id
}

type letterPush struct {
	out     bool // without an answer yet
	taken   bool
	refused int // how often: each further push has another event id
	at      time.Time
}

// Remember keeps as whom the agent takes part in the mesh.
func (e *Engine) Remember(agent, pane string) {
	e.do(func() {
		if e.store != nil && (e.state().Agent != agent || e.state().Pane != pane) {
			e.record(&journal.CheckIn{Agent: agent, Pane: pane})
		}
	})
}

// Letters says which messages wait. Call it whenever that changes.
func (e *Engine) Letters(unread []projection.Letter) {
	e.do(func() {
		e.letters.unread = unread
		kept := map[string]*letterPush{}
		for _, l := range unread {
			if p := e.letters.pushed[l.ID]; p != nil {
				kept[l.ID] = p
			}
		}
		e.letters.pushed = kept
	})
}

// pushLetters wakes for messages that were not pushed yet.
func (e *Engine) pushLetters() {
	for _, l := range e.letters.unread {
		p := e.letters.pushed[l.ID]
		if p == nil {
			p = &letterPush{taken: e.state().Told(l.ID)}
			e.letters.pushed[l.ID] = p
		}
		if p.out || p.taken || p.refused > 0 && time.Since(p.at) < letterRetry {
			continue
		}
		if !e.canPush() {
			return
		}
		e.pushLetter(l, p)
	}
}

// retryLetters lets refused ones go out again.
func (e *Engine) retryLetters() {
	for _, p := range e.letters.pushed {
		p.at = time.Time{}
	}
}

func (e *Engine) pushLetter(l projection.Letter, p *letterPush) {
	now := e.now()
	f := &flight{eventID: "mesh-" + l.ID, due: now}
	if p.refused > 0 {
		f.eventID += fmt.Sprint("-", p.refused)
	}
	params := newParams(f, now, "heartbeat:mesh")
	params.Origin = origin{Source: "mesh", MessageID: l.ID, From: l.From}
	params.Payload.Content = append(params.Payload.Content, textBlock{"text", text.Letter(l, now, e.o.Zone)})
	p.out, p.at = true, time.Now()
	e.flights[f.eventID] = f
	e.push(params, func(a wire.Answer) {
		if e.flights[f.eventID] == f {
			delete(e.flights, f.eventID)
		}
		v := judge(a)
		p.out, p.at = false, time.Now()
		if p.taken = p.taken || v.taken || v.duplicate(); p.taken {
			e.letterTaken(l, journal.Told{EventID: f.eventID, InferenceID: v.inferenceID, PushedAt: now})
			if v.inferenceID != "" {
				e.turnBegan(v.inferenceID, false)
			}
			return
		}
		if !v.noAnswer {
			p.refused++
		}
		e.o.Log.Info("the host did not take message "+l.ID+": "+v.reason, "event", f.eventID, "code", v.code)
	})
}

// letterTaken records that the host took a message, the first time.
func (e *Engine) letterTaken(l projection.Letter, how journal.Told) {
	if e.store == nil || e.state().Told(l.ID) {
		return
	}
	how.Message, how.From, how.WrittenAt = l.ID, l.From, l.SentMs
	e.record(&how)
}

// polledLetters offers messages to a host that polls.
func (e *Engine) polledLetters(now int64) []polledEvent {
	var all []polledEvent
	for _, l := range e.letters.unread {
		if e.state().Told(l.ID) {
			continue // a wake is taken once (SPEC 10.6)
		}
		all = append(all, polledEvent{
			Kind: "alert", EventID: "mesh-" + l.ID, SourceType: "mesh", SourceName: "Agent mesh", Title: "Message from " + l.From,
			Content: cutBytes(text.Letter(l, now, e.o.Zone), mostContent), Severity: "normal", SuggestedTone: "calm and brief",
			Metrics: map[string]string{"from": l.From, "sent": text.Protocol(l.SentMs)}, due: l.SentMs,
		})
	}
	return all
}

// letterOf is the message that a polled event's id means.
func (e *Engine) letterOf(eventID string) (l projection.Letter, isLetter bool) {
	for _, l := range e.letters.unread {
		if eventID == "mesh-"+l.ID {
			return l, true
		}
	}
	return l, false
}

// takeLetters is the acknowledging of messages that were polled; nil for none.
func (e *Engine) takeLetters(ids []string) func() {
	if e.o.TakeLetters == nil || len(ids) == 0 {
		return nil
	}
	return func() { e.o.TakeLetters(ids) }
}

// Participant is as whom the agent took part when this process began; answer is called once. False: the engine has ended.
func (e *Engine) Participant(answer func(agent, pane string)) bool {
	return e.do(func() {
		if state := e.state(); state != nil {
			answer(state.Agent, state.Pane)
			return
		}
		answer("", "")
	})
}
