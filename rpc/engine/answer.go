package engine

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/wire"
)

// outcome is what an answer to a push means.
type outcome struct {
	taken       bool
	unconfirmed bool
	inferenceID string
	noAnswer    bool
	code        int64
	reason      string
}

// outcomeOf reads an answer: whatever is neither an error nor accepted: false means taken (SPEC 6.5).
func outcomeOf(a wire.Answer) outcome {
	if a.NoAnswer {
		if a.Err != nil {
			return outcome{noAnswer: true, reason: a.Err.Message}
		}
		return outcome{noAnswer: true, reason: fmt.Sprintf("no answer within %.0f s", answerLimit.Seconds())}
	}
	if a.Err != nil {
		return outcome{code: a.Err.Code, reason: orUnknown(a.Err.Message)}
	}
	var result struct {
		Accepted    *bool           `json:"accepted"`
		InferenceID json.RawMessage `json:"inferenceId"`
		Reason      json.RawMessage `json:"reason"`
	}
	if json.Unmarshal(a.Result, &result) == nil && result.Accepted != nil && !*result.Accepted {
		return outcome{reason: orUnknown(textOf(result.Reason))}
	}
	return outcome{taken: true, unconfirmed: a.Unconfirmed, inferenceID: textOf(result.InferenceID)}
}

func orUnknown(reason string) string {
	if strings.TrimSpace(reason) == "" {
		return "the host gave no reason"
	}
	return reason
}

// textOf is a JSON string's text, other JSON as it stands, cut to what a journal and a reply need.
func textOf(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	const most = 1000
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// duplicate says whether the host refused a push because it had it already: only what was sent before under the same event id can
// be that (SPEC 6.6). last is the last attempt as the state has it, nil for none.
func (v outcome) duplicate(o Offer, last *projection.Attempt) bool {
	return last != nil && last.EventID == o.EventID && last.Sent > 1 && v.code == 0 && strings.Contains(strings.ToLower(v.reason), "duplicate")
}

// emptyContent are the words of a host that does not take a push without content.
var emptyContent = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^\W*empty\W*$|\bempty[_ -]?(content|payload|text|message|body|push|event)|\b(content|payload|text|body)\b.*\bempty\b|\bno (content|payload|text)\b`)
})

// empty says whether the host refused a silent heartbeat because it has no text (SPEC 7.2).
func (v outcome) empty() bool {
	return v.code == jsonrpc2.CodeInvalidParams || v.code == 0 && emptyContent().MatchString(v.reason)
}

// outcome takes in what came of an offer: the one place for wakes of all kinds.
func (e *Engine) outcome(d deliverer, o Offer, a wire.Answer) {
	flying := e.land(o)
	last := e.attempt(o)
	if !flying && !a.Late {
		if a.NoAnswer || last == nil || last.EventID != o.EventID || last.Outcome == projection.Refused {
			return // it was settled: by a late answer to an earlier offer of the same event, or otherwise
		}
		a.Late = true // nobody waited for it any more
	}
	v := outcomeOf(a)
	if s, is := d.(*Session); is && v.taken && v.inferenceID != "" {
		s.turnBegan(v.inferenceID, false)
	}
	duplicate := v.duplicate(o, last)
	if !v.taken && !duplicate && a.Late {
		if _, again := e.flights[o.EventID]; again {
			return // the same event is out again: its answer decides
		}
	}
	if v.taken || duplicate {
		e.taken(d, o, v, a.Late, duplicate)
	} else {
		e.notTaken(d, o, v, a.Late)
	}
	if o.Reminder != "" {
		e.logWaiting()
	}
}

// attempt is the last try to deliver what an offer carries; nil: there was none, or it is over.
func (e *Engine) attempt(o Offer) *projection.Attempt {
	switch {
	case o.Message != nil:
		return e.state().Tried(o.Message.ID)
	case o.Reminder == "":
		if b := e.state().Beat; b != nil {
			return &b.Attempt
		}
	default:
		if r, open := e.state().Reminder(o.Reminder); open {
			return r.Attempt
		}
	}
	return nil
}

// taken records that a host took a wake.
func (e *Engine) taken(d deliverer, o Offer, v outcome, late, duplicate bool) {
	if f := e.flights[o.EventID]; f != nil {
		e.land(f.Offer) // a later offer under the same id is settled, too
	}
	delete(e.tried, keyOf(o))
	switch {
	case o.Message != nil:
		e.messageTaken(o.Message, journal.Told{EventID: o.EventID, InferenceID: v.inferenceID, PushedAt: o.Due, Late: late, Duplicate: duplicate, To: d.String()})
	case o.Reminder == "":
		if s, is := d.(*Session); is && o.Silent {
			s.refusedSilent = false
		}
		e.record(&journal.Ack{EventID: o.EventID, InferenceID: v.inferenceID, Late: late, Duplicate: duplicate, Unconfirmed: v.unconfirmed, To: d.String()})
	default:
		ack := &journal.Ack{ID: o.Reminder, EventID: o.EventID}
		if r, open := e.state().Reminder(o.Reminder); open && r.Attempt != nil && r.Attempt.EventID == o.EventID {
			ack = r.Ack(e.now())
		}
		ack.InferenceID, ack.Late, ack.Duplicate, ack.To = v.inferenceID, late, duplicate, d.String()
		ack.Unconfirmed = v.unconfirmed
		e.record(ack)
	}
}

// keyOf is the key of what an offer carries.
func keyOf(o Offer) string {
	switch {
	case o.Message != nil:
		return messageKey + o.Message.ID
	case o.Reminder != "":
		return o.Reminder
	}
	return heartbeatKey
}

// notTaken records that a host refused a wake, or did not answer. Another session may take it, if one can (SPEC 13.4).
func (e *Engine) notTaken(d deliverer, o Offer, v outcome, late bool) {
	what, message := "the heartbeat", ""
	switch {
	case o.Message != nil:
		what, message = "message "+o.Message.ID, o.Message.ID
	case o.Reminder != "":
		what = "the push of reminder " + o.Reminder
	}
	e.o.Log.Info("the host did not take "+what+": "+v.reason, "event", o.EventID, "code", v.code)
	e.record(&journal.Refuse{ID: o.Reminder, Message: message, EventID: o.EventID, Code: v.code, Reason: v.reason, NoAnswer: v.noAnswer, To: d.String()})
	if o.Reminder == "" && o.Message == nil && e.speaksUp(d, o, v, late) {
		return
	}
	key := keyOf(o)
	w, open := e.wake(key)
	if !open || w.attempt == nil || w.attempt.EventID != o.EventID {
		return // it is over, or another try is under way
	}
	e.turnDown(key, d)
	if next, later := e.route(&w); next == nil && !later {
		delete(e.tried, key) // every delivery that could take it was asked
	} else {
		e.soon[o.EventID] = struct{}{}
	}
	e.schedule(key)
}

// speaksUp sends a silent heartbeat that was refused as empty again, with its text, at once (SPEC 7.2). False: it was no such one.
func (e *Engine) speaksUp(d deliverer, o Offer, v outcome, late bool) bool {
	s, is := d.(*Session)
	if last := e.attempt(o); !is || !o.Silent || late || v.noAnswer || !v.empty() || last == nil || last.EventID != o.EventID {
		return false
	}
	s.refusedSilent = true
	if !s.warnedSilent {
		s.warnedSilent = true
		e.o.Log.Warn("the host refused a silent heartbeat (" + v.reason + "): each tick tries silent first and goes out with its text where it is refused. Use deliveryMode \"message\" with a host that does not know silent heartbeats.")
	}
	if s.policy.Blocked() != "" {
		return false
	}
	eventID, _ := e.nextEventID(nil)
	e.offerBeat(s, Offer{EventID: eventID, Manual: o.Manual, Due: o.Due}, journal.Fire{Fallback: true}, e.attempt(o), e.now())
	return true
}

// refusedSilent says whether a host refused its last silent heartbeat as empty.
func (e *Engine) refusedSilent() bool {
	return slices.ContainsFunc(e.sessions, func(s *Session) bool { return s.refusedSilent })
}
