// Package session owns one client's conversation: MCP over JSON-RPC lines, and MCPL on top of it. Everything that needs no
// state is answered on the spot, whatever state the files are in (SPEC 1.4); all else is asked of the engine, which may be
// in this process or in another: a session does not know which (SPEC 13.1).
//
// Start with [New] and [Session.Run].
package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection/rawjson"
	"heartbeat-mcpl/rpc/engine"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/tools"
	"heartbeat-mcpl/rpc/wire"
)

// Engine is a session's way to the state. Its functions return at once; a false says that the process ends, and that answer is
// never called.
type Engine interface {
	// Initialized begins the conversation anew: what the client says of itself.
	Initialized(c engine.Client)
	// Call runs a tool.
	Call(c engine.Call, answer func(tools.Reply)) bool
	// CancelWait calls a waiting call off.
	CancelWait(cancel string)
	// Resource reads one of the resources.
	Resource(uri string, answer func(text string, err error)) bool
	// UpdatePolicy takes a featureSets/update request.
	UpdatePolicy(params json.RawMessage, answer func(mcpl.Receipt, error)) bool
	// NoticePolicy takes a featureSets/update notification.
	NoticePolicy(params json.RawMessage)
	// Lifecycle takes an inference/lifecycle notification.
	Lifecycle(params json.RawMessage)
	// Outcome says what came of an offer.
	Outcome(o engine.Offer, a wire.Answer)
}

// Options are what [New] needs to know.
type Options struct {
	Engine    Engine
	Version   string // of this build
	Log       *slog.Logger
	Proactive bool // the tools for hosts that poll are always listed
	Mesh      bool // the mesh's tools are listed and served
	Channel   bool // wakes may go out as messages of a Claude Code channel (SPEC 14.3)
}

// Session is one conversation. Its fields but subs are used by the reading goroutine alone.
type Session struct {
	o        Options
	engine   Engine
	protocol string // negotiated by initialize; empty before
	met      bool   // the client has said what it speaks
	offers   mcpl.Session
	conn     *wire.Conn
	subs     subscriptions
	waiting  waiting
}

// New makes a session with the client on in and out.
func New(in io.Reader, out io.Writer, o Options) *Session {
	s := &Session{o: o, engine: o.Engine}
	s.conn = wire.New(in, out, s, wire.Options{Log: o.Log})
	return s
}

// Run serves until the input ends, ctx is done or the client is gone ([wire.ErrPeerGone]). [Session.Drain] must follow.
func (s *Session) Run(ctx context.Context) error { return s.conn.Run(ctx) }

// Heard is closed once what the client sent first was answered, where that needs no state.
func (s *Session) Heard() <-chan struct{} { return s.conn.Heard() }

// Drain ends the conversation once all replies are written; see [wire.Conn.Drain].
func (s *Session) Drain(ctx context.Context, patience time.Duration) error {
	s.endListens()
	return s.conn.Drain(ctx, patience)
}

// Offer pushes a wake; it implements [engine.Host].
func (s *Session) Offer(o engine.Offer, params any, limit time.Duration) error {
	return s.conn.Call("push/event", params, limit, func(a wire.Answer) { s.engine.Outcome(o, a) })
}

// Notify sends a notification; it implements [engine.Host].
func (s *Session) Notify(method string, params any) error { return s.conn.Notify(method, params) }

// Backlog is how many bytes wait for the client to read.
func (s *Session) Backlog() int64 { return s.conn.Backlog() }

// Reads is how often something was read from the client.
func (s *Session) Reads() uint64 { return s.conn.Reads() }

// Request answers a request, or hands it to the engine.
func (s *Session) Request(method string, params json.RawMessage, reply *wire.Reply) {
	if params[0] != '{' && params[0] != '[' && method != "featureSets/update" { // whose malformed params clear the grant
		reply.Error(jsonrpc2.CodeInvalidParams, "params must be an object or an array", nil)
		return
	}
	call, err := newCall(s.protocol, params)
	if err != nil {
		fail(reply, err)
		return
	}
	if call.stateless && !s.met { // without a session there is no way to push (SPEC 8.2a)
		s.met = true
		s.engine.Initialized(engine.Client{Name: call.client})
	}
	switch method {
	case "initialize":
		s.initialize(params, reply)
	case "ping":
		reply.Result(call.result(map[string]any{}))
	case "server/discover":
		s.discover(call, reply)
	case "tools/list":
		reply.Result(call.listing(map[string]any{"tools": listing(call.protocol, !s.offers.MCPL || s.o.Proactive, s.o.Channel, s.o.Mesh)}))
	case "tools/call":
		s.callTool(call, reply)
	case "prompts/list":
		reply.Result(call.listing(map[string]any{"prompts": promptListing(call.protocol)}))
	case "prompts/get":
		s.getPrompt(call, params, reply)
	case "resources/list":
		s.listResources(call, reply)
	case "resources/templates/list":
		reply.Result(call.listing(map[string]any{"resourceTemplates": []any{}}))
	case "resources/read":
		s.readResource(call, params, reply)
	case "resources/subscribe":
		s.subscribe(call, params, reply, true)
	case "resources/unsubscribe":
		s.subscribe(call, params, reply, false)
	case "subscriptions/listen":
		s.listen(call, params, reply)
	case "featureSets/update":
		s.updatePolicy(params, reply)
	case "mcpl/manifest":
		reply.Result(mcpl.Manifest(s.offers.Lifecycle))
	default:
		reply.Error(jsonrpc2.CodeMethodNotFound, fmt.Sprintf("method %q is not served here", short(method)), nil)
	}
}

// Notification takes a notification; unknown ones are logged and ignored (SPEC 8.2).
func (s *Session) Notification(method string, params json.RawMessage) {
	switch method {
	case "notifications/initialized":
		// Nothing waits for it.
	case "notifications/cancelled":
		s.cancelled(params) // a subscription, or a waiting call; others are answered before a cancellation could reach them
	case "featureSets/update":
		s.engine.NoticePolicy(params)
	case "inference/lifecycle":
		s.engine.Lifecycle(params)
	default:
		s.o.Log.Info("a notification that is not known here is ignored", "method", short(method))
	}
}

// rpcError is an error answer.
type rpcError struct {
	code    int64
	message string
	data    any
}

func (e *rpcError) Error() string { return e.message }

func fail(reply *wire.Reply, err error) {
	var e *rpcError
	if errors.As(err, &e) {
		reply.Error(e.code, e.message, e.data)
		return
	}
	reply.Error(jsonrpc2.CodeInternalError, err.Error(), nil)
}

func ending(reply *wire.Reply) {
	reply.Error(jsonrpc2.CodeInternalError, "the server is ending", nil)
}

func (s *Session) callTool(call call, reply *wire.Reply) {
	name, isText := rawjson.Text(call.name)
	arguments := call.arguments
	if !isText {
		reply.Error(jsonrpc2.CodeInvalidParams, "tools/call needs params with the name of a tool (a string) and its arguments (an object)", nil)
		return
	}
	tool := tools.Find(name)
	switch {
	case tool == nil:
		reply.Error(jsonrpc2.CodeInvalidParams, fmt.Sprintf("unknown tool %q; did you mean %s?", short(name), tools.Nearest(name)), nil)
	case tool.Mesh && !s.o.Mesh:
		reply.Error(jsonrpc2.CodeInvalidParams, name+" is not served here: there is no mesh (HEARTBEAT_MESH is off, or the log says why)", nil)
	case !isObject(arguments):
		reply.Error(jsonrpc2.CodeInvalidParams, fmt.Sprintf("arguments of %s must be an object", name), nil)
	case name == "wait_for_wake":
		s.wait(call, reply)
	case !s.engine.Call(call.of(name), func(r tools.Reply) { reply.Result(call.toolResult(r)) }):
		ending(reply)
	}
}

// of is the call of a tool.
func (c *call) of(tool string) engine.Call {
	return engine.Call{By: journal.ByTool, Tool: tool, Arguments: c.arguments, Conversation: conversation(c.meta)}
}

// conversation is the host's conversation that a call comes from, where the call says so (SPEC 14.5).
func conversation(meta json.RawMessage) string {
	for _, raw := range []json.RawMessage{rawjson.Get(meta, "threadId"), rawjson.Get(rawjson.Get(meta, "x-codex-turn-metadata"), "thread_id")} {
		if id, isText := rawjson.Text(raw); isText && id != "" {
			return id
		}
	}
	return ""
}

// isObject says whether raw is a JSON object or nothing at all.
func isObject(raw json.RawMessage) bool {
	return absent(raw) || rawjson.IsObject(raw)
}

// absent says whether a value is not there, or null.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func (s *Session) updatePolicy(params json.RawMessage, reply *wire.Reply) {
	handed := s.engine.UpdatePolicy(params, func(receipt mcpl.Receipt, err error) {
		if err != nil {
			reply.Error(jsonrpc2.CodeInvalidParams, err.Error()+"; the grant is cleared, and no wake is sent until a valid one comes", nil)
			return
		}
		reply.Result(receipt)
	})
	if !handed {
		ending(reply)
	}
}

// short is a peer's text cut to what an error message should carry.
func short(text string) string {
	const most = 60
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "..."
}
