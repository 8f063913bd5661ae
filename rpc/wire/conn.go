// Package wire owns one conversation in JSON-RPC 2.0, one message a line, over any reader and writer. It knows nothing of
// MCP. sourcegraph/jsonrpc2 makes our calls to the peer ([callStream]); what the peer sends is read by a stream of ours
// ([stream]), because a bad line must never end the conversation, ids come back byte for byte, and a peer that does not read
// must cost bounded memory (SPEC 8.7, 8.8).
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
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/projection/rawjson"
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

	// Broken is called, with the reason, when the peer sends what is no message, or leaves output unread for StallAfter: whoever
	// serves a program of its own kind ends the conversation then. nil: bad lines are answered, and unread output is logged.
	Broken func(why string)
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
	stream *stream // what the peer sends

	rpc        *jsonrpc2.Conn // our calls to it
	callStream *callStream
	calls      callTable

	requests sync.WaitGroup // peer's requests without an answer yet
	ready    chan struct{}  // closed when Run has begun and calls can be sent
}

// New makes a conversation; Run holds it.
func New(in io.Reader, out io.Writer, h Handler, o Options) *Conn {
	o = o.withDefaults()
	c := &Conn{o: o, h: h, ready: make(chan struct{})}
	c.out = newOutput(out, o)
	c.callStream = newCallStream(c.out)
	c.calls.settled = c.callStream.settled
	c.stream = newStream(in, c.out, o, &c.calls, c.callStream.closed)
	c.stream.dispatch = c.dispatch
	return c
}

// Run serves until the input ends, the peer is gone ([ErrPeerGone]) or ctx is done. At the end of the input it waits until every
// request has its answer queued. Whatever it returns, [Conn.Drain] must follow: until then answers are still sent.
func (c *Conn) Run(ctx context.Context) error {
	c.rpc = jsonrpc2.NewConn(context.WithoutCancel(ctx), c.callStream, nil, jsonrpc2.SetLogger(quiet{c.o.Log}))
	close(c.ready)
	go c.stream.read()
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

// Drain waits until all queued output is written, and ends the conversation. Calls that are open then get no answer. An error says
// what was not written, as the peer took nothing for as long as patience, or ctx was done.
func (c *Conn) Drain(ctx context.Context, patience time.Duration) error {
	c.calls.close()
	err := c.out.drain(ctx, patience)
	if closed := c.rpc.Close(); closed != nil && !errors.Is(closed, jsonrpc2.ErrClosed) {
		err = errors.Join(err, closed)
	}
	return err
}

// Backlog is how many bytes wait for the peer to read.
func (c *Conn) Backlog() int64 { return c.out.waiting() }

// Reads is how often something was read from the peer.
func (c *Conn) Reads() uint64 { return c.stream.input.reads.Load() }

// Heard is closed once what the peer sent first was handed on, and its answers that were given at once are being written; or the
// input ended.
func (c *Conn) Heard() <-chan struct{} { return c.stream.heard }

// Call sends a request and returns at once. answer is called with the peer's answer, or with NoAnswer after limit, and then
// once more should a real answer come late; never from within Call. After an error it is never called.
func (c *Conn) Call(method string, params any, limit time.Duration, answer func(Answer)) error {
	<-c.ready
	if c.out.waiting() > c.o.MaxPending {
		return ErrBackpressure
	}
	raw, err := rawjson.Append(nil, params)
	if err != nil {
		return err
	}
	id := c.calls.begin(limit, answer)
	line := slices.Concat([]byte(`{"jsonrpc":"2.0","id":"`+id+`","method":"`+method+`","params":`), raw, []byte("}\n"))
	if err := c.callStream.call(c.rpc, method, id, line); err != nil {
		c.calls.forget(id)
		return errors.Join(ErrClosed, err)
	}
	return nil
}

// Notify sends a notification.
func (c *Conn) Notify(method string, params any) error {
	line, err := rawjson.Append(nil, map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
	if err != nil {
		return err
	}
	return c.out.put(append(line, '\n'))
}

// Answer answers a request that was held ([Reply.Hold]).
func (c *Conn) Answer(id json.RawMessage, result any) error {
	line, err := appendResponse(nil, id, "result", result)
	if err != nil {
		return err
	}
	return c.out.put(line)
}

// dispatch hands a request or notification to the Handler.
func (c *Conn) dispatch(method string, params, id json.RawMessage) {
	var reply *Reply
	if id != nil {
		c.requests.Add(1)
		reply = &Reply{c: c, id: id}
	}
	defer func() {
		if p := recover(); p != nil {
			c.o.Log.Error("a handler panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
			if reply != nil {
				reply.Error(jsonrpc2.CodeInternalError, "internal error", nil)
			}
		}
	}()
	if reply == nil {
		c.h.Notification(method, params)
		return
	}
	c.h.Request(method, params, reply)
}

// Reply answers one request, exactly once, from any goroutine, without blocking.
type Reply struct {
	c    *Conn
	id   json.RawMessage // as the peer wrote it
	done atomic.Bool
}

// Result answers with a result.
func (r *Reply) Result(v any) {
	if err := r.send("result", v); err != nil {
		r.Error(jsonrpc2.CodeInternalError, "the result cannot be encoded: "+err.Error(), nil)
	}
}

// Error answers with an error; data may be nil, and is left out where it cannot be encoded.
func (r *Reply) Error(code int64, message string, data any) {
	e := &jsonrpc2.Error{Code: code, Message: message}
	if data != nil {
		if raw, err := rawjson.Append(nil, data); err == nil {
			e.Data = (*json.RawMessage)(&raw)
		}
	}
	if err := r.send("error", e); err != nil {
		r.c.o.Log.Error("an error could not be encoded", "err", err)
	}
}

// lines are buffers for lines on their way into the queue, which copies them.
var lines = sync.Pool{New: func() any { return new([]byte) }}

// mostKept is the largest buffer that is used again, in bytes.
const mostKept = 128 << 10

// send queues the answer. An error says that the value cannot be encoded: nothing was sent then.
func (r *Reply) send(name string, value any) error {
	buffer := lines.Get().(*[]byte)
	defer func() {
		if cap(*buffer) <= mostKept {
			lines.Put(buffer)
		}
	}()
	line, err := appendResponse((*buffer)[:0], r.id, name, value)
	if err != nil {
		return err
	}
	*buffer = line
	if r.finish() {
		_ = r.c.out.put(line) // after the end there is nobody to tell
		r.c.requests.Done()
	}
	return nil
}

// finish says whether the request was still to be answered, and makes room for the next.
func (r *Reply) finish() bool {
	if !r.done.CompareAndSwap(false, true) {
		r.c.o.Log.Error("a request was answered twice; the second answer is dropped", "id", string(r.id))
		return false
	}
	r.c.stream.answered()
	return true
}

// Hold takes the request out of those that are awaited, and returns its id: it is answered much later, with [Conn.Answer],
// or never.
func (r *Reply) Hold() json.RawMessage {
	if !r.finish() {
		return nil
	}
	r.c.requests.Done()
	return r.id
}

// appendResponse adds the line of a response: name is "result" or "error".
func appendResponse(dst []byte, id json.RawMessage, name string, value any) ([]byte, error) {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	dst, err := rawjson.Append(dst, value)
	return append(dst, "}\n"...), err
}

// quiet lets jsonrpc2 talk to our log; what it says concerns only developers.
type quiet struct{ log *slog.Logger }

func (q quiet) Printf(format string, v ...any) { q.log.Debug(fmt.Sprintf(format, v...)) }

func callID(n uint64) string { return "hb-" + strconv.FormatUint(n, 10) }
