package engine

import (
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/text"
	"heartbeat-mcpl/rpc/wire"
)

// After how long a message whose push was refused, or not answered, is pushed again if nothing else is a reason before.
const (
	letterRefused  = 5 * time.Minute
	letterNoAnswer = time.Second
)

// letterSettle is how long after the first list of messages another must not miss one that is still unread: what a mesh hands out
// anew to a server that begins has come by then.
const letterSettle = time.Minute

// letters are the messages of the mesh that wait for this agent (SPEC 12.5). The mesh keeps them, the state what became of
// their pushes.
type letters struct {
	unread []projection.Letter
	since  time.Time            // when the first list came; zero: none did
	held   map[string]time.Time // until when one that was not taken waits for a reason to be pushed again, by message id
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
		if e.letters.unread = unread; e.letters.since.IsZero() {
			e.letters.since = time.Now()
		}
		if e.store != nil && time.Since(e.letters.since) >= letterSettle {
			e.forgetLetters()
		}
	})
}

// forgetLetters ends the books of messages that are read: at once for those that the host was still to take, and of the others now
// and then.
func (e *Engine) forgetLetters() {
	taken, gone := e.state().Gone(e.letters.unread)
	if len(gone) > taken || taken > projection.MostInbox {
		e.record(&journal.Read{Agent: e.state().Agent, IDs: gone})
		for _, id := range gone {
			delete(e.letters.held, id)
		}
	}
}

// pushLetters wakes for messages that the host was not told of yet.
func (e *Engine) pushLetters() {
	for _, l := range e.letters.unread {
		last := e.state().Tried(l.ID)
		switch {
		case e.state().Told(l.ID), last != nil && e.flights[last.EventID] != nil, time.Now().Before(e.letters.held[l.ID]):
			continue
		case !e.canPush():
			return
		}
		e.pushLetter(l, last)
	}
}

// retryLetters lets those that were not taken go out again.
func (e *Engine) retryLetters() { clear(e.letters.held) }

// pushLetter pushes a wake for a message, under the event id of the last push if nobody answered that (SPEC 6.6).
func (e *Engine) pushLetter(l projection.Letter, last *projection.Attempt) {
	now := e.now()
	f := &flight{letter: l, eventID: "mesh-" + l.ID, due: now}
	again := last != nil && last.Outcome != projection.Refused
	switch {
	case again:
		f.eventID = last.EventID
	case last != nil:
		f.eventID += "-" + e.o.NewID()
	}
	params := newParams(f, now, "heartbeat:mesh")
	params.Origin = origin{Source: "mesh", MessageID: l.ID, From: l.From}
	params.Payload.Content = append(params.Payload.Content, textBlock{"text", text.Letter(l, now, e.o.Zone)})
	delete(e.letters.held, l.ID)
	e.flights[f.eventID] = f
	e.record(&journal.Tell{Message: l.ID, From: l.From, EventID: f.eventID, WrittenAt: l.SentMs, Again: again})
	e.then(func(error) { e.push(params, func(a wire.Answer) { e.answered(f, a) }) })
}

// letterAnswered takes in what came of a message's push.
func (e *Engine) letterAnswered(f *flight, v verdict, late bool) {
	id := f.letter.ID
	last := e.state().Tried(id)
	duplicate := last != nil && last.EventID == f.eventID && last.Sent > 1 && v.duplicate()
	if v.taken || duplicate {
		e.letterTaken(f.letter, journal.Told{EventID: f.eventID, InferenceID: v.inferenceID, PushedAt: f.due, Late: late, Duplicate: duplicate})
		return
	}
	if _, again := e.flights[f.eventID]; late && again {
		return // its answer decides
	}
	e.o.Log.Info("the host did not take message "+id+": "+v.reason, "event", f.eventID, "code", v.code)
	e.letters.held[id] = time.Now().Add(letterRefused)
	if v.noAnswer {
		e.letters.held[id] = time.Now().Add(letterNoAnswer)
	}
	e.record(&journal.Refuse{Message: id, EventID: f.eventID, Code: v.code, Reason: v.reason, NoAnswer: v.noAnswer})
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
