package wire

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/sourcegraph/jsonrpc2"
)

// callStream is the object stream under jsonrpc2, for our calls alone: jsonrpc2 writes a call through it, and reads from it
// which calls have been settled. What the peer sends goes past jsonrpc2 ([stream]), which would decode each message three
// times, and would end the conversation at a bad one.
type callStream struct {
	out     *output
	forget  chan string   // ids of calls that jsonrpc2 shall forget
	closed  chan struct{} // closed by Close
	closing sync.Once

	calling sync.Mutex
	line    []byte // under calling: of the call that jsonrpc2 is writing
}

func newCallStream(out *output) *callStream {
	return &callStream{out: out, forget: make(chan string, 64), closed: make(chan struct{})}
}

// call has jsonrpc2 write a call whose line is given. What jsonrpc2 would make of its params (it escapes them for HTML) is
// spared them.
func (s *callStream) call(rpc *jsonrpc2.Conn, method, id string, line []byte) error {
	s.calling.Lock()
	defer s.calling.Unlock()
	s.line = line
	_, err := rpc.DispatchCall(context.Background(), method, nil, jsonrpc2.PickID(jsonrpc2.ID{Str: id, IsString: true}))
	return err
}

// WriteObject queues the call that jsonrpc2 is writing: [callStream.call] holds its line, and lets no other in between.
func (s *callStream) WriteObject(any) error { return s.out.put(s.line) }

// settled has jsonrpc2 forget a call.
func (s *callStream) settled(id string) {
	select {
	case s.forget <- id:
	case <-s.closed:
	}
}

// ReadObject tells jsonrpc2 of the next call that was settled, with a response that says no more: the call's answer went
// another way.
func (s *callStream) ReadObject(v any) error {
	select {
	case id := <-s.forget:
		return json.Unmarshal([]byte(`{"jsonrpc":"2.0","id":"`+id+`","result":null}`), v)
	case <-s.closed:
		return io.EOF
	}
}

// Close ends the stream: jsonrpc2 calls it.
func (s *callStream) Close() error {
	s.closing.Do(func() { close(s.closed) })
	return nil
}
