package engine

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/wire"
)

// verdict is what an answer to a push means.
type verdict struct {
	taken       bool
	inferenceID string
	noAnswer    bool
	code        int64
	reason      string
}

// judge reads an answer: whatever is neither an error nor accepted: false means taken (SPEC 6.5).
func judge(a wire.Answer) verdict {
	if a.NoAnswer {
		return verdict{noAnswer: true, reason: fmt.Sprintf("no answer within %.0f s", answerLimit.Seconds())}
	}
	if a.Err != nil {
		return verdict{code: a.Err.Code, reason: orUnknown(a.Err.Message)}
	}
	var result struct {
		Accepted    *bool           `json:"accepted"`
		InferenceID json.RawMessage `json:"inferenceId"`
		Reason      json.RawMessage `json:"reason"`
	}
	if json.Unmarshal(a.Result, &result) == nil && result.Accepted != nil && !*result.Accepted {
		return verdict{reason: orUnknown(textOf(result.Reason))}
	}
	return verdict{taken: true, inferenceID: textOf(result.InferenceID)}
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
func (v verdict) duplicate(f *flight, last *projection.Attempt) bool {
	return last != nil && last.EventID == f.eventID && last.Sent > 1 && v.code == 0 && strings.Contains(strings.ToLower(v.reason), "duplicate")
}

// emptyContent are the words of a host that does not take a push without content.
var emptyContent = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^\W*empty\W*$|\bempty[_ -]?(content|payload|text|message|body|push|event)|\b(content|payload|text|body)\b.*\bempty\b|\bno (content|payload|text)\b`)
})

// empty says whether the host refused a silent heartbeat because it has no text (SPEC 7.2).
func (v verdict) empty() bool {
	return v.code == jsonrpc2.CodeInvalidParams || v.code == 0 && emptyContent().MatchString(v.reason)
}

// answered takes in what came of a push.
func (e *Engine) answered(f *flight, a wire.Answer) {
	if e.store == nil {
		return
	}
	flying := e.flights[f.eventID] == f
	if !flying && !a.Late {
		return // a late answer to an earlier push of the same event settled it
	}
	v := judge(a)
	if flying {
		delete(e.flights, f.eventID)
	}
	if v.taken && v.inferenceID != "" {
		e.turnBegan(v.inferenceID, false)
	}
	switch {
	case f.letter.ID != "":
		e.letterAnswered(f, v, a.Late)
	case f.id == "":
		e.beatAnswered(f, v, a.Late)
	default:
		e.reminderAnswered(f, v, a.Late)
		e.logWaiting()
	}
}

func (e *Engine) reminderAnswered(f *flight, v verdict, late bool) {
	r, open := e.state().Reminder(f.id)
	current := open && r.Attempt != nil && r.Attempt.EventID == f.eventID
	duplicate := open && v.duplicate(f, r.Attempt)
	if v.taken || duplicate {
		ack := &journal.Ack{ID: f.id, EventID: f.eventID}
		if current {
			ack = r.Ack(e.now())
			delete(e.flights, f.eventID)
		}
		ack.InferenceID, ack.Late, ack.Duplicate = v.inferenceID, late, duplicate
		e.record(ack)
		return
	}
	if _, again := e.flights[f.eventID]; late && again {
		return // the same event is out again: its answer decides
	}
	e.refuse(f, "the push of reminder "+f.id, v)
}

// refuse logs and records that the host refused a push, or did not answer it.
func (e *Engine) refuse(f *flight, what string, v verdict) {
	e.o.Log.Info("the host did not take "+what+": "+v.reason, "event", f.eventID, "code", v.code)
	e.record(&journal.Refuse{ID: f.id, Message: f.letter.ID, EventID: f.eventID, Code: v.code, Reason: v.reason, NoAnswer: v.noAnswer})
}

// beatAnswered takes in what came of a heartbeat. A silent one that was refused as empty goes out with its text at once (SPEC 7.2).
func (e *Engine) beatAnswered(f *flight, v verdict, late bool) {
	var last *projection.Attempt
	if b := e.state().Beat; b != nil && b.Attempt.EventID == f.eventID {
		last = &b.Attempt
	}
	duplicate := v.duplicate(f, last)
	if v.taken || duplicate {
		if f.silent {
			e.beat.refusedSilent = false
		}
		delete(e.flights, f.eventID) // a later push under the same id is settled, too
		e.record(&journal.Ack{EventID: f.eventID, InferenceID: v.inferenceID, Late: late, Duplicate: duplicate})
		return
	}
	if _, again := e.flights[f.eventID]; late && again {
		return // its answer decides
	}
	e.refuse(f, "the heartbeat", v)
	if last == nil || !f.silent || late || v.noAnswer || !v.empty() {
		return
	}
	e.beat.refusedSilent = true
	if !e.beat.warned {
		e.beat.warned = true
		e.o.Log.Warn("the host refused a silent heartbeat (" + v.reason + "): each tick tries silent first and goes out with its text where it is refused. Use deliveryMode \"message\" with a host that does not know silent heartbeats.")
	}
	if e.policy.Blocked() == "" {
		eventID, _ := e.nextEventID(nil)
		e.sendBeat(&flight{eventID: eventID, manual: f.manual, due: f.due}, e.now(), resent{fallback: true, last: last})
	}
}
