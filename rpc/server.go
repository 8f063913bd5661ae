// Package rpc owns a server's conversation with one host: MCP over JSON-RPC lines, and MCPL on top of it. It hands what
// is asked to the engine and gives back what the engine answers.
//
// Start with [Serve]. The handshake and everything that needs no state are answered on the spot, whatever state the
// files are in (SPEC 1.4); all else is the engine's.
package rpc

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
	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/agents"
	"heartbeat-mcpl/rpc/control"
	"heartbeat-mcpl/rpc/engine"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/tools"
	"heartbeat-mcpl/rpc/wire"
)

// drainLimit is how long a host may take none of the last replies once the server ends, and how long all of them may take after a
// signal.
const drainLimit = 2 * time.Second

// firstLine is how long the host's first line is waited for, before anything is opened.
const firstLine = 5 * time.Millisecond

// Options are what [Serve] needs to know.
type Options struct {
	Engine  engine.Options
	Version string // of this build
	Log     *slog.Logger
	Mesh    agents.Mesh     // nil: its tools are neither listed nor served
	Pane    agents.Prompter // nil: there are no panes
	Home    string          // tells this server from others in the mesh
}

// server answers one connection. Its fields but subs are used by the reading goroutine alone.
type server struct {
	o        Options
	engine   *engine.Engine
	protocol string // negotiated by initialize; empty before
	met      bool   // the client has said what it speaks
	session  mcpl.Session
	conn     *wire.Conn
	socket   *control.Socket
	agents   *agents.Service // nil: there is no mesh
	subs     subscriptions
}

// Serve talks to the host on in and out until in ends, ctx is done or the host is gone; then everything is brought to
// disk. An error says what could not be.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	s := newServer(in, out, o)
	if s.agents != nil {
		defer s.agents.Close()
	}
	ran := make(chan error, 1)
	go func() { ran <- s.conn.Run(ctx) }()
	select { // hosts wait for the first answer, which needs nothing of what comes next
	case <-s.conn.Heard():
	case <-time.After(firstLine):
	}

	if unwatch, err := recovery.Watch(o.Engine.Store.Files, s.engine.FilesChanged); err == nil {
		defer func() { _ = unwatch() }() // the process ends
	} else {
		o.Log.Info("edits of the files are looked for once a second", "why", err)
	}

	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	why := "stdin closed"
	stopped := make(chan error, 1)
	go func() { stopped <- s.engine.Run(working, func() string { return why }) }()

	if s.agents != nil {
		s.engine.Participant(func(agent, pane string) { go s.agents.Resume(agent, pane) })
	}
	err := <-ran
	hostGone := errors.Is(err, wire.ErrPeerGone)
	switch {
	case ctx.Err() != nil:
		why, err = "signal", nil
	case hostGone:
		why, err = "the host is gone", nil
		o.Log.Info("the host is gone: nothing more can be written to it")
	}
	s.socket.Close() // while this process still holds the journal: another one's socket is never removed
	stop()
	err = errors.Join(err, <-stopped)
	s.endListens()
	drain, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainLimit, cancel) })()
	if unread := s.conn.Drain(drain, drainLimit); unread != nil && !hostGone {
		o.Log.Warn("the last replies were given up; what they say is on disk", "why", unread)
	}
	return err
}

func newServer(in io.Reader, out io.Writer, o Options) *server {
	s := &server{o: o}
	s.socket = &control.Socket{Log: o.Log, Call: s.control}
	o.Engine.Changed = s.changed
	o.Engine.Opened = func() { s.socket.Listen(o.Engine.Store.Journal) }
	if o.Mesh != nil {
		o.Engine.TakeLetters = func(ids []string) { s.agents.Take(ids) }
	}
	s.engine = engine.New(o.Engine)
	if o.Mesh != nil {
		s.agents = agents.New(agents.Options{Mesh: o.Mesh, Host: s.engine, Zone: o.Engine.Zone, Log: o.Log, Pane: o.Pane, Home: o.Home})
	}
	s.conn = wire.New(in, out, s, wire.Options{Log: o.Log})
	s.engine.Attach(s.conn)
	return s
}

// control answers a person at the command line. False: the server ends.
func (s *server) control(tool string, arguments json.RawMessage, answer func(tools.Reply)) bool {
	return s.engine.CallBy(journal.ByCLI, tool, arguments, answer)
}

// Request answers a request, or hands it to the engine.
func (s *server) Request(method string, params json.RawMessage, reply *wire.Reply) {
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
		s.engine.Initialized(mcpl.Session{})
	}
	switch method {
	case "initialize":
		s.initialize(params, reply)
	case "ping":
		reply.Result(call.result(map[string]any{}))
	case "server/discover":
		s.discover(call, reply)
	case "tools/list":
		reply.Result(call.listing(map[string]any{"tools": listing(call.protocol, !s.session.MCPL || s.o.Engine.Proactive, s.agents != nil)}))
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
		reply.Result(mcpl.Manifest(s.session.Lifecycle))
	default:
		reply.Error(jsonrpc2.CodeMethodNotFound, fmt.Sprintf("method %q is not served here", short(method)), nil)
	}
}

// Notification takes a notification; unknown ones are logged and ignored (SPEC 8.2).
func (s *server) Notification(method string, params json.RawMessage) {
	switch method {
	case "notifications/initialized":
		// Nothing waits for it.
	case "notifications/cancelled":
		s.cancelled(params) // a subscription; calls are answered before a cancellation could reach them
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

func (s *server) callTool(call call, reply *wire.Reply) {
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
	case tool.Mesh && s.agents == nil:
		reply.Error(jsonrpc2.CodeInvalidParams, name+" is not served here: there is no mesh (HEARTBEAT_MESH is off, or the log says why)", nil)
	case !isObject(arguments):
		reply.Error(jsonrpc2.CodeInvalidParams, fmt.Sprintf("arguments of %s must be an object", name), nil)
	case tool.Mesh: // beside the reading, as below: the mesh may have to be waited for
		go func() { reply.Result(call.toolResult(s.callMesh(tool, arguments))) }()
	case name == "get_proactive_events" && s.agents != nil:
		go func() {
			s.agents.Refresh()
			s.callEngine(call.dialect, name, arguments, reply)
		}()
	default:
		s.callEngine(call.dialect, name, arguments, reply)
	}
}

// callMesh runs one of the mesh's tools. While another server holds the journal this one is nobody in the mesh.
func (s *server) callMesh(tool *tools.Tool, arguments json.RawMessage) tools.Reply {
	standing := s.engine.Standing()
	if standing != "" && !tool.ReadOnly {
		return tools.Reply{Text: standing, IsError: true}
	}
	r := s.agents.Call(tool.Name, arguments)
	if standing != "" {
		r.Text += "\n" + standing
	}
	return r
}

func (s *server) callEngine(d dialect, name string, arguments json.RawMessage, reply *wire.Reply) {
	if !s.engine.Call(name, arguments, func(r tools.Reply) { reply.Result(d.toolResult(r)) }) {
		ending(reply)
	}
}

// isObject says whether raw is a JSON object or nothing at all.
func isObject(raw json.RawMessage) bool {
	return absent(raw) || rawjson.IsObject(raw)
}

// absent says whether a value is not there, or null.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func (s *server) updatePolicy(params json.RawMessage, reply *wire.Reply) {
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
