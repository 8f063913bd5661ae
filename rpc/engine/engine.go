// Package engine owns the server's one loop: the goroutine that holds the state, the journal, the due queue and the
// pushes in flight. Everything else (tool calls, the host's answers and policy, timers) hands it functions and gets
// results back. A tool that only reads is answered where it is called while the loop rests: a lock around each turn
// keeps the two apart, and nothing else here is locked.
//
// Start with [New] and [Engine.Run]. Each turn of the loop takes all that was handed over, lets it record events, looks
// at the clock, appends every event with one fsync, and only then answers and pushes: a reply leaves after its event is on
// disk (SPEC 9.1), a wake after its fire event (write-ahead, SPEC 6.6).
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/wire"
)

const (
	tick         = time.Second            // how often the wall clock is looked at (SPEC 6.8)
	lockPoll     = 250 * time.Millisecond // how often a held journal is tried again (SPEC 1.5)
	trimEvery    = time.Hour
	flushSpacing = 100 * time.Millisecond // between the begins of two writings of the views (SPEC 2.3: up to 200 ms behind)
)

// Host is the connection that wakes are pushed on.
type Host interface {
	// Call sends a request; answer is called once, and a second time for a real answer after the limit.
	Call(method string, params any, limit time.Duration, answer func(wire.Answer)) error
	// Backlog is how many bytes wait for the host to read.
	Backlog() int64
	// Reads is how often something was read from the host: what one read brought was written before any of it was answered.
	Reads() uint64
}

// Options are what an Engine needs to know.
type Options struct {
	Store recovery.Options
	Zone  *time.Location // of the agent
	Log   *slog.Logger
	NewID func() string    // random text, for the ids of reminders and events; nil: from crypto/rand
	Wall  func() time.Time // the wall clock; nil: time.Now

	Opened func() // the journal is open and this process holds its lock; called by the loop; may be nil
	// TakeLetters acknowledges messages of the mesh that a host polled; called beside the loop; nil: there is no mesh.
	TakeLetters func(ids []string)
	Offline     string              // why nothing can be pushed in this process at all; empty: the host's policy says
	Changed     func(uris []string) // resources changed; called by the loop, must not block; may be nil
	Proactive   bool                // wakes can be polled on every connection, also where they are pushed
}

// Engine is the loop. All fields below working belong to who holds it.
type Engine struct {
	o       Options
	inbox   chan func()
	handed  atomic.Int64  // functions in the inbox, and the one that was just taken from it
	done    chan struct{} // closed when the loop has ended
	working sync.Mutex    // held by a turn of the loop, and by a call that is answered beside it

	host        Host
	store       *recovery.Store     // nil: another server holds the journal
	held        *journal.HeldError  // who, then
	policy      mcpl.Policy         // what this connection's host allows
	pushing     atomic.Bool         // the host lets wakes through; read by anybody
	initialized bool                // the handshake was done
	after       []func(saved error) // what waits for the commit of this turn
	next        []func()            // what the loop handed to its own next turn

	due      *dueQueue           // reminders that were not tried yet
	again    *dueQueue           // those that the host did not take
	soon     map[string]struct{} // event ids of pushes that were not taken, and are to be tried again at once
	flights  map[string]*flight  // pushes without an answer, by event id
	beat     heartbeat
	clock    clock
	flushed  chan struct{} // a writing of the views ended
	flushing bool
	nextWork time.Time // when the next writing may begin
	lastLook time.Time // at the files
	looked   uint64    // the host's Reads at the last look before a call
	timer    *time.Timer
	changes  changes
	letters  letters

	participant func(agent, pane string) // waits for the journal to be taken over; nil: nobody does
	turns       turns                    // that run on the host, as far as it tells (SPEC 11.3)
	trimAt      time.Time                // when to look for old segments next
	polledAt    time.Time                // when the host polled last
	policyAt    time.Time                // when to say that no policy came; zero: never

	by     journal.Source    // who makes the call that is being answered
	told   told              // beside the loop, since its last turn
	peeked *projection.State // in place of the store's, for a reply of a server that waits for the journal
}

// New makes an engine; Run starts it.
func New(o Options) *Engine {
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.NewID == nil {
		o.NewID = randomID
	}
	o.Store.Now, o.Store.Log = o.Wall, o.Log
	return &Engine{
		o: o, inbox: make(chan func(), 1024), done: make(chan struct{}),
		due: newDueQueue(0), again: newDueQueue(0), soon: map[string]struct{}{}, flights: map[string]*flight{},
		flushed: make(chan struct{}, 1), letters: letters{read: map[string]bool{}},
	}
}

// Attach sets the connection. Call it before Run.
func (e *Engine) Attach(h Host) { e.host = h }

// do hands f to the loop. False: the loop has ended, f is never called.
func (e *Engine) do(f func()) bool {
	select {
	case <-e.done:
		return false
	default:
	}
	e.handed.Add(1)
	select {
	case e.inbox <- f:
		return true
	case <-e.done:
		return false
	}
}

// await hands f to the loop and waits until it calls done, which it does once. False: the loop ended before that.
func (e *Engine) await(f func(done func())) bool {
	waiting := make(chan struct{})
	if !e.do(func() { f(func() { close(waiting) }) }) {
		return false
	}
	select {
	case <-waiting:
		return true
	case <-e.done:
		return false
	}
}

// Run opens the journal and works until ctx is done; then it brings everything to disk (SPEC 1.4). reason is asked for
// the stop event's text. Offline it does not wait for a journal that cannot be opened, but returns why (a [*journal.HeldError]
// where another process holds it) and answers nothing.
func (e *Engine) Run(ctx context.Context, reason func() string) error {
	defer close(e.done)
	e.clock = newClock(e.o.Wall)
	e.timer = time.NewTimer(0)
	defer e.timer.Stop()
	e.working.Lock() // for good, but for the rests between turns: nothing is answered before the beginning and after the end
	if err := e.tryOpen(); err != nil && e.o.Offline != "" {
		return err
	}
	for ctx.Err() == nil {
		e.turn(ctx)
	}
	e.drain()
	e.commit()
	e.endFlush()
	if e.store == nil {
		return nil
	}
	if err := e.store.Close(e.now(), reason()); err != nil {
		return fmt.Errorf("close the journal: %w", err)
	}
	return nil
}

// turn waits for something to do and does all of it.
func (e *Engine) turn(ctx context.Context) {
	e.timer.Reset(e.untilNext())
	e.rest(ctx)
	if ctx.Err() != nil {
		return
	}
	e.drain()
	e.pushing.Store(e.policy.Blocked() == "")
	if e.store == nil {
		_ = e.tryOpen() // said by the log, and tried again
	} else {
		e.lookAtClock()
		e.trim()
	}
	e.commit()
	e.flush()
}

// rest waits for something to do. Meanwhile calls may be answered beside it ([Engine.readBeside]).
func (e *Engine) rest(ctx context.Context) {
	e.working.Unlock()
	var handed func()
	flushed := false
	select {
	case handed = <-e.inbox:
	case <-e.timer.C:
	case <-e.flushed:
		flushed = true
	case <-ctx.Done():
	}
	e.working.Lock()
	e.told = told{}
	if handed != nil {
		e.takeOver(handed)
	}
	if flushed {
		e.flushEnded()
	}
}

// takeOver does what was handed over.
func (e *Engine) takeOver(f func()) {
	f()
	e.handed.Add(-1)
}

// drain does what else was handed over, as much as one fsync should carry.
func (e *Engine) drain() {
	for len(e.next) > 0 {
		f := e.next[0]
		e.next = e.next[1:]
		f()
	}
	for range cap(e.inbox) {
		select {
		case f := <-e.inbox:
			e.takeOver(f)
		default:
			return
		}
	}
}

// Pushing says whether the host lets wakes through. It may be called by anybody.
func (e *Engine) Pushing() bool { return e.pushing.Load() }

// commit appends what the turn recorded and then lets out what waits for it. An error says that it could not be appended.
func (e *Engine) commit() (saved error) {
	if e.store != nil {
		saved = e.store.Commit(e.now())
	}
	after := e.after
	e.after = nil
	for _, f := range after {
		f(saved)
	}
	e.tellChanges()
	return saved
}

// then has f called when the events recorded so far are on disk, or could not be put there.
func (e *Engine) then(f func(saved error)) { e.after = append(e.after, f) }

// trim looks for segments that need not be kept any longer, now and then.
func (e *Engine) trim() {
	if time.Now().After(e.trimAt) {
		e.trimAt = time.Now().Add(trimEvery)
		e.store.Trim(e.now())
	}
}

// flush begins a writing of the views when they are behind and the last one is long enough ago.
func (e *Engine) flush() {
	if e.store == nil || e.flushing || time.Now().Before(e.nextWork) || !e.store.Behind() && time.Since(e.lastLook) < flushSpacing {
		return
	}
	e.lastLook = time.Now()
	work := e.store.BeginFlush(e.now())
	e.takenIn()
	if work == nil {
		return
	}
	e.flushing, e.nextWork = true, time.Now().Add(flushSpacing)
	go func() {
		work()
		e.flushed <- struct{}{}
	}()
}

// endFlush waits for the writing of the views that is under way.
func (e *Engine) endFlush() {
	if e.flushing {
		<-e.flushed
		e.flushEnded()
	}
}

// flushEnded takes in that a writing of the views is over.
func (e *Engine) flushEnded() {
	e.flushing = false
	e.store.EndFlush()
}

// untilNext is how long the loop may sleep.
func (e *Engine) untilNext() time.Duration {
	if len(e.next) > 0 {
		return 0
	}
	if e.store == nil {
		return lockPoll
	}
	wait := tick
	if next, ok := e.nextDue(); ok {
		wait = min(wait, time.Duration(max(0, next-e.now()))*time.Millisecond)
	}
	if e.o.Changed != nil && len(e.changes.uris) > 0 {
		wait = min(wait, max(0, flushSpacing-time.Since(e.changes.last)))
	}
	if !e.flushing && e.store.Behind() {
		wait = min(wait, max(0, time.Until(e.nextWork)))
	}
	return wait
}

// tryOpen opens the journal, unless another server holds it (SPEC 1.5): then the error says so.
func (e *Engine) tryOpen() error {
	store, err := recovery.Open(e.o.Store)
	if held := new(journal.HeldError); errors.As(err, &held) {
		if e.held == nil {
			e.o.Log.Warn("another server holds the journal: this one changes nothing and takes over when the lock is free", "journal", e.o.Store.Journal, "pid", held.PID)
		}
		e.held = held
		return err
	}
	if err != nil {
		return err
	}
	if e.held != nil {
		e.o.Log.Info("the journal is free: this server takes over", "journal", e.o.Store.Journal)
	}
	e.store, e.held = store, nil
	e.rebuildQueue()
	e.retryNow()
	e.beginHeartbeat()
	if e.o.Opened != nil && store.Locked() {
		e.o.Opened()
	}
	if e.initialized {
		e.logWaiting()
	}
	e.policyInForce()
	if answer := e.participant; answer != nil {
		e.participant = nil
		answer(e.state().Agent, e.state().Pane)
	}
	if e.state().Len() > manyReminders {
		go debug.FreeOSMemory()
	}
	return nil
}

// manyReminders is from how many on the memory that reading them took is given back at once: it is more than they keep.
const manyReminders = 10_000

// record makes events of the bodies and keeps the due queue in step with what they change.
func (e *Engine) record(bodies ...journal.Body) {
	e.store.Record(e.now(), bodies...)
	for _, b := range bodies {
		e.changes.note(b)
		switch b := b.(type) {
		case *journal.Add:
			e.schedule(b.ID)
		case *journal.Cancel:
			e.schedule(b.ID)
		case *journal.Ack:
			e.schedule(b.ID)
		case *journal.Fire:
			e.schedule(b.ID)
		case *journal.Refuse:
			e.schedule(b.ID)
		case *journal.Configure:
			e.beat.waiting = e.beat.waiting && !b.Reanchor
		case *journal.Clock:
			e.rebuildQueue()
		}
	}
}

// mustLook says whether edits have to be taken in before a call is answered: once for all calls that came in one read, as whoever
// made them saw none of their answers before the last was made.
func (e *Engine) mustLook() bool { return e.by != journal.ByTool || e.host.Reads() != e.looked }

// lookAtFiles takes in edits before a call is answered, and says whether there were any.
func (e *Engine) lookAtFiles() bool {
	e.looked, e.lastLook = e.host.Reads(), time.Now()
	return e.takeInEdits()
}

// takeInEdits takes in what a person changed in the views, and says whether there was anything.
func (e *Engine) takeInEdits() bool {
	some := e.store.TakeInEdits(e.now())
	e.takenIn()
	return some
}

// takenIn follows edits of the views that the store recorded by itself.
func (e *Engine) takenIn() {
	if e.store.Edited() {
		e.changes.note(&journal.Configure{})
		e.changes.note(&journal.Add{})
		e.rebuildQueue()
		e.retryNow()
	}
}

func (e *Engine) state() *projection.State {
	if e.store == nil {
		return e.peeked
	}
	return e.store.State()
}

func (e *Engine) now() int64 { return e.o.Wall().UnixMilli() }
