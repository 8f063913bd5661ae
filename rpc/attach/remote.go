package attach

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/rpc/engine"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/tools"
	"heartbeat-mcpl/rpc/wire"
)

const (
	pingEvery = time.Second     // while something was asked and not answered
	pingLimit = 7 * time.Second // a holder that does not answer a ping for that long is silent (within 10 s of a call)
	noLimit   = 365 * 24 * time.Hour
)

// remote is the holder's engine, through its socket.
type remote struct {
	link   *Link
	holder hello
	conn   *wire.Conn
	ended  chan struct{} // closed when the connection has ended
	closer func()

	watching atomic.Bool // a ping is about to be sent, or out
}

// dial connects to the holder of a journal. An error wraps [ErrNoServer] where nobody listens.
func dial(journalDir string, mine hello) (net.Conn, hello, *bufio.Reader, error) {
	path, err := Path(journalDir)
	if err != nil {
		return nil, hello{}, nil, err
	}
	conn, err := net.DialTimeout("unix", path, helloLimit)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, hello{}, nil, fmt.Errorf("%w (%s)", ErrNoServer, path)
	}
	if err != nil {
		return nil, hello{}, nil, fmt.Errorf("reach the server: %w", err)
	}
	theirs, in, err := exchange(conn, mine, true)
	if err != nil {
		_ = conn.Close() // it was of no use
		return nil, theirs, nil, fmt.Errorf("reach the server: %w", err)
	}
	return conn, theirs, in, nil
}

// attach connects to the holder and registers this link's session.
func (l *Link) attach(ctx context.Context) (*remote, error) {
	conn, holder, in, err := dial(l.o.Journal, hello{Heartbeat: protocolVersion, Kind: kindSession, PID: pid, Version: l.o.Version})
	if err != nil {
		return nil, err
	}
	r := &remote{link: l, holder: holder, ended: make(chan struct{}), closer: func() { _ = conn.Close() }}
	r.conn = wire.New(in, conn, r, wire.Options{Log: l.o.Log, MaxLine: mostLine, StallAfter: stallLimit, Broken: func(string) { r.closer() }})
	go func() {
		defer close(r.ended)
		_ = r.conn.Run(ctx) // it ends with the connection: the next holder is looked for
		r.closer()
		_ = r.conn.Drain(ctx, time.Millisecond)
	}()
	if l.host == nil {
		return r, nil
	}
	l.take(func(peer engine.Peer, offers []outcome) way {
		if err = r.conn.Call(methodOpen, openParams{peer, offers}, noLimit, func(wire.Answer) {}); err != nil {
			return nil
		}
		return r // the socket keeps the order: what is asked now comes behind it
	})
	if err != nil {
		r.closer()
		return nil, err
	}
	l.o.Log.Info("attached to the process that holds the journal", "pid", holder.PID, "journal", l.o.Journal)
	return r, nil
}

// wait waits until the connection has ended, or ctx is done.
func (r *remote) wait(ctx context.Context) {
	defer r.closer()
	select {
	case <-ctx.Done():
	case <-r.ended:
	}
}

// watch pings the holder as long as something was asked and not answered: one that is stopped keeps its connections.
func (r *remote) watch() {
	if r.watching.CompareAndSwap(false, true) {
		time.AfterFunc(pingEvery, r.ping)
	}
}

func (r *remote) ping() {
	again := func() {
		r.watching.Store(false)
		r.link.watch()
	}
	if !r.link.waits() {
		again()
		return
	}
	err := r.conn.Call(methodPing, struct{}{}, pingLimit, func(a wire.Answer) {
		switch {
		case a.Late:
		case a.NoAnswer:
			r.link.silent(r.holder.PID, pingLimit)
			fallthrough
		default:
			again()
		}
	})
	if err != nil {
		r.watching.Store(false) // the connection is at its end
	}
}

// call asks the holder. A lost connection answers nothing: the next holder is asked.
func (r *remote) call(method string, params any, answer func(wire.Answer)) bool {
	err := r.conn.Call(method, params, noLimit, answer)
	if errors.Is(err, wire.ErrBackpressure) {
		answer(wire.Answer{Err: &jsonrpc2.Error{Code: jsonrpc2.CodeInternalError, Message: "the process that holds the journal does not read: " + err.Error()}})
		return true
	}
	return err == nil
}

func (r *remote) tell(method string, params any) {
	_ = r.conn.Notify(method, params) // a lost connection: the next holder is told with open
}

// Call runs a tool.
func (r *remote) Call(c engine.Call, answer func(tools.Reply)) bool {
	return r.call(methodCall, callParams{By: c.By, Tool: c.Tool, Arguments: c.Arguments, Key: c.Key, Conversation: c.Conversation, Cancel: c.Cancel, Patient: c.Patient}, func(a wire.Answer) {
		var reply tools.Reply
		switch {
		case a.Err != nil:
			reply = tools.Reply{Text: a.Err.Message, IsError: true}
		default:
			if err := json.Unmarshal(a.Result, &reply); err != nil {
				reply = tools.Reply{Text: "the holder's answer cannot be read: " + err.Error(), IsError: true}
			}
		}
		answer(reply)
	})
}

// Resource reads one of the resources.
func (r *remote) Resource(uri string, answer func(text string, err error)) bool {
	return r.call(methodResource, resourceParams{uri}, func(a wire.Answer) {
		var result resourceResult
		err := decoded(a, &result)
		if err == nil && result.Error != "" {
			err = errors.New(result.Error)
		}
		answer(result.Text, err)
	})
}

// UpdatePolicy takes a featureSets/update request.
func (r *remote) UpdatePolicy(params json.RawMessage, answer func(mcpl.Receipt, error)) bool {
	return r.call(methodPolicy, params, func(a wire.Answer) {
		var result policyResult
		err := decoded(a, &result)
		if err == nil && result.Malformed != "" {
			err = fmt.Errorf("%w%s", mcpl.ErrMalformed, strings.TrimPrefix(result.Malformed, mcpl.ErrMalformed.Error()))
		}
		answer(result.Receipt, err)
	})
}

func decoded(a wire.Answer, v any) error {
	if a.Err != nil {
		return errors.New(a.Err.Message)
	}
	return json.Unmarshal(a.Result, v)
}

// Initialized begins the conversation anew.
func (r *remote) Initialized(c engine.Client) { r.tell(methodInitialized, c) }

// NoticePolicy takes a featureSets/update notification.
func (r *remote) NoticePolicy(params json.RawMessage) { r.tell(methodNotice, params) }

// Lifecycle takes an inference/lifecycle notification.
func (r *remote) Lifecycle(params json.RawMessage) { r.tell(methodLifecycle, params) }

// CancelWait calls a waiting call off.
func (r *remote) CancelWait(cancel string) { r.tell(methodCancel, cancelParams{cancel}) }

// Outcome says what came of an offer.
func (r *remote) Outcome(o engine.Offer, a wire.Answer) {
	r.tell(methodOutcome, outcome{o, answerOf(a)})
}

// Request answers the holder, which asks nothing; see [wire.Handler].
func (r *remote) Request(method string, _ json.RawMessage, reply *wire.Reply) {
	reply.Error(jsonrpc2.CodeMethodNotFound, "unknown method "+method, nil)
}

// Notification takes what the holder tells; see [wire.Handler].
func (r *remote) Notification(method string, params json.RawMessage) {
	switch method {
	case methodOffer:
		var o offerParams
		if json.Unmarshal(params, &o) == nil && r.link.host != nil {
			r.link.offer(o.Offer, o.Params, time.Duration(o.LimitMs)*time.Millisecond)
		}
	case methodNotify:
		var n notifyParams
		if json.Unmarshal(params, &n) == nil && r.link.host != nil {
			_ = r.link.host.Notify(n.Method, n.Params) // a client that is gone needs no word
		}
	case methodChanged:
		var c changedParams
		if json.Unmarshal(params, &c) == nil && r.link.host != nil {
			r.link.host.Changed(c.URIs)
		}
	}
}

// askLimit is how long a command waits for its answer.
const askLimit = 12 * time.Second

// Ask runs a tool at the holder of a journal, for a person. An error wraps [ErrNoServer] where nobody holds it.
func Ask(journalDir, tool string, arguments json.RawMessage) (reply tools.Reply, err error) {
	err = ask1(journalDir, methodCall, callParams{By: journal.ByCLI, Tool: tool, Arguments: arguments}, &reply)
	return reply, err
}

// Sessions are the sessions at the holder of a journal. An error wraps [ErrNoServer] where nobody holds it.
func Sessions(journalDir string) (all []engine.SessionInfo, err error) {
	err = ask1(journalDir, methodSessions, struct{}{}, &all)
	return all, err
}

// ask1 asks one thing.
func ask1(journalDir, method string, params, result any) error {
	conn, _, in, err := dial(journalDir, hello{Heartbeat: protocolVersion, Kind: kindCommand, PID: pid})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(askLimit)); err != nil {
		return err
	}
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	var response struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.NewDecoder(in).Decode(&response); err != nil {
		return fmt.Errorf("the server did not answer; what was asked may still be done: %w", err)
	}
	if response.Error != nil {
		return errors.New(response.Error.Message)
	}
	return json.Unmarshal(response.Result, result)
}
