// Package engine owns the server's one loop: the goroutine that holds the state, the journal, the due queue and the
// pushes in flight. Everything else (tool calls, the host's answers and policy, timers) hands it functions and gets
// results back. A tool that only reads is answered where it is called while the loop rests: a lock around each turn
// keeps the two apart, and nothing else here is locked.
//
// Start with [Open] and [Engine.Run]; [Engine.Connect] adds a session. Each turn of the loop takes all that was handed over, lets it record events, looks
// at the clock, appends every event with one fsync, and only then answers and pushes: a reply leaves after its event is on
// disk (SPEC 9.1), a wake after its fire event (write-ahead, SPEC 6.6).
package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/delivery"
	"heartbeat-mcpl/rpc/tools"
)

const (
	tick         = time.Second     // how often the wall clock is looked at (SPEC 6.8)
	takeOverRest = 2 * time.Second // how long the sessions of the last holder may take to be back
	trimEvery    = time.Hour
	flushSpacing = 100 * time.Millisecond // between the begins of two writings of the views (SPEC 2.3: up to 200 ms behind)
)

// Options are what an Engine needs to know.
type Options struct {
	Store recovery.Options
	Zone  *time.Location // of the agent
	Log   *slog.Logger
	NewID func() string    // random text, for the ids of reminders and events; nil: from crypto/rand
	Wall  func() time.Time // the wall clock; nil: time.Now

	// Mesh serves the tools by which agents see each other; nil: there is none.
	Mesh      Mesh
	Offline   string            // why nothing can be pushed in this process at all; empty: the host's policy says
	Command   *delivery.Command // that is started for wakes that no session takes; nil: there is none (SPEC 14.4)
	Retry     time.Duration     // how long a command that says "not now" is left alone at first; 0: a minute
	Proactive bool              // wakes can be polled on every connection, also where they are pushed
}

// Engine is the loop. All fields below working belong to who holds it.
type Engine struct {
	o       Options
	inbox   chan func()
	handed  atomic.Int64  // functions in the inbox, and the one that was just taken from it
	done    chan struct{} // closed when the loop has ended
	working sync.Mutex    // held by a turn of the loop, and by a call that is answered beside it

	store    *recovery.Store
	program  *program // nil: there is none
	mesh     Mesh     // nil: there is none
	sessions []*Session
	pushing  atomic.Bool         // a session lets wakes through; read by anybody
	after    []func(saved error) // what waits for the commit of this turn
	next     []func()            // what the loop handed to its own next turn

	due      *dueQueue
	flights  map[string]*flight            // offers without an outcome, by event id
	tried    map[string]map[deliverer]bool // who turned a wake down in this round
	out      map[deliverer]int             // how many offers each has without an outcome
	offered  uint64                        // Seq of the last offer
	spoken   uint64                        // turn of the session that called last
	resting  time.Time                     // until when wakes that were offered to a session that is not back yet wait for it
	again    *dueQueue                     // wakes that were not taken, by key
	soon     map[string]struct{}           // event ids of offers that were not taken, and are to be tried again at once
	beat     heartbeat
	clock    clock
	flushed  chan struct{} // a writing of the views ended
	flushing bool
	nextWork time.Time // when the next writing may begin
	lastLook time.Time // at the files
	timer    *time.Timer
	changes  changes
	messages messages

	trimAt   time.Time // when to look for old segments next
	polledAt time.Time // when a host polled last

	call  caller            // of the call that is being answered
	shown *projection.State // in place of the store's, for what is answered read-only
}

// Mesh is what an engine needs of the agents' mesh. Its methods may wait for it.
type Mesh interface {
	// Call runs one of the mesh's tools for a session. A call that comes again comes under its key.
	Call(session, key, tool string, arguments json.RawMessage) tools.Reply
	// Refresh has [Engine.Letters] told what waits for a session's agent.
	Refresh(session string)
	// Take acknowledges messages that a session polled.
	Take(session string, ids []string)
}

// caller is who makes a call.
type caller struct {
	by      journal.Source
	session *Session // nil: a command
	key     string
}

// Open opens the journal and the views in whatever state they are. A [*journal.HeldError] says that another process holds the journal;
// there is no other error. [Engine.Run] must follow.
func Open(o Options) (*Engine, error) {
	e := newEngine(o)
	e.clock = newClock(e.o.Wall)
	store, err := recovery.Open(e.o.Store)
	if err != nil {
		return nil, err
	}
	e.store = store
	return e, nil
}

// newEngine is an engine without a store. It is at work until it rests in [Engine.Run]: nothing is answered beside it before that.
func newEngine(o Options) *Engine {
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.NewID == nil {
		o.NewID = randomID
	}
	o.Store.Now, o.Store.Log = o.Wall, o.Log
	e := &Engine{
		o: o, inbox: make(chan func(), 1024), done: make(chan struct{}),
		due: newDueQueue(0), again: newDueQueue(0), soon: map[string]struct{}{}, flights: map[string]*flight{}, tried: map[string]map[deliverer]bool{}, out: map[deliverer]int{},
		flushed: make(chan struct{}, 1), messages: newMessages(),
	}
	if o.Command != nil {
		e.program = newProgram(e, o.Command, o.Retry)
	}
	e.working.Lock()
	return e
}

// Join has the mesh's tools served. Call it before Run.
func (e *Engine) Join(m Mesh) { e.mesh = m }

// Locked says whether this process holds the journal's lock. Call it before Run.
func (e *Engine) Locked() bool { return e.store.Locked() }

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

// Run works until ctx is done; then it brings everything to disk (SPEC 1.4). reason is asked for the stop event's text.
func (e *Engine) Run(ctx context.Context, reason func() string) error {
	defer close(e.done)
	e.timer = time.NewTimer(0)
	defer e.timer.Stop()
	e.begin()
	for ctx.Err() == nil {
		e.turn(ctx)
	}
	if e.program != nil {
		e.program.close()
	}
	e.drain()
	e.commit()
	e.endFlush()
	if err := e.store.Close(e.now(), reason()); err != nil {
		return fmt.Errorf("close the journal: %w", err)
	}
	return nil
}

// begin takes in what the journal says is due.
func (e *Engine) begin() {
	e.resting = time.Now().Add(takeOverRest)
	e.beginHeartbeat()
	e.rebuildQueues()
	e.retryNow()
	if e.drain(); len(e.sessions) == 0 {
		e.logWaiting()
	}
	if e.state().Len() > manyReminders {
		go debug.FreeOSMemory()
	}
}

// turn waits for something to do and does all of it.
func (e *Engine) turn(ctx context.Context) {
	e.timer.Reset(e.untilNext())
	e.rest(ctx)
	if ctx.Err() != nil {
		return
	}
	e.drain()
	e.pushing.Store(e.blocked() == "")
	e.fireDue()
	e.trim()
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
	saved = e.store.Commit(e.now())
	after := e.after
	e.after = nil
	for _, f := range after {
		f(saved)
	}
	e.handOver()
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
	if e.flushing || time.Now().Before(e.nextWork) || !e.store.Behind() && time.Since(e.lastLook) < flushSpacing {
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
	wait := tick
	if next, ok := e.nextDue(); ok {
		wait = min(wait, time.Duration(max(0, next-e.now()))*time.Millisecond)
	}
	wait = min(wait, e.untilWaits())
	if len(e.sessions) > 0 && len(e.changes.uris) > 0 {
		wait = min(wait, max(0, flushSpacing-time.Since(e.changes.last)))
	}
	if !e.flushing && e.store.Behind() {
		wait = min(wait, max(0, time.Until(e.nextWork)))
	}
	return wait
}

// manyReminders is from how many on the memory that reading them took is given back at once: it is more than they keep.
const manyReminders = 10_000

// record makes events of the bodies and keeps the due queue in step with what they change.
func (e *Engine) record(bodies ...journal.Body) {
	for _, b := range bodies {
		if s := e.call.session; s != nil {
			journal.Attribute(b, s.name, e.call.key)
		}
	}
	e.store.Record(e.now(), bodies...)
	for _, b := range bodies {
		e.changes.note(b)
		switch b := b.(type) {
		case *journal.Add:
			e.schedule(b.ID)
		case *journal.Cancel:
			e.schedule(b.ID)
		case *journal.Ack:
			e.schedule(cmp.Or(b.ID, heartbeatKey))
		case *journal.Fire:
			e.schedule(cmp.Or(b.ID, heartbeatKey))
		case *journal.Tell:
			e.schedule(messageKey + b.Message)
		case *journal.Told:
			e.schedule(messageKey + b.Message)
		case *journal.Drop:
			e.schedule(heartbeatKey)
		case *journal.Configure:
			e.beat.waiting = e.beat.waiting && !b.Reanchor
			e.schedule(heartbeatKey)
		case *journal.Clock:
			e.rebuildQueues()
		}
	}
}

// mustLook says whether edits have to be taken in before a call is answered: once for all calls that came in one read, as whoever
// made them saw none of their answers before the last was made.
func (e *Engine) mustLook() bool {
	s := e.call.session
	return e.call.by != journal.ByTool || s == nil || s.host.Reads() != s.looked
}

// lookAtFiles takes in edits before a call is answered, and says whether there were any.
func (e *Engine) lookAtFiles() bool {
	e.lastLook = time.Now()
	if s := e.call.session; s != nil {
		s.looked = s.host.Reads()
	}
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
		e.rebuildQueues()
		e.retryNow()
	}
}

func (e *Engine) state() *projection.State {
	if e.store == nil {
		return e.shown
	}
	return e.store.State()
}

func (e *Engine) now() int64 { return e.o.Wall().UnixMilli() }
