// Package wire owns one conversation in JSON-RPC 2.0, one message a line, over any reader and writer. It knows nothing of
// MCP. sourcegraph/jsonrpc2 does the RPC; the stream under it is ours ([stream]), because a bad line must never end the
// conversation, ids come back byte for byte, and a peer that does not read must cost bounded memory (SPEC 8.7, 8.8).
//
// Start with [New] and [Conn.Run]. The [Handler] is called in the order of the input and must not block; answers are given
// through [Reply] from anywhere, and never block either.
package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/rpc/rawjson"
)

// Errors that callers tell apart.
var (
	ErrPeerGone     = errors.New("the peer reads no more")
	ErrBackpressure = errors.New("too much waits for the peer to read")
	ErrClosed       = errors.New("the conversation is over")
)

// Handler gets what the peer sends.
type Handler interface {
	Request(method string, params json.RawMessage, reply *Reply)
	Notification(method string, params json.RawMessage)
}

// Options of a Conn; zero values stand for the defaults.
type Options struct {
	Log        *slog.Logger
	MaxLine    int           // longest line that is read, in bytes; 10 MiB
	MaxPending int64         // bytes of output that may wait for the peer before reading pauses; 32 MiB
	StallAfter time.Duration // how long the peer may leave output unread before that is logged; 30 s
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxLine <= 0 {
		o.MaxLine = 10 << 20
	}
	if o.MaxPending <= 0 {
		o.MaxPending = 32 << 20
	}
	if o.StallAfter <= 0 {
		o.StallAfter = 30 * time.Second
	}
	return o
}

// Conn is one conversation.
type Conn struct {
	o      Options
	h      Handler
	out    *output
	stream *stream
	rpc    *jsonrpc2.Conn

	calls    callTable
	requests sync.WaitGroup // peer's requests without an answer yet
	ready    chan struct{}  // closed when Run has begun and calls can be sent
}

// New makes a conversation; Run holds it.
func New(in io.Reader, out io.Writer, h Handler, o Options) *Conn {
	o = o.withDefaults()
	c := &Conn{o: o, h: h, ready: make(chan struct{})}
	c.out = newOutput(out, o)
	c.stream = newStream(in, c.out, o, &c.calls)
	c.calls.expired = c.stream.inject
	return c
}

// Run serves until the input ends, the peer is gone ([ErrPeerGone]) or ctx is done. At the end of the input it waits until every
// request has its answer queued. Whatever it returns, [Conn.Drain] must follow: until then answers are still sent.
func (c *Conn) Run(ctx context.Context) error {
	c.rpc = jsonrpc2.NewConn(context.WithoutCancel(ctx), c.stream, handler{c}, jsonrpc2.SetLogger(quiet{c.o.Log}))
	close(c.ready)
	select {
	case <-c.stream.ended:
	case <-c.out.failed:
	case <-ctx.Done():
	}
	if ctx.Err() == nil && !c.out.hasFailed() {
		c.awaitAnswers(ctx)
	}
	if c.out.hasFailed() {
		return fmt.Errorf("%w: %w", ErrPeerGone, c.out.err)
	}
	return nil
}

// awaitAnswers waits for the requests that were read before the input ended.
func (c *Conn) awaitAnswers(ctx context.Context) {
	answered := make(chan struct{})
	go func() {
		c.requests.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-c.out.failed:
	case <-ctx.Done():
	}
}

// Drain waits until all queued output is written, and ends the conversation. Calls that are open then get no answer.
func (c *Conn) Drain(ctx context.Context) error {
	c.calls.close()
	err := c.out.drain(ctx)
	if closed := c.rpc.Close(); closed != nil && !errors.Is(closed, jsonrpc2.ErrClosed) {
		err = errors.Join(err, closed)
	}
	return err
}

// Backlog is how many bytes wait for the peer to read.
func (c *Conn) Backlog() int64 { return c.out.waiting() }

// Call sends a request and returns at once. answer is called with the peer's answer, or with NoAnswer after limit, and then
// once more should a real answer come late; never from within Call. After an error it is never called.
func (c *Conn) Call(method string, params any, limit time.Duration, answer func(Answer)) error {
	<-c.ready
	if c.out.waiting() > c.o.MaxPending {
		return ErrBackpressure
	}
	raw, err := encode(params)
	if err != nil {
		return err
	}
	id := c.calls.begin(limit, answer)
	// What jsonrpc2 would do to the params (it escapes them for HTML) is spared them: the stream puts them in. The response
	// is taken by the stream's table before jsonrpc2 sees it, so there is nothing to wait for here.
	c.stream.putAside(id, raw)
	_, err = c.rpc.DispatchCall(context.Background(), method, nil, jsonrpc2.PickID(jsonrpc2.ID{Str: id, IsString: true}))
	if err != nil {
		c.calls.forget(id)
		c.stream.takeAside(id)
		return errors.Join(ErrClosed, err)
	}
	return nil
}

// Notify sends a notification.
func (c *Conn) Notify(method string, params any) error {
	return c.write(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}

// Answer answers a request that was held ([Reply.Hold]).
func (c *Conn) Answer(id json.RawMessage, result any) error {
	return c.write(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
}

func (c *Conn) write(message any) error {
	line, err := encode(message)
	if err != nil {
		return err
	}
	return c.out.put(append(line, '\n'))
}

// handler is jsonrpc2's way to the Handler.
type handler struct{ c *Conn }

func (h handler) Handle(_ context.Context, rpc *jsonrpc2.Conn, req *jsonrpc2.Request) {
	c := h.c
	raw := c.stream.paramsOf(req)
	var reply *Reply
	if !req.Notif {
		c.requests.Add(1)
		reply = &Reply{c: c, id: req.ID}
	}
	defer func() {
		if p := recover(); p != nil {
			c.o.Log.Error("a handler panicked", "method", req.Method, "panic", p, "stack", string(debug.Stack()))
			if reply != nil {
				reply.Error(jsonrpc2.CodeInternalError, "internal error", nil)
			}
		}
	}()
	if reply == nil {
		c.h.Notification(req.Method, raw)
		return
	}
	c.h.Request(req.Method, raw, reply)
}

// Reply answers one request, exactly once, from any goroutine, without blocking.
type Reply struct {
	c    *Conn
	id   jsonrpc2.ID
	done atomic.Bool
}

// Result answers with a result.
func (r *Reply) Result(v any) {
	raw, err := encode(v)
	if err != nil {
		r.Error(jsonrpc2.CodeInternalError, "the result cannot be encoded: "+err.Error(), nil)
		return
	}
	r.send("result", raw)
}

// Error answers with an error; data may be nil.
func (r *Reply) Error(code int64, message string, data any) {
	e := &jsonrpc2.Error{Code: code, Message: message}
	if data != nil {
		if raw, err := encode(data); err == nil {
			e.Data = (*json.RawMessage)(&raw)
		}
	}
	raw, err := encode(e)
	if err != nil {
		raw = []byte(`{"code":-32603,"message":"internal error"}`)
	}
	r.send("error", raw)
}

func (r *Reply) send(name string, value json.RawMessage) {
	if !r.done.CompareAndSwap(false, true) {
		r.c.o.Log.Error("a request was answered twice; the second answer is dropped", "id", r.id.String())
		return
	}
	defer r.c.requests.Done()
	if err := r.c.stream.answer(r.id, name, value); err != nil && !errors.Is(err, ErrClosed) {
		r.c.o.Log.Error("an answer could not be sent", "err", err)
	}
}

// Hold takes the request out of those that are awaited, and returns its id: it is answered much later, with [Conn.Answer],
// or never.
func (r *Reply) Hold() json.RawMessage {
	if !r.done.CompareAndSwap(false, true) {
		return nil
	}
	defer r.c.requests.Done()
	id, err := r.c.stream.peerID(json.RawMessage(r.id.String()))
	if err != nil {
		r.c.o.Log.Error("a request that was answered is held", "err", err)
	}
	return id
}

// encode is JSON without the escapes that only HTML needs.
func encode(v any) ([]byte, error) {
	return rawjson.Append(nil, v)
}

// quiet lets jsonrpc2 talk to our log; what it says concerns only developers.
type quiet struct{ log *slog.Logger }

func (q quiet) Printf(format string, v ...any) { q.log.Debug(fmt.Sprintf(format, v...)) }

func callID(n uint64) string { return "hb-" + strconv.FormatUint(n, 10) }
