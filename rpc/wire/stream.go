package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/sourcegraph/jsonrpc2"
	"github.com/tidwall/gjson"

	"heartbeat-mcpl/projection/rawjson"
)

// stream reads the peer's lines and hands on what is in them: requests and notifications to the handler, responses to the
// table of our calls. What is neither it answers itself, or drops, and reads on.
type stream struct {
	in       *bufio.Reader
	input    *input
	out      *output
	o        Options
	calls    *callTable
	dispatch func(method string, params, id json.RawMessage) // id is nil for a notification; must not block
	closed   <-chan struct{}                                 // closed when the conversation is over

	heard      chan struct{} // closed when what the first read brought was handed on, or the input has ended
	ended      chan struct{} // closed when the input has ended and all of it was handed on
	unanswered atomic.Int64  // requests
	fewer      chan struct{} // there is one less than mostUnanswered
}

// input is what the peer sends. The answers to all that one read brought may leave together, and do so before the next.
type input struct {
	r     io.Reader
	out   *output
	reads atomic.Uint64
	heard func() // all that the first read brought was handed on; called again with each read
}

func (i *input) Read(p []byte) (int, error) {
	i.out.release()
	if i.reads.Load() > 0 {
		i.heard()
	}
	n, err := i.r.Read(p)
	i.reads.Add(1)
	i.out.hold()
	return n, err
}

// mostUnanswered is how many requests may be without an answer before the next is read: what their answers take is
// bounded then.
const mostUnanswered = 256

func newStream(in io.Reader, out *output, o Options, calls *callTable, closed <-chan struct{}) *stream {
	heard := make(chan struct{})
	input := &input{r: in, out: out, heard: sync.OnceFunc(func() { close(heard) })}
	return &stream{
		in: bufio.NewReaderSize(input, 64<<10), input: input, out: out, o: o, calls: calls, closed: closed,
		heard: heard, ended: make(chan struct{}), fewer: make(chan struct{}, 1),
	}
}

// message is what a line holds, its members as they stand. Keys are told apart by case; the last of a name counts.
type message struct{ version, id, method, params, result, err json.RawMessage }

// messageOf reads a message's members; of those that are there twice the last counts.
func messageOf(text []byte) (m message, isObject bool) {
	isObject = rawjson.Each(text, func(name []byte, value json.RawMessage) {
		switch string(name) {
		case "jsonrpc":
			m.version = value
		case "id":
			m.id = value
		case "method":
			m.method = value
		case "params":
			m.params = value
		case "result":
			m.result = value
		case "error":
			m.err = value
		}
	})
	return m, isObject
}

// read hands on the input until it ends. While too much waits for the peer to read, it does not read on (SPEC 8.8).
func (s *stream) read() {
	defer close(s.ended)
	defer s.input.heard()
	defer s.out.release()
	for s.out.room(s.closed) {
		line, err := s.readLine()
		if errors.Is(err, errLong) {
			s.refuse(jsonrpc2.CodeInvalidRequest, fmt.Sprintf("a line may have %d bytes at most; this one was longer and is ignored", s.o.MaxLine))
			continue
		}
		if line = clean(line); len(line) > 0 {
			s.line(line)
		}
		if err != nil {
			return
		}
	}
}

// line takes one line: a message or a batch of them.
func (s *stream) line(text []byte) {
	if !valid(text) {
		s.refuse(jsonrpc2.CodeParseError, "this line is not JSON")
		return
	}
	if text[0] != '[' {
		s.message(text)
		return
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(text, &batch); err != nil || len(batch) == 0 {
		s.refuse(jsonrpc2.CodeInvalidRequest, "an empty batch asks for nothing")
		return
	}
	for _, one := range batch {
		if !s.out.room(s.closed) {
			return
		}
		s.message(one)
	}
}

// valid says whether a line is JSON. gjson is quicker, but goes down into brackets without end: lines that could hold many of
// them are left to encoding/json.
func valid(text []byte) bool {
	const short = 4 << 10
	if len(text) <= short {
		return gjson.ValidBytes(text)
	}
	return json.Valid(text)
}

func (s *stream) message(text []byte) {
	m, isObject := messageOf(text)
	switch {
	case !isObject:
		s.refuse(jsonrpc2.CodeInvalidRequest, "a message must be an object")
	case m.method == nil && (m.result != nil || m.err != nil):
		s.response(m)
	default:
		s.request(m)
	}
}

// request checks a request or notification and hands it on. Absent and null params are an empty object.
func (s *stream) request(m message) {
	if m.id != nil && !isID(m.id) {
		s.refuse(jsonrpc2.CodeInvalidRequest, "id must be a string or a number")
		return
	}
	method, isText := rawjson.Text(m.method)
	switch {
	case m.version != nil && string(m.version) != `"2.0"`:
		s.refuseRequest(m.id, `jsonrpc must be "2.0"`)
		return
	case m.method == nil:
		s.refuseRequest(m.id, "method is missing")
		return
	case !isText:
		s.refuseRequest(m.id, "method must be a string")
		return
	}
	if m.id != nil && !s.slot() {
		return
	}
	if len(m.params) == 0 || string(m.params) == "null" {
		m.params = json.RawMessage("{}")
	}
	s.dispatch(method, m.params, m.id)
}

// response settles a call of ours. Responses are never answered, whatever is wrong with them.
func (s *stream) response(m message) {
	id, isText := rawjson.Text(m.id)
	if !isText {
		s.o.Log.Debug("a response to no call of this server is dropped", "id", string(m.id))
		return
	}
	a := Answer{Result: m.result}
	if raw := m.err; raw != nil && string(raw) != "null" {
		a = Answer{Err: errorOf(raw)}
	} else if m.result == nil {
		s.o.Log.Debug("a response with neither a result nor an error is dropped", "id", id)
		return
	}
	if !s.calls.settle(id, a) {
		s.o.Log.Debug("a response to no call of this server is dropped", "id", id)
	}
}

// errorOf reads an error object, mending what it lacks.
func errorOf(raw json.RawMessage) *jsonrpc2.Error {
	e := &jsonrpc2.Error{Code: jsonrpc2.CodeInternalError}
	if !rawjson.IsObject(raw) {
		e.Message = string(raw)
		return e
	}
	var code float64
	if json.Unmarshal(rawjson.Get(raw, "code"), &code) == nil && code == float64(int64(code)) {
		e.Code = int64(code)
	}
	said := rawjson.Get(raw, "message")
	if json.Unmarshal(said, &e.Message) != nil {
		e.Message = string(said)
	}
	return e
}

func isID(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// refuse answers what has no id that could be told.
func (s *stream) refuse(code int64, why string) {
	if s.o.Broken != nil {
		s.o.Broken(why)
		return
	}
	s.putError(json.RawMessage("null"), code, why)
}

// refuseRequest answers a message that is no valid request.
func (s *stream) refuseRequest(id json.RawMessage, why string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	s.putError(id, jsonrpc2.CodeInvalidRequest, why)
}

func (s *stream) putError(id json.RawMessage, code int64, why string) {
	line, err := appendResponse(nil, id, "error", &jsonrpc2.Error{Code: code, Message: why})
	if err == nil {
		_ = s.out.put(line) // after the end there is nobody to tell
	}
}

// slot waits until one more request may be without an answer. False: it never will.
func (s *stream) slot() bool {
	if s.unanswered.Add(1) <= mostUnanswered {
		return true
	}
	s.out.release()
	for s.unanswered.Load() > mostUnanswered {
		select {
		case <-s.fewer:
		case <-s.closed:
			return false
		}
	}
	return true
}

// answered makes room for the next request.
func (s *stream) answered() {
	if s.unanswered.Add(-1) < mostUnanswered {
		return
	}
	select {
	case s.fewer <- struct{}{}:
	default: // said already
	}
}

var errLong = errors.New("the line is too long")

// readLine is the next line without its end. One that is too long is skipped without being held.
func (s *stream) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := s.in.ReadSlice('\n')
		if len(line)+len(part) > s.o.MaxLine+1 {
			return nil, s.skipLine(err)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (s *stream) skipLine(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = s.in.ReadSlice('\n')
	}
	return errLong // an end of input shows again at the next read
}

// clean strips what is no part of the message and mends what is not UTF-8.
func clean(line []byte) []byte {
	line = bytes.TrimPrefix(line, []byte("\ufeff"))
	line = bytes.Trim(line, " \t\r\n")
	if !utf8.Valid(line) {
		line = []byte(strings.ToValidUTF8(string(line), "\ufffd"))
	}
	return line
}
