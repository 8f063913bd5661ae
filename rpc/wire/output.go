package wire

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// output is the one writer to the peer: what is to be written waits in a queue, whose size the callers watch.
type output struct {
	w io.Writer
	o Options

	mu      sync.Mutex
	queue   [][]byte
	bytes   int64 // queued or being written
	closing bool
	wake    chan struct{} // something was queued, or closing
	relief  chan struct{} // closed and made anew whenever bytes were written

	failed chan struct{} // closed after a write error
	ended  chan struct{} // closed when the writer has ended
	err    error         // why it failed
}

func newOutput(w io.Writer, o Options) *output {
	out := &output{
		w: w, o: o, wake: make(chan struct{}, 1), relief: make(chan struct{}),
		failed: make(chan struct{}), ended: make(chan struct{}),
	}
	go out.run()
	return out
}

// put queues one line. It never blocks.
func (o *output) put(line []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing || o.hasFailed() {
		return ErrClosed
	}
	o.queue = append(o.queue, line)
	o.bytes += int64(len(line))
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return nil
}

func (o *output) waiting() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// room waits until no more than the limit waits for the peer. False: it will never be.
func (o *output) room(stop <-chan struct{}) bool {
	for {
		o.mu.Lock()
		enough, relief := o.bytes <= o.o.MaxPending, o.relief
		o.mu.Unlock()
		if enough {
			return true
		}
		select {
		case <-relief:
		case <-o.failed:
			return false
		case <-stop:
			return false
		}
	}
}

func (o *output) hasFailed() bool {
	select {
	case <-o.failed:
		return true
	default:
		return false
	}
}

func (o *output) run() {
	defer close(o.ended)
	for range o.wake {
		for {
			line, ok := o.take()
			if !ok {
				break
			}
			if err := o.write(line); err != nil {
				o.err = err
				close(o.failed)
				return
			}
		}
		o.mu.Lock()
		done := o.closing && len(o.queue) == 0
		o.mu.Unlock()
		if done {
			return
		}
	}
}

// mostAtOnce bounds how much is given to one write.
const mostAtOnce = 64 << 10

// take is the next bytes to write: several lines at once when many wait.
func (o *output) take() ([]byte, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		o.queue = nil
		return nil, false
	}
	n, size := 1, len(o.queue[0])
	for n < len(o.queue) && size+len(o.queue[n]) <= mostAtOnce {
		size += len(o.queue[n])
		n++
	}
	chunk := o.queue[0]
	if n > 1 {
		chunk = make([]byte, 0, size)
		for _, line := range o.queue[:n] {
			chunk = append(chunk, line...)
		}
	}
	clear(o.queue[:n])
	o.queue = o.queue[n:]
	return chunk, true
}

func (o *output) write(chunk []byte) error {
	var stalled atomic.Bool
	timer := time.AfterFunc(o.o.StallAfter, func() {
		stalled.Store(true)
		o.o.Log.Warn("the host does not read what this server writes: replies and wakes wait", "bytes", o.waiting())
	})
	_, err := o.w.Write(chunk)
	timer.Stop()
	if stalled.Load() && err == nil {
		o.o.Log.Info("the host reads again")
	}
	o.mu.Lock()
	o.bytes -= int64(len(chunk))
	close(o.relief)
	o.relief = make(chan struct{})
	o.mu.Unlock()
	return err
}

// drain waits until the queue is written, and ends the writer.
func (o *output) drain(ctx context.Context) error {
	o.mu.Lock()
	o.closing = true
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
	select {
	case <-o.ended:
		if o.hasFailed() {
			return o.err
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
