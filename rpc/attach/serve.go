package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection/rawjson"
	"heartbeat-mcpl/rpc/engine"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/tools"
	"heartbeat-mcpl/rpc/wire"
)

// The methods of the socket.
const (
	methodOpen        = "open"
	methodCall        = "call"
	methodResource    = "resource"
	methodPolicy      = "policy"
	methodSessions    = "sessions"
	methodPing        = "ping"
	methodInitialized = "initialized"
	methodNotice      = "notice"
	methodLifecycle   = "lifecycle"
	methodOutcome     = "outcome"
	methodCancel      = "cancel"
	methodOffer       = "offer"
	methodNotify      = "notify"
	methodChanged     = "changed"
)

// What the methods carry.
type (
	openParams struct {
		Peer   engine.Peer `json:"peer"`
		Offers []outcome   `json:"offers"` // that were under way, or were answered, when the last holder ended
	}
	cancelParams struct {
		Cancel string `json:"cancel"`
	}
	notifyParams struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	callParams struct {
		By        journal.Source  `json:"by"`
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
		Key       string          `json:"key,omitempty"`

		Conversation string `json:"conversation,omitempty"`
		Cancel       string `json:"cancel,omitempty"`
		Patient      bool   `json:"patient,omitempty"`
	}
	resourceParams struct {
		URI string `json:"uri"`
	}
	resourceResult struct {
		Text  string `json:"text"`
		Error string `json:"error,omitempty"`
	}
	policyResult struct {
		Receipt   mcpl.Receipt `json:"receipt"`
		Malformed string       `json:"malformed,omitempty"`
	}
	outcome struct {
		Offer  engine.Offer `json:"offer"`
		Answer *answer      `json:"answer"` // nil: it is under way
	}
	answer struct {
		Result   json.RawMessage `json:"result,omitempty"`
		Err      *jsonrpc2.Error `json:"error,omitempty"`
		NoAnswer bool            `json:"noAnswer,omitempty"`
		Late     bool            `json:"late,omitempty"`
	}
	offerParams struct {
		Offer   engine.Offer    `json:"offer"`
		Params  json.RawMessage `json:"params"`
		LimitMs int64           `json:"limitMs"`
	}
	changedParams struct {
		URIs []string `json:"uris"`
	}
)

// mostLine is the longest line on the socket: what a host may send in one, and what is around it.
const mostLine = 11 << 20

// peer is one client's connection, at the holder.
type peer struct {
	socket *socket
	said   hello
	conn   *wire.Conn

	mu      sync.Mutex
	session *engine.Session // nil before open, and for a command
}

func (s *socket) serve(conn net.Conn) {
	said, in, err := exchange(conn, hello{Heartbeat: protocolVersion, PID: pid, Version: s.version}, false)
	if err != nil {
		s.log.Warn("a program on the socket was cut off", "why", err)
		return
	}
	p := &peer{socket: s, said: said}
	p.conn = wire.New(in, conn, p, wire.Options{Log: s.log, MaxLine: mostLine, StallAfter: stallLimit, Broken: func(why string) {
		s.log.Warn("a program on the socket was cut off", "process", said.PID, "why", why)
		_ = conn.Close() // its reading ends with that
	}})
	_ = p.conn.Run(s.ctx) // it ends with the connection, whose reason is nobody's fault here
	if session := p.opened(); session != nil {
		session.Close()
	}
	_ = conn.Close() // what is queued for it has no reader
	_ = p.conn.Drain(s.ctx, time.Millisecond)
}

func (p *peer) opened() *engine.Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session
}

// Request answers what a client asks; see [wire.Handler].
func (p *peer) Request(method string, params json.RawMessage, reply *wire.Reply) {
	handed, err := true, error(nil)
	switch method {
	case methodOpen:
		err = p.open(params, reply)
	case methodCall:
		handed, err = p.call(params, reply)
	case methodResource:
		handed, err = p.resource(params, reply)
	case methodPolicy:
		handed, err = p.policy(params, reply)
	case methodSessions:
		handed = p.socket.engine.Sessions(func(all []engine.SessionInfo) { reply.Result(all) })
	case methodPing:
		reply.Result(struct{}{})
	default:
		err = fmt.Errorf("unknown method %q", method)
	}
	switch {
	case err != nil:
		reply.Error(jsonrpc2.CodeInvalidParams, err.Error(), nil)
	case !handed:
		reply.Error(jsonrpc2.CodeInternalError, "the server is ending", nil)
	}
}

func (p *peer) open(params json.RawMessage, reply *wire.Reply) error {
	var o openParams
	if err := json.Unmarshal(params, &o); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session != nil {
		return errors.New("the session is open already")
	}
	underWay := make([]engine.Offer, 0, len(o.Offers))
	for _, offer := range o.Offers {
		underWay = append(underWay, offer.Offer)
	}
	p.session = p.socket.engine.Connect(remoteHost{p}, o.Peer, underWay...)
	for _, offer := range o.Offers {
		if offer.Answer != nil {
			p.session.Outcome(offer.Offer, offer.Answer.wire())
		}
	}
	reply.Result(struct{}{})
	return nil
}

func (p *peer) call(params json.RawMessage, reply *wire.Reply) (bool, error) {
	var c callParams
	if err := json.Unmarshal(params, &c); err != nil {
		return true, err
	}
	if string(c.Arguments) == "null" {
		c.Arguments = nil
	}
	tool := tools.Find(c.Tool)
	switch {
	case c.Tool == tools.Restore && c.By == journal.ByCLI: // a person's, not the agent's
	case tool == nil:
		return true, fmt.Errorf("unknown tool %q; did you mean %s?", c.Tool, tools.Nearest(c.Tool))
	case len(c.Arguments) > 0 && !rawjson.IsObject(c.Arguments):
		return true, errors.New("arguments must be an object")
	}
	call := engine.Call{By: c.By, Tool: c.Tool, Arguments: c.Arguments, Key: c.Key, Conversation: c.Conversation, Cancel: c.Cancel, Patient: c.Patient}
	answer := func(r tools.Reply) { reply.Result(r) }
	if c.Cancel != "" { // it waits, beside all others
		id := reply.Hold()
		answer = func(r tools.Reply) { _ = p.conn.Answer(id, r) } // a session that is gone needs no word
	}
	return p.socket.engine.Call(p.opened(), call, answer), nil
}

func (p *peer) resource(params json.RawMessage, reply *wire.Reply) (bool, error) {
	var r resourceParams
	if err := json.Unmarshal(params, &r); err != nil {
		return true, err
	}
	return p.socket.engine.Resource(r.URI, func(text string, err error) {
		said := resourceResult{Text: text}
		if err != nil {
			said.Error = err.Error()
		}
		reply.Result(said)
	}), nil
}

// errNotOpen says that a client asks for a session's matters and has none.
var errNotOpen = errors.New("the session is not open")

func (p *peer) policy(params json.RawMessage, reply *wire.Reply) (bool, error) {
	session := p.opened()
	if session == nil {
		return true, errNotOpen
	}
	return session.UpdatePolicy(params, func(r mcpl.Receipt, err error) {
		said := policyResult{Receipt: r}
		if err != nil {
			said.Malformed = err.Error()
		}
		reply.Result(said)
	}), nil
}

// Notification takes what a client tells; see [wire.Handler].
func (p *peer) Notification(method string, params json.RawMessage) {
	session := p.opened()
	if session == nil {
		return
	}
	switch method {
	case methodInitialized:
		var c engine.Client
		if json.Unmarshal(params, &c) == nil {
			session.Initialized(c)
		}
	case methodNotice:
		session.NoticePolicy(params)
	case methodLifecycle:
		session.Lifecycle(params)
	case methodCancel:
		var c cancelParams
		if json.Unmarshal(params, &c) == nil {
			session.CancelWait(c.Cancel)
		}
	case methodOutcome:
		var o outcome
		if json.Unmarshal(params, &o) == nil && o.Answer != nil {
			session.Outcome(o.Offer, o.Answer.wire())
		}
	}
}

// remoteHost is an attached session as the engine reaches it.
type remoteHost struct{ p *peer }

// offerGrace is how much longer than the host's limit a session's process may take to say that no answer came: it may be stopped.
const offerGrace = 5 * time.Second

// Offer hands a wake to the session's process, which answers with an outcome.
func (h remoteHost) Offer(o engine.Offer, params any, limit time.Duration) error {
	raw, err := rawjson.Append(nil, params)
	if err != nil {
		return err
	}
	time.AfterFunc(limit+offerGrace, func() { h.p.opened().Outcome(o, wire.Answer{NoAnswer: true}) })
	return h.p.conn.Notify(methodOffer, offerParams{Offer: o, Params: raw, LimitMs: limit.Milliseconds()})
}

// Notify has the session's process send a notification.
func (h remoteHost) Notify(method string, params any) error {
	raw, err := rawjson.Append(nil, params)
	if err != nil {
		return err
	}
	return h.p.conn.Notify(methodNotify, notifyParams{method, raw})
}

// Backlog is how many bytes wait for the session's process to read.
func (h remoteHost) Backlog() int64 { return h.p.conn.Backlog() }

// Reads is how often something was read from it.
func (h remoteHost) Reads() uint64 { return h.p.conn.Reads() }

// Changed tells it of changed resources.
func (h remoteHost) Changed(uris []string) {
	_ = h.p.conn.Notify(methodChanged, changedParams{uris}) // a session that is gone needs no word
}

func (a *answer) wire() wire.Answer {
	return wire.Answer{Result: a.Result, Err: a.Err, NoAnswer: a.NoAnswer, Late: a.Late}
}

func answerOf(a wire.Answer) *answer {
	return &answer{Result: a.Result, Err: a.Err, NoAnswer: a.NoAnswer, Late: a.Late}
}
