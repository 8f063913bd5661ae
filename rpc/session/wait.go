package session

import (
	"encoding/json"
	"sync"
	"time"

	"heartbeat-mcpl/projection/rawjson"
	"heartbeat-mcpl/rpc/tools"
	"heartbeat-mcpl/rpc/wire"
)

// progressEvery is how often a host that wants to be told of progress is told that a call still waits: hosts end calls that say
// nothing (SPEC 14.2).
const progressEvery = 10 * time.Second

// waiting are the calls that wait for a wake, by their request's id, with what ends their progress.
type waiting struct {
	mu    sync.Mutex
	calls map[string]func()
}

// wait has a call wait for a wake, beside all others: it does not count among the requests without an answer.
func (s *Session) wait(c call, reply *wire.Reply) {
	id := reply.Hold()
	token := rawjson.Get(c.meta, "progressToken")
	of := c.of("wait_for_wake")
	of.Cancel, of.Patient = string(id), !absent(token)
	s.waiting.mu.Lock()
	if s.waiting.calls == nil {
		s.waiting.calls = map[string]func(){}
	}
	s.waiting.calls[of.Cancel] = s.progress(token)
	s.waiting.mu.Unlock()
	answer := func(r tools.Reply) {
		if s.waitEnded(of.Cancel) {
			_ = s.conn.Answer(id, c.toolResult(r)) // after the end there is nobody to tell
		}
	}
	if !s.engine.Call(of, answer) {
		answer(tools.Reply{Text: "The server is ending.", IsError: true})
	}
}

// progress tells the host now and then that a call goes on, until what it returns is called.
func (s *Session) progress(token json.RawMessage) (stop func()) {
	if absent(token) {
		return func() {}
	}
	var timer *time.Timer
	var mu sync.Mutex
	begun, stopped := time.Now(), false
	tell := func() {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			s.notify("notifications/progress", map[string]any{"progressToken": token, "progress": int64(time.Since(begun).Seconds()), "message": "waiting for a wake"})
			timer.Reset(progressEvery)
		}
	}
	mu.Lock()
	timer = time.AfterFunc(progressEvery, tell)
	mu.Unlock()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// waitEnded ends a waiting call; false: it has ended before.
func (s *Session) waitEnded(id string) bool {
	s.waiting.mu.Lock()
	defer s.waiting.mu.Unlock()
	stop, waits := s.waiting.calls[id]
	if waits {
		stop()
		delete(s.waiting.calls, id)
	}
	return waits
}
