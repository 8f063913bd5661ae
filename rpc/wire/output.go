package wire

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// output is the one way to the peer: what is to be written waits in a queue, whose size the callers watch, for a goroutine that
// writes it. What the peer takes at once is written past that one ([output.release]).
type output struct {
	w   io.Writer
	now func(p []byte) (n int) // writes what w takes without waiting
	o   Options

	mu      sync.Mutex
	queue   []byte // whole lines
	bytes   int64  // queued or being written
	held    bool   // what is queued may wait for more
	writing bool   // the writer has taken something that is not written yet
	closing bool
	wake    chan struct{} // something was queued, or closing
	relief  chan struct{} // closed when bytes were written; nil while nobody waits for that

	stalled atomic.Bool
	stall   *time.Timer // runs while a write does

	failed chan struct{} // closed after a write error
	ended  chan struct{} // closed when the writer has ended
	err    error         // why it failed
}

func newOutput(w io.Writer, o Options) *output {
	out := &output{
		w: w, now: nowWriter(w), o: o, wake: make(chan struct{}, 1),
		failed: make(chan struct{}), ended: make(chan struct{}),
	}
	out.stall = time.AfterFunc(o.StallAfter, out.warn)
	out.stall.Stop()
	go out.run()
	return out
}

// put queues a copy of one line. It never blocks.
func (o *output) put(line []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing || o.hasFailed() {
		return ErrClosed
	}
	o.queue = append(o.queue, line...)
	o.bytes += int64(len(line))
	switch {
	case o.held && len(o.queue) < mostHeld:
	case len(o.queue) == len(line) && !o.held: // nothing waits before it
		o.writeNow()
	default:
		o.begin()
	}
	return nil
}

// writeNow writes what is queued as far as the peer takes it at once, and leaves the rest to the writer; under mu. To wake the writer
// costs more than most writes.
func (o *output) writeNow() {
	if len(o.queue) > 0 && !o.writing {
		n := o.now(o.queue)
		o.written(n)
		rest := o.queue[n:]
		if room := reusable(o.queue); room != nil { // a long one is not copied: it is released again and again while the peer reads slowly
			rest = append(room, rest...)
		}
		o.queue = rest
	}
	if len(o.queue) > 0 {
		o.begin()
	}
}

// begin has the writer write what is queued.
func (o *output) begin() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// hold lets what is queued wait, so that many answers leave in one write. [output.release] must follow before anything is
// waited for.
func (o *output) hold() {
	o.mu.Lock()
	o.held = true
	o.mu.Unlock()
}

// release has all that is queued written, and from now on each line at once. It never waits.
func (o *output) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = false
	o.writeNow()
}

// takesNothing leaves all to the writer.
func takesNothing([]byte) (n int) { return 0 }

func (o *output) waiting() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// room waits until no more than the limit waits for the peer. False: it will never be.
func (o *output) room(stop <-chan struct{}) bool {
	for {
		o.mu.Lock()
		enough := o.bytes <= o.o.MaxPending
		if !enough && o.relief == nil {
			o.relief = make(chan struct{})
		}
		relief := o.relief
		o.mu.Unlock()
		if enough {
			return true
		}
		o.release()
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
	var chunk []byte
	for range o.wake {
		for {
			if chunk = o.take(chunk); len(chunk) == 0 {
				break
			}
			if err := o.write(chunk); err != nil {
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

const (
	mostHeld    = 64 << 10 // bytes of answers that wait for more
	mostWritten = 8 << 10  // bytes that are given to one write: how fast the peer reads shows in between
)

// take is all that is to be written; what is queued from now on goes into spare, which was written.
func (o *output) take(spare []byte) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	chunk := o.queue
	o.queue = reusable(spare)
	o.writing = len(chunk) > 0
	return chunk
}

// reusable is a buffer's room for other bytes, unless it grew large for an answer.
func reusable(buffer []byte) []byte {
	if cap(buffer) > mostKept {
		return nil
	}
	return buffer[:0]
}

// write writes all of chunk: what the peer takes at once, then a part for which it may have to be waited, and so on.
func (o *output) write(chunk []byte) error {
	for len(chunk) > 0 {
		n := o.now(chunk)
		if n == 0 {
			var err error
			if n, err = o.wait(chunk[:min(len(chunk), mostWritten)]); err != nil {
				return err
			}
		}
		chunk = chunk[n:]
		o.mu.Lock()
		o.written(n)
		o.mu.Unlock()
	}
	return nil
}

// wait writes part, however long the peer takes; that it takes long is said.
func (o *output) wait(part []byte) (n int, err error) {
	o.stall.Reset(o.o.StallAfter)
	n, err = o.w.Write(part)
	o.stall.Stop()
	if o.stalled.Swap(false) && err == nil {
		o.o.Log.Info("the host reads again")
	}
	return n, err
}

// written counts what waits no more; under mu.
func (o *output) written(n int) {
	o.bytes -= int64(n)
	if o.relief != nil {
		close(o.relief)
		o.relief = nil
	}
}

func (o *output) warn() {
	if o.o.Broken != nil {
		o.o.Broken(fmt.Sprintf("it leaves %d bytes unread", o.waiting()))
		return
	}
	o.stalled.Store(true)
	o.o.Log.Warn("the host does not read what this server writes: replies and wakes wait", "bytes", o.waiting())
}

// drain waits until the queue is written, and ends the writer. It gives up when the peer takes nothing for as long as patience,
// and when ctx is done.
func (o *output) drain(ctx context.Context, patience time.Duration) error {
	o.mu.Lock()
	o.closing = true
	o.begin()
	o.mu.Unlock()
	look := time.NewTicker(patience)
	defer look.Stop()
	for before := o.waiting(); ; {
		select {
		case <-o.ended:
			if o.hasFailed() {
				return o.err
			}
			return nil
		case <-look.C:
			left := o.waiting()
			if left == before {
				return fmt.Errorf("%w: %d bytes were not read", ErrPeerGone, left)
			}
			before = left
		case <-ctx.Done():
			return fmt.Errorf("%w: %d bytes were not read", ctx.Err(), o.waiting())
		}
	}
}
