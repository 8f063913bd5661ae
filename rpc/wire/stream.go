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
	"unicode/utf8"

	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/rpc/rawjson"
)

// stream is the object stream under jsonrpc2. It gives jsonrpc2 only messages that it cannot choke on: requests and
// notifications with an id of its own and their params put aside, and responses that close a call it waits for. All else
// it answers itself, or drops, and reads on.
type stream struct {
	in    *bufio.Reader
	out   *output
	o     Options
	calls *callTable

	lines  chan []byte   // whole lines, from the reading goroutine
	forget chan string   // ids of calls that jsonrpc2 shall forget
	ended  chan struct{} // closed when the input has ended and all of it was handled
	closed chan struct{}
	once   sync.Once

	waiting []json.RawMessage // the rest of a batch

	slots chan struct{} // one for each request without an answer

	mu      sync.Mutex
	counter uint64
	ids     map[uint64]json.RawMessage // the peer's ids of requests without an answer, as it wrote them
	params  map[uint64]json.RawMessage // of the message that jsonrpc2 is handling
	aside   map[string]json.RawMessage // params of our calls and results for the peer, by jsonrpc2's id, on their way out
}

// mostUnanswered is how many requests may be without an answer before the next is read: what their answers take is
// bounded then.
const mostUnanswered = 256

func newStream(in io.Reader, out *output, o Options, calls *callTable) *stream {
	return &stream{
		in: bufio.NewReaderSize(in, 64<<10), out: out, o: o, calls: calls,
		lines: make(chan []byte), forget: make(chan string, 64), ended: make(chan struct{}), closed: make(chan struct{}),
		slots: make(chan struct{}, mostUnanswered),
		ids:   map[uint64]json.RawMessage{}, params: map[uint64]json.RawMessage{}, aside: map[string]json.RawMessage{},
	}
}

// message is what a line holds, its members as they stand. Keys are told apart by case; the last of a name counts.
type message struct{ version, id, method, params, result, err json.RawMessage }

// messageOf reads a message's members; of those that are there twice the last counts.
func messageOf(text []byte) (m message, isObject bool) {
	members, isObject := rawjson.Members(text)
	for _, one := range members {
		switch one.Name {
		case "jsonrpc":
			m.version = one.Value
		case "id":
			m.id = one.Value
		case "method":
			m.method = one.Value
		case "params":
			m.params = one.Value
		case "result":
			m.result = one.Value
		case "error":
			m.err = one.Value
		}
	}
	return m, isObject
}

// ReadObject gives jsonrpc2 the next message that it should see.
func (s *stream) ReadObject(v any) error {
	s.once.Do(func() { go s.readLines() })
	for {
		text, err := s.next()
		if err != nil {
			return err
		}
		if text == nil {
			continue
		}
		return json.Unmarshal(text, v)
	}
}

// next is the next text for jsonrpc2; nil when what came was not for it.
func (s *stream) next() ([]byte, error) {
	if len(s.waiting) > 0 {
		if !s.out.room(s.closed) {
			return nil, io.EOF
		}
		one := s.waiting[0]
		s.waiting = s.waiting[1:]
		return s.message(one), nil
	}
	select {
	case id := <-s.forget:
		return closing(id), nil
	case line, ok := <-s.lines:
		if ok {
			return s.line(line), nil
		}
		// All that was read has been handled. What is still to be sent needs a stream that is not at its end.
		s.end()
		select {
		case id := <-s.forget:
			return closing(id), nil
		case <-s.closed:
			return nil, io.EOF
		}
	case <-s.closed:
		return nil, io.EOF
	}
}

// end says that the input is over, once.
func (s *stream) end() {
	select {
	case <-s.ended:
	default:
		close(s.ended)
	}
}

// inject has jsonrpc2 forget a call.
func (s *stream) inject(id string) {
	select {
	case s.forget <- id:
	case <-s.closed:
	}
}

// closing is a response that closes a call in jsonrpc2; the call's answer went another way.
func closing(id string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":"` + id + `","result":null}`)
}

// line takes one line: a message or a batch of them.
func (s *stream) line(text []byte) []byte {
	if !json.Valid(text) {
		s.refuse(jsonrpc2.CodeParseError, "this line is not JSON")
		return nil
	}
	if text[0] != '[' {
		return s.message(text)
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(text, &batch); err != nil || len(batch) == 0 {
		s.refuse(jsonrpc2.CodeInvalidRequest, "an empty batch asks for nothing")
		return nil
	}
	s.waiting = batch
	return nil
}

func (s *stream) message(text []byte) []byte {
	m, isObject := messageOf(text)
	if !isObject {
		s.refuse(jsonrpc2.CodeInvalidRequest, "a message must be an object")
		return nil
	}
	if m.method == nil && (m.result != nil || m.err != nil) {
		return s.response(m)
	}
	return s.request(m)
}

// request checks a request or notification and hands it on under an id of our own.
func (s *stream) request(m message) []byte {
	id, hasID := m.id, m.id != nil
	if hasID && !isID(id) {
		s.refuse(jsonrpc2.CodeInvalidRequest, "id must be a string or a number")
		return nil
	}
	method, isText := rawjson.Text(m.method)
	switch {
	case m.version != nil && string(m.version) != `"2.0"`:
		s.refuseRequest(id, `jsonrpc must be "2.0"`)
		return nil
	case m.method == nil:
		s.refuseRequest(id, "method is missing")
		return nil
	case !isText:
		s.refuseRequest(id, "method must be a string")
		return nil
	}
	if hasID {
		select {
		case s.slots <- struct{}{}:
		case <-s.closed:
			return nil
		}
	}
	s.mu.Lock()
	s.counter++
	n := s.counter
	s.params[n] = m.params
	if hasID {
		s.ids[n] = id
	}
	s.mu.Unlock()
	name, err := json.Marshal(method)
	if err != nil {
		return nil // a string always encodes
	}
	// The counter travels as meta, so that notifications find their params, too.
	if hasID {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%s,"meta":%d}`, n, name, n)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%s,"meta":%d}`, name, n)
}

// paramsOf are the params of the message that jsonrpc2 gave to its handler, as the peer wrote them. Absent and null are an
// empty object.
func (s *stream) paramsOf(req *jsonrpc2.Request) json.RawMessage {
	var n uint64
	if req.Meta == nil || json.Unmarshal(*req.Meta, &n) != nil {
		return json.RawMessage("{}")
	}
	s.mu.Lock()
	raw := s.params[n]
	delete(s.params, n)
	s.mu.Unlock()
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

// response settles a call of ours. Responses are never answered, whatever is wrong with them.
func (s *stream) response(m message) []byte {
	var id string
	if json.Unmarshal(m.id, &id) != nil {
		s.o.Log.Debug("a response to no call of this server is dropped", "id", string(m.id))
		return nil
	}
	a := Answer{Result: m.result}
	if raw := m.err; raw != nil && string(raw) != "null" {
		a = Answer{Err: errorOf(raw)}
	}
	known, open := s.calls.settle(id, a)
	if !known {
		s.o.Log.Debug("a response to no call of this server is dropped", "id", id)
	}
	if open {
		return closing(id)
	}
	return nil
}

// errorOf reads an error object, mending what it lacks.
func errorOf(raw json.RawMessage) *jsonrpc2.Error {
	e := &jsonrpc2.Error{Code: jsonrpc2.CodeInternalError}
	if _, isObject := rawjson.Members(raw); !isObject {
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
func (s *stream) refuse(code int64, why string) { s.putError(json.RawMessage("null"), code, why) }

// refuseRequest answers a message that is no valid request.
func (s *stream) refuseRequest(id json.RawMessage, why string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	s.putError(id, jsonrpc2.CodeInvalidRequest, why)
}

func (s *stream) putError(id json.RawMessage, code int64, why string) {
	text, err := encode(&struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   jsonrpc2.Error  `json:"error"`
	}{"2.0", id, jsonrpc2.Error{Code: code, Message: why}})
	if err == nil {
		_ = s.out.put(append(text, '\n')) // after the end there is nobody to tell
	}
}

// putAside keeps the params of a call or the result of a request until jsonrpc2 has it written.
func (s *stream) putAside(id string, value json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aside[id] = value
}

func (s *stream) takeAside(id string) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	value := s.aside[id]
	delete(s.aside, id)
	return value
}

// WriteObject queues a call of ours with its params. Answers do not come this way ([stream.answer]).
func (s *stream) WriteObject(obj any) error {
	text, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	m, _ := messageOf(text)
	id, isText := rawjson.Text(m.id)
	if m.method == nil || !isText {
		return fmt.Errorf("jsonrpc2 wrote what is no call: %s", text)
	}
	return s.out.put(compose(m.id, "method", m.method, "params", s.takeAside(id)))
}

// answer queues the response to a request, under the peer's own id. It goes past jsonrpc2, which keeps nothing of a request
// that its handler took, and would encode and decode each answer once more.
func (s *stream) answer(ours jsonrpc2.ID, name string, value json.RawMessage) error {
	id, err := s.peerID(json.RawMessage(ours.String()))
	if err != nil {
		return err
	}
	return s.out.put(compose(id, name, value, "", nil))
}

func (s *stream) peerID(ours json.RawMessage) (json.RawMessage, error) {
	var n uint64
	if err := json.Unmarshal(ours, &n); err != nil {
		return nil, fmt.Errorf("a response with the id %s: %w", ours, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok := s.ids[n]
	if !ok {
		return nil, fmt.Errorf("a response to request %d, which was answered or never came", n)
	}
	delete(s.ids, n)
	<-s.slots
	return id, nil
}

// compose is one line: two members besides the id, the absent ones left out.
func compose(id json.RawMessage, name1 string, value1 json.RawMessage, name2 string, value2 json.RawMessage) []byte {
	line := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	for _, m := range []struct {
		name  string
		value json.RawMessage
	}{{name1, value1}, {name2, value2}} {
		if m.value != nil {
			line = append(append(append(line, `,"`...), m.name...), `":`...)
			line = append(line, m.value...)
		}
	}
	return append(line, "}\n"...)
}

// Close ends the stream: jsonrpc2 calls it.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return nil
}

// readLines reads until the input ends. While too much waits for the peer to read, it does not read on (SPEC 8.8).
func (s *stream) readLines() {
	defer close(s.lines)
	for s.out.room(s.closed) {
		line, err := s.readLine()
		if errors.Is(err, errLong) {
			s.refuse(jsonrpc2.CodeInvalidRequest, fmt.Sprintf("a line may have %d bytes at most; this one was longer and is ignored", s.o.MaxLine))
			continue
		}
		if line = clean(line); len(line) > 0 {
			select {
			case s.lines <- line:
			case <-s.closed:
				return
			}
		}
		if err != nil {
			return
		}
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
