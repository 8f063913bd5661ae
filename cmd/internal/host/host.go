// Package host plays an agent's host against a stdio server: it starts the server as a child process, speaks JSON-RPC lines
// to it as an MCPL or an MCP-only host would, and takes its pushes. Tests at the process level and `heartbeat-mcpl try` use
// it.
//
// Start with [Start]. It is strict: whatever the server writes to stdout that is not one JSON object a line is kept in
// [Host.Violations].
package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Grant are the params of a policy that lets wakes through.
var Grant = map[string]any{"effectiveCapabilities": []string{"tools", "pushEvents"}, "enabled": []string{"heartbeat"}}

// Options say which server is started, and how.
type Options struct {
	Command []string
	Env     []string  // added to the environment, less the variables that a server of ours reads
	Dir     string    // its working folder; empty: this one's
	Stderr  io.Writer // a copy of its stderr; may be nil
}

// Host is one server process and the conversation with it.
type Host struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	reader *os.File // its stdout

	writing sync.Mutex

	mu         sync.Mutex
	seq        int
	lines      int // how many the server has written
	calls      map[string]*Pending
	others     []json.RawMessage // answers to no call of ours
	pushes     []*Push
	onPush     func(*Push)
	stderr     []string
	violations []string
	changed    chan struct{} // closed and made anew whenever one of the above grew
	paused     chan struct{} // while not nil: reading waits until it is closed
	ended      chan struct{} // the process was waited for
	exit       error
}

// Start starts the server.
func Start(o Options) (*Host, error) {
	if len(o.Command) == 0 {
		return nil, errors.New("no server command was given")
	}
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Dir, cmd.Env = o.Dir, append(CleanEnv(), o.Env...)
	cmd.WaitDelay = 5 * time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Pipes of our own: those of exec are closed by Wait, with what was not read yet.
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = outW, errW
	h := &Host{cmd: cmd, stdin: stdin, reader: outR, calls: map[string]*Pending{}, changed: make(chan struct{}), ended: make(chan struct{})}
	err = cmd.Start()
	outW.Close()
	errW.Close()
	if err != nil {
		outR.Close()
		errR.Close()
		return nil, fmt.Errorf("start %s: %w", o.Command[0], err)
	}
	var readers sync.WaitGroup
	readers.Go(func() { h.readStdout(outR) })
	readers.Go(func() { h.readStderr(errR, o.Stderr) })
	go func() {
		readers.Wait()
		h.exit = cmd.Wait()
		close(h.ended)
	}()
	return h, nil
}

// CleanEnv is this process's environment less the variables that a server of ours reads.
func CleanEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HEARTBEAT_") && !strings.HasPrefix(v, "AGENT_TIMEZONE=") {
			env = append(env, v)
		}
	}
	return env
}

func (h *Host) readStdout(r io.ReadCloser) {
	defer r.Close()
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		h.mu.Lock()
		paused := h.paused
		h.mu.Unlock()
		if paused != nil {
			<-paused
		}
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			h.take(line)
		}
		if err != nil {
			return
		}
	}
}

// take sorts one line of the server's.
func (h *Host) take(line []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.grown()
	h.lines++
	text := strings.TrimSuffix(string(line), "\n")
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &m) != nil {
		h.violations = append(h.violations, text)
		return
	}
	raw := json.RawMessage(text)
	if m.Method == "push/event" {
		p, err := h.newPush(m.ID, m.Params)
		if err != nil {
			h.violations = append(h.violations, err.Error()+": "+text)
			return
		}
		if h.onPush != nil {
			go h.onPush(p)
			return
		}
		h.pushes = append(h.pushes, p)
		return
	}
	if p, ok := h.calls[string(m.ID)]; ok {
		delete(h.calls, string(m.ID))
		p.line = h.lines
		p.answer <- raw
		return
	}
	h.others = append(h.others, raw)
}

// grown wakes whoever waits for something new. h.mu is held.
func (h *Host) grown() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *Host) readStderr(r io.ReadCloser, copyTo io.Writer) {
	defer r.Close()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if copyTo != nil {
			fmt.Fprintln(copyTo, lines.Text())
		}
		h.mu.Lock()
		h.stderr = append(h.stderr, lines.Text())
		h.grown()
		h.mu.Unlock()
	}
}

// await calls look, which holds h.mu, until it says that it found what it wants.
func (h *Host) await(ctx context.Context, what string, look func() bool) error {
	for {
		h.mu.Lock()
		found, changed := look(), h.changed
		h.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-changed:
		case <-h.ended:
			h.mu.Lock()
			found := look()
			h.mu.Unlock()
			if found {
				return nil
			}
			return fmt.Errorf("%s: the server ended (%s)", what, h.exitText())
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
}

func (h *Host) exitText() string {
	if h.exit == nil {
		return "exit status 0"
	}
	return h.exit.Error()
}

// WriteLine writes one line to the server as it is.
func (h *Host) WriteLine(line []byte) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	_, err := h.stdin.Write(append(line, '\n'))
	return err
}

func (h *Host) write(m any) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return h.WriteLine(line)
}

// RPCError is an error answer of the server's.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *RPCError) Error() string { return fmt.Sprintf("error %d: %s", e.Code, e.Message) }

// Pending is a request without its answer yet.
type Pending struct {
	h      *Host
	method string
	answer chan json.RawMessage
	line   int // set before answer is sent
}

// Line says as which of the server's lines the answer came, once [Pending.Wait] has returned it.
func (p *Pending) Line() int { return p.line }

// Send sends a request and does not wait.
func (h *Host) Send(method string, params any) (*Pending, error) {
	h.mu.Lock()
	h.seq++
	id := fmt.Sprint(h.seq)
	p := &Pending{h: h, method: method, answer: make(chan json.RawMessage, 1)}
	h.calls[id] = p
	h.mu.Unlock()
	return p, h.write(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": method, "params": params})
}

// Wait is the request's result; an error answer is an [*RPCError].
func (p *Pending) Wait(ctx context.Context) (json.RawMessage, error) {
	var raw json.RawMessage
	select {
	case raw = <-p.answer:
	case <-p.h.ended:
		select {
		case raw = <-p.answer:
		default:
			return nil, fmt.Errorf("%s: the server ended (%s)", p.method, p.h.exitText())
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("%s was not answered: %w", p.method, ctx.Err())
	}
	var m struct {
		Result json.RawMessage `json:"result"`
		Error  *RPCError       `json:"error"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	if m.Error != nil {
		return nil, m.Error
	}
	return m.Result, nil
}

// Request sends a request and waits for its result.
func (h *Host) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	p, err := h.Send(method, params)
	if err != nil {
		return nil, err
	}
	return p.Wait(ctx)
}

// Notify sends a notification.
func (h *Host) Notify(method string, params any) error {
	return h.write(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}

// Initialize does the handshake, with or without MCPL; an empty version is 2025-11-25.
func (h *Host) Initialize(ctx context.Context, withMCPL bool, version string) (json.RawMessage, error) {
	if version == "" {
		version = "2025-11-25"
	}
	capabilities := map[string]any{}
	if withMCPL {
		capabilities["experimental"] = map[string]any{"mcpl": map[string]any{"version": "0.5", "pushEvents": true, "featureSets": true}}
	}
	result, err := h.Request(ctx, "initialize", map[string]any{
		"protocolVersion": version, "capabilities": capabilities,
		"clientInfo": map[string]any{"name": "heartbeat-mcpl-test-host", "version": "1"},
	})
	if err != nil {
		return nil, err
	}
	return result, h.Notify("notifications/initialized", map[string]any{})
}

// Policy sends featureSets/update as a request and returns the receipt.
func (h *Host) Policy(ctx context.Context, params any) (json.RawMessage, error) {
	return h.Request(ctx, "featureSets/update", params)
}

// ToolResult is a tool's answer.
type ToolResult struct {
	Text       string
	Structured json.RawMessage
	IsError    bool
	Blocks     int // of content
}

// Call calls a tool.
func (h *Host) Call(ctx context.Context, tool string, arguments any) (ToolResult, error) {
	raw, err := h.Request(ctx, "tools/call", map[string]any{"name": tool, "arguments": arguments})
	if err != nil {
		return ToolResult{}, err
	}
	return ReadToolResult(raw)
}

// ReadToolResult reads the result of tools/call.
func ReadToolResult(raw json.RawMessage) (ToolResult, error) {
	var r struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return ToolResult{}, err
	}
	t := ToolResult{Structured: r.Structured, IsError: r.IsError, Blocks: len(r.Content)}
	for _, c := range r.Content {
		t.Text += c.Text
	}
	return t, nil
}

// Answer is the next message of the server's that answers no request of this host.
func (h *Host) Answer(ctx context.Context) (json.RawMessage, error) {
	var raw json.RawMessage
	err := h.await(ctx, "no answer came", func() bool {
		if len(h.others) == 0 {
			return false
		}
		raw, h.others = h.others[0], h.others[1:]
		return true
	})
	return raw, err
}

// Stderr is what the server has logged so far.
func (h *Host) Stderr() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.stderr...)
}

// WaitStderr waits for a log line that holds the text.
func (h *Host) WaitStderr(ctx context.Context, text string) (string, error) {
	var line string
	err := h.await(ctx, "the log never said "+text, func() bool {
		for _, l := range h.stderr {
			if strings.Contains(l, text) {
				line = l
				return true
			}
		}
		return false
	})
	return line, err
}

// Notification waits for a notification of that method, and takes it out of those that came.
func (h *Host) Notification(ctx context.Context, method string) (params json.RawMessage, err error) {
	err = h.await(ctx, method, func() bool {
		for i, raw := range h.others {
			var m struct {
				Method string          `json:"method"`
				Params json.RawMessage `json:"params"`
			}
			if json.Unmarshal(raw, &m) == nil && m.Method == method {
				params, h.others = m.Params, append(h.others[:i:i], h.others[i+1:]...)
				return true
			}
		}
		return false
	})
	return params, err
}

// Violations are lines on stdout that are no JSON object.
func (h *Host) Violations() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.violations...)
}

// StopReading leaves the server's stdout unread until ResumeReading.
func (h *Host) StopReading() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paused == nil {
		h.paused = make(chan struct{})
	}
}

// ResumeReading undoes StopReading.
func (h *Host) ResumeReading() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paused != nil {
		close(h.paused)
		h.paused = nil
	}
}

// CloseStdin ends the conversation as hosts do.
func (h *Host) CloseStdin() error { return h.stdin.Close() }

// Wait waits until the server has ended and says how; nil is exit status 0.
func (h *Host) Wait(ctx context.Context) error {
	select {
	case <-h.ended:
		return h.exit
	case <-ctx.Done():
		return fmt.Errorf("the server did not end: %w", ctx.Err())
	}
}

// Stop closes stdin and waits for the server's end.
func (h *Host) Stop(ctx context.Context) error {
	return errors.Join(h.CloseStdin(), h.Wait(ctx))
}

// Kill ends the server at once, without its help, and reaps it.
func (h *Host) Kill() {
	h.ResumeReading()
	_ = h.cmd.Process.Kill() // it may have ended by itself
	<-h.ended
	_ = h.stdin.Close()
}

// Signal sends the server a signal.
func (h *Host) Signal(s os.Signal) error { return h.cmd.Process.Signal(s) }

// PID is the server's process id.
func (h *Host) PID() int { return h.cmd.Process.Pid }
