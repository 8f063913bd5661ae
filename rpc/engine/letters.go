package engine

import (
	"slices"
	"strings"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/text"
)

// letters are the messages of the mesh that wait for this agent (SPEC 12.5). The mesh keeps them, the state what became of
// their pushes.
type letters struct {
	unread []projection.Letter
	read   map[string]bool // those that the agent acknowledged, by id: whether the host had taken them, too
}

// Remember keeps as whom the agent takes part in the mesh, and returns once that is in the journal.
func (e *Engine) Remember(agent, pane string) {
	e.await(func(done func()) {
		if e.store != nil && (e.state().Agent != agent || e.state().Pane != pane) {
			e.record(&journal.CheckIn{Agent: agent, Pane: pane})
		}
		e.then(func(error) { done() })
	})
}

// Letters says which messages wait. Call it whenever that changes.
func (e *Engine) Letters(unread []projection.Letter) {
	e.do(func() {
		e.letters.unread = slices.DeleteFunc(unread, func(l projection.Letter) bool {
			_, read := e.letters.read[l.ID]
			return read
		})
	})
}

// LettersRead says that the agent has acknowledged messages: nothing that was listed before brings them back, and their books end.
func (e *Engine) LettersRead(ids []string) {
	e.do(func() {
		if len(e.letters.read) > 10*projection.MostInbox { // longer ago than any list that is under way
			clear(e.letters.read)
		}
		for _, id := range ids {
			e.letters.read[id] = e.letters.read[id] || e.store != nil && e.state().Told(id)
		}
		e.letters.unread = slices.DeleteFunc(e.letters.unread, func(l projection.Letter) bool { return slices.Contains(ids, l.ID) })
		if e.store == nil {
			return
		}
		known := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !e.state().Told(id) && e.state().Tried(id) == nil })
		if len(known) > 0 {
			e.record(&journal.Read{Agent: e.state().Agent, IDs: known})
		}
	})
}

// pushLetters wakes for messages that the host was not told of yet: for those that were not tried yet, or again for those that were.
func (e *Engine) pushLetters(again bool) {
	for _, l := range e.letters.unread {
		last := e.state().Tried(l.ID)
		switch {
		case e.state().Told(l.ID), (last != nil) != again, again && (e.inFlight(last) || e.letterAt(last) > e.now()):
			continue
		case !e.canPush():
			return
		}
		e.pushLetter(l, last)
	}
}

// letterAt is when a message that was not taken is pushed again.
func (e *Engine) letterAt(last *projection.Attempt) int64 {
	if e.hurried(last) {
		return last.At
	}
	return last.RetryAt()
}

// letterEvent is the event id of a message's wake, pushed or polled: that of the last push if nobody answered it, and a fresh one if
// it was refused (SPEC 6.6, 10.2).
func letterEvent(l projection.Letter, last *projection.Attempt) string {
	switch {
	case last == nil:
		return "mesh-" + l.ID
	case last.Outcome == projection.Refused:
		return "mesh-" + l.ID + "-" + journal.HashBytes([]byte(last.EventID))[:8]
	}
	return last.EventID
}

// pushLetter pushes a wake for a message.
func (e *Engine) pushLetter(l projection.Letter, last *projection.Attempt) {
	now := e.now()
	f := &flight{letter: l, eventID: letterEvent(l, last), due: now}
	again := last != nil && last.EventID == f.eventID
	params := newParams(f, now, "heartbeat:mesh")
	params.Origin = origin{Source: "mesh", MessageID: l.ID, From: l.From}
	params.Payload.Content = append(params.Payload.Content, textBlock{"text", text.Letter(l, now, e.o.Zone)})
	e.send(f, last, &journal.Tell{Message: l.ID, From: l.From, EventID: f.eventID, WrittenAt: l.SentMs, Again: again}, params)
}

// letterAnswered takes in what came of a message's push.
func (e *Engine) letterAnswered(f *flight, v verdict, late bool) {
	id := f.letter.ID
	duplicate := v.duplicate(f, e.state().Tried(id))
	if v.taken || duplicate {
		delete(e.flights, f.eventID) // a later push under the same id is settled, too
		e.letterTaken(f.letter, journal.Told{EventID: f.eventID, InferenceID: v.inferenceID, PushedAt: f.due, Late: late, Duplicate: duplicate})
		return
	}
	if _, again := e.flights[f.eventID]; late && again {
		return // its answer decides
	}
	e.refuse(f, "message "+id, v)
}

// letterTaken records that the host took a message, the first time.
func (e *Engine) letterTaken(l projection.Letter, how journal.Told) {
	taken, read := e.letters.read[l.ID]
	if e.store == nil || taken || e.state().Told(l.ID) {
		return
	}
	if read {
		e.letters.read[l.ID] = true
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
			Kind: "alert", EventID: letterEvent(l, e.state().Tried(l.ID)), SourceType: "mesh", SourceName: "Agent mesh", Title: "Message from " + l.From,
			Content: cutBytes(text.Letter(l, now, e.o.Zone), mostContent), Severity: "normal", SuggestedTone: "calm and brief",
			Metrics: map[string]string{"from": l.From, "sent": text.Protocol(l.SentMs)}, due: l.SentMs,
		})
	}
	return all
}

// letterOf is the message that a polled event's id means: the one that it has now, or had before it was refused.
func (e *Engine) letterOf(eventID string) (l projection.Letter, isLetter bool) {
	for _, l := range e.letters.unread {
		if id := "mesh-" + l.ID; eventID == id || strings.HasPrefix(eventID, id+"-") {
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

// Participant is as whom the agent took part when this process began; without the journal nobody, and answer is called once more
// when that is taken over. False: the engine has ended.
func (e *Engine) Participant(answer func(agent, pane string)) bool {
	return e.do(func() {
		if e.store != nil {
			answer(e.state().Agent, e.state().Pane)
			return
		}
		e.participant = answer
		answer("", "")
	})
}
