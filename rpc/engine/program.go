package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/rpc/delivery"
	"heartbeat-mcpl/rpc/text"
	"heartbeat-mcpl/rpc/wire"
)

// How long a program that says "not now" is left alone: twice as long each time (SPEC 14.4).
const (
	programRetry     = time.Minute
	programRetryMost = time.Hour
)

// program is the delivery by a command: once for each wake, one at a time, several that are due at once together (SPEC 14.4).
type program struct {
	e       *Engine
	command *delivery.Command
	retry   time.Duration // the first pause after "not now"

	batch     []carried // of this turn
	running   bool
	notBefore time.Time
	pause     time.Duration
	ended     chan struct{} // a run is over
	ctx       context.Context
	cancel    context.CancelFunc
}

func newProgram(e *Engine, c *delivery.Command, retry time.Duration) *program {
	if retry <= 0 {
		retry = programRetry
	}
	p := &program{e: e, command: c, retry: retry, ended: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// String is what the journal calls it.
func (p *program) String() string { return "command" }

func (p *program) idle() bool { return !p.running && !time.Now().Before(p.notBefore) }

// takes is [deliverer.takes]: not a wake of which something is unknown that the arguments want.
func (p *program) takes(w *wake) (now, later bool) {
	conversation := p.e.conversationOf(w.conversation)
	told := delivery.Wake{EventID: "evt", Kind: w.kind, Session: conversation}
	if w.kind == kindReminder {
		told.ReminderID = w.key
	}
	if !p.command.Fits(told) {
		return false, false
	}
	same := len(p.batch) == 0 || p.batch[0].conversation == conversation || !p.command.Wants("{session}")
	return p.idle() && same, true
}

// deliver is [deliverer.deliver].
func (p *program) deliver(o Offer, c content) { p.batch = append(p.batch, carried{o, c}) }

// start runs the program for what this turn brought.
func (p *program) start() {
	if len(p.batch) == 0 {
		return
	}
	batch := p.batch
	p.batch, p.running = nil, true
	wakes := make([]delivery.Wake, len(batch))
	for i, c := range batch {
		wakes[i] = delivery.Wake{
			EventID: c.EventID, Kind: c.kind, ReminderID: c.Reminder, Text: c.text, Due: text.Protocol(c.Due), Session: c.conversation,
			Title: c.title, Severity: c.severity, URL: c.url,
		}
	}
	go func() {
		result := p.command.Run(p.ctx, wakes)
		p.e.do(func() { p.over(batch, result) })
		p.ended <- struct{}{}
	}()
}

// over takes in what came of a run.
func (p *program) over(batch []carried, r delivery.Result) {
	p.running = false
	answer := wire.Answer{Result: json.RawMessage(`{}`)}
	switch {
	case r.Taken:
		p.pause = 0
	case r.Ended:
		return // the next server tries again, under the same event ids
	default:
		answer = wire.Answer{Err: &jsonrpc2.Error{Code: jsonrpc2.CodeInternalError, Message: r.Reason}}
	}
	if r.NotNow {
		p.pause = min(max(2*p.pause, p.retry), programRetryMost)
		p.notBefore = time.Now().Add(p.pause)
	}
	for _, c := range batch {
		p.e.outcome(p, c.Offer, answer)
	}
}

// close ends the program that runs, and waits for that.
func (p *program) close() {
	p.cancel()
	if p.running {
		<-p.ended
	}
}
