package wire

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

// Answer is what came of a call.
type Answer struct {
	Result   json.RawMessage // the peer answered with a result
	Err      *jsonrpc2.Error // the peer answered with an error
	NoAnswer bool            // the limit passed
	Late     bool            // a real answer, after NoAnswer was reported

	Unconfirmed bool // nothing was answered: what was sent counts as taken
}

// mostLate is how many calls that were not answered in time are remembered for a late answer.
const mostLate = 10_000

// callTable holds our calls to the peer until they are answered, and for a while after their limit.
type callTable struct {
	mu      sync.Mutex
	last    uint64
	open    map[string]*openCall
	late    map[string]func(Answer)
	order   []string // of late, oldest first
	closed  bool
	settled func(id string) // lets jsonrpc2 forget the call
}

type openCall struct {
	answer func(Answer)
	timer  *time.Timer
}

func (t *callTable) begin(limit time.Duration, answer func(Answer)) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	id := callID(t.last)
	if t.open == nil {
		t.open, t.late = map[string]*openCall{}, map[string]func(Answer){}
	}
	t.open[id] = &openCall{answer, time.AfterFunc(limit, func() { t.expire(id) })}
	return id
}

// expire reports that no answer came in time, and remembers the call.
func (t *callTable) expire(id string) {
	t.mu.Lock()
	c, ok := t.open[id]
	if !ok || t.closed {
		t.mu.Unlock()
		return
	}
	delete(t.open, id)
	t.late[id] = c.answer
	t.order = append(t.order, id)
	for len(t.order) > mostLate {
		delete(t.late, t.order[0])
		t.order = t.order[1:]
	}
	t.mu.Unlock()
	t.settled(id)
	c.answer(Answer{NoAnswer: true})
}

// settle takes the peer's answer to a call; false: it is none of ours.
func (t *callTable) settle(id string, a Answer) bool {
	t.mu.Lock()
	c, open := t.open[id]
	answer, late := t.late[id]
	delete(t.open, id)
	delete(t.late, id)
	t.mu.Unlock()
	switch {
	case open:
		c.timer.Stop()
		c.answer(a)
		t.settled(id)
	case late:
		a.Late = true
		answer(a)
	}
	return open || late
}

func (t *callTable) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.open[id]; ok {
		c.timer.Stop()
		delete(t.open, id)
	}
}

// close ends all waiting: what is open was not answered. Nobody is told; who ends the conversation knows.
func (t *callTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, c := range t.open {
		c.timer.Stop()
	}
	clear(t.open)
	clear(t.late)
	t.order = nil
}
