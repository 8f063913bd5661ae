package attach

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/rpc/engine"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/tools"
	"heartbeat-mcpl/rpc/wire"
)

const (
	firstTry = 10 * time.Millisecond  // after a holder has ended the next one is there soon
	lastTry  = 250 * time.Millisecond // how often a holder that cannot be reached is looked at again (SPEC 1.5)
	patience = 3 * time.Second        // how long a holder may be starting before calls are told that it cannot be reached

	mostUnread   = 8 << 20 // bytes that wait for the host to read before it takes no wake (SPEC 8.8)
	mostOutcomes = 1000    // of offers that were answered, kept for a holder that may not have written them down
	keepOutcome  = time.Minute
)

var pid = os.Getpid()

// Options are what [New] needs to know.
type Options struct {
	Journal string // its folder
	Version string // of this build
	Log     *slog.Logger
	// Open opens the journal in this process; closed is called once its engine has ended. A [*journal.HeldError] says that another
	// process holds it.
	Open func() (e *engine.Engine, closed func(), err error)
}

// way reaches an engine: the loop in this process ([*engine.Session]), or the holder's socket ([*remote]).
type way interface {
	Initialized(c engine.Client)
	Call(c engine.Call, answer func(tools.Reply)) bool
	Resource(uri string, answer func(text string, err error)) bool
	UpdatePolicy(params json.RawMessage, answer func(mcpl.Receipt, error)) bool
	NoticePolicy(params json.RawMessage)
	Lifecycle(params json.RawMessage)
	CancelWait(cancel string)
	Outcome(o engine.Offer, a wire.Answer)
}

// Link is a process's place at a journal: it holds the journal, or is attached to the process that does. Its session does not
// notice a take-over: what the holder must know of it is kept here and told to the next one, and what was asked and not answered is
// asked again, under the same key (SPEC 13.2).
//
//	            ┌── the lock is free ──> holding (until the process ends)
//	looking ────┤
//	   ^        └── it is held, its socket answers ──> attached ──┐
//	   └─────────────── the connection has ended ─────────────────┘
type Link struct {
	o    Options
	host engine.Host // nil: no session

	local atomic.Pointer[engine.Session] // once this process holds the journal

	mu      sync.Mutex
	way     way // nil: looking
	why     string
	peer    engine.Peer
	asked   []*ask // and not answered, in order
	offers  map[uint64]*offered
	running map[string]bool // turns of the host
	ended   bool
}

// ask is something that was asked of the engine. It is answered once, by whoever holds the journal then.
type ask struct {
	at   time.Time
	of   way    // that was asked last
	wait string // the id by which a waiting call is called off
	send func(w way) bool
	fail func(why string)
}

// offered is a wake that was handed to the host.
type offered struct {
	outcome
	at time.Time // when it was answered
}

// New makes a link that looks for the journal once it runs. Call [Link.Serve] before that where there is a session.
func New(o Options) *Link {
	return &Link{o: o, offers: map[uint64]*offered{}, running: map[string]bool{}, peer: engine.Peer{PID: pid, Name: newName("")}}
}

// Serve names the session's host.
func (l *Link) Serve(host engine.Host) { l.host = host }

// newName is a session's name (SPEC 13.3): its client, the process that serves it, and a random part.
func newName(client string) string {
	name, _, _ := strings.Cut(client, " ")
	name = strings.Map(func(r rune) rune {
		if r == '/' || r < '!' || r > '~' {
			return '-'
		}
		return r
	}, name)
	if name == "" {
		name = "client"
	}
	const most = 40
	return fmt.Sprintf("%s/%d/%s", name[:min(most, len(name))], pid, strings.ToLower(rand.Text()[:6]))
}

// Run looks for the journal, and holds it or is attached, until ctx is done. An error says what could not be brought to disk.
func (l *Link) Run(ctx context.Context, reason func() string) error {
	defer l.end()
	tries, since := firstTry, time.Now()
	for first := true; first || ctx.Err() == nil; first = false { // also what ends at once leaves its files in order
		e, closed, err := l.o.Open()
		held := new(journal.HeldError)
		switch {
		case err == nil:
			defer closed()
			return l.hold(ctx, e, reason)
		case !errors.As(err, &held):
			return err
		}
		r, err := l.attach(ctx)
		if err == nil {
			r.wait(ctx)
			l.lose(r)
			tries, since = firstTry, time.Now()
			continue
		}
		if time.Since(since) >= patience || errors.Is(err, errOld) {
			l.unreachable(held, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(tries):
		}
		tries = min(2*tries, lastTry)
	}
	return nil
}

// hold serves as the holder until ctx is done.
func (l *Link) hold(ctx context.Context, e *engine.Engine, reason func() string) error {
	var s *socket
	if e.Locked() {
		var err error
		if s, err = listen(l.o.Journal, e, l.o.Version, l.o.Log); err != nil {
			l.o.Log.Warn("other sessions and heartbeat-mcpl ctl cannot reach this server: its socket cannot be made", "err", err)
		}
	}
	l.take(func(peer engine.Peer, offers []outcome) way {
		if l.host == nil {
			return nil
		}
		session := e.Connect(l.host, peer, underWay(offers)...)
		for _, o := range offers {
			if o.Answer != nil {
				session.Outcome(o.Offer, o.Answer.wire())
			}
		}
		l.local.Store(session)
		return session
	})
	if s == nil {
		return e.Run(ctx, reason)
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		s.stopListening() // first: while this process holds the journal
		stop()
	})()
	err := e.Run(working, reason)
	s.close()
	return err
}

func underWay(offers []outcome) []engine.Offer {
	all := make([]engine.Offer, len(offers))
	for i, o := range offers {
		all[i] = o.Offer
	}
	return all
}

// take has this link's session registered, and asks what was asked and not answered, in its order: only then is the way open for more.
func (l *Link) take(register func(engine.Peer, []outcome) way) {
	l.mu.Lock()
	l.peer.Running = slices.Sorted(maps.Keys(l.running))
	w := register(l.peer, l.outcomes())
	l.mu.Unlock()
	for w != nil {
		l.mu.Lock()
		var next *ask
		if i := slices.IndexFunc(l.asked, func(a *ask) bool { return a.of != w }); i >= 0 {
			next = l.asked[i]
			next.of = w
		} else {
			l.way, l.why = w, ""
		}
		l.mu.Unlock()
		if next == nil {
			l.watch()
			return
		}
		next.send(w)
	}
}

// outcomes are the offers that the last holder may not have written down.
func (l *Link) outcomes() []outcome {
	l.forget()
	all := make([]outcome, 0, len(l.offers))
	for _, seq := range slices.Sorted(maps.Keys(l.offers)) {
		all = append(all, l.offers[seq].outcome)
	}
	return all
}

// forget drops offers that were answered long ago.
func (l *Link) forget() {
	maps.DeleteFunc(l.offers, func(_ uint64, o *offered) bool {
		return !o.at.IsZero() && (time.Since(o.at) > keepOutcome || len(l.offers) > mostOutcomes)
	})
}

// lose notices that the holder has ended.
func (l *Link) lose(r *remote) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.way == way(r) {
		l.way = nil
	}
}

// unreachable answers what was asked of a holder that cannot be reached.
func (l *Link) unreachable(held *journal.HeldError, why error) {
	said := fmt.Sprintf("Another heartbeat-mcpl (process %d) holds the journal %s and cannot be attached to (%v): this server changes nothing, and takes over within a second of that one's end.",
		held.PID, l.o.Journal, why)
	l.mu.Lock()
	if l.why == "" {
		l.o.Log.Warn("the process that holds the journal cannot be attached to: this server changes nothing and takes over when the lock is free", "journal", l.o.Journal, "pid", held.PID, "why", why)
	}
	l.why = said
	asked := l.asked
	l.asked = nil
	l.mu.Unlock()
	for _, a := range asked {
		a.fail(said)
	}
}

// end answers nobody any more.
func (l *Link) end() {
	l.mu.Lock()
	l.ended = true
	asked := l.asked
	l.asked = nil
	l.mu.Unlock()
	for _, a := range asked {
		a.fail("The server is ending.")
	}
}

// ask asks the engine, or keeps the question until there is one. send gets a function to be called before the answer is given:
// it says whether that is still awaited.
func (l *Link) ask(send func(w way, answered func() bool) bool, fail func(why string)) bool {
	return l.askWaiting("", send, fail)
}

// askWaiting is ask for a call that may wait long, and be called off meanwhile; empty: it is none.
func (l *Link) askWaiting(wait string, send func(w way, answered func() bool) bool, fail func(why string)) bool {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return false
	}
	if l.way == nil && l.why != "" {
		why := l.why
		l.mu.Unlock()
		fail(why)
		return true
	}
	a := &ask{at: time.Now(), of: l.way, wait: wait, fail: fail}
	a.send = func(w way) bool { return send(w, func() bool { return l.answered(a) }) }
	l.asked = append(l.asked, a)
	l.mu.Unlock()
	if a.of != nil {
		a.send(a.of) // false: the way has just ended, and the next one is asked
		l.watch()
	}
	return true
}

// tell tells the engine something that has no answer, in its order among what is asked.
func (l *Link) tell(f func(w way)) {
	l.ask(func(w way, answered func() bool) bool {
		answered()
		f(w)
		return true
	}, func(string) {})
}

// answered takes a question off the list; false: it was answered before.
func (l *Link) answered(a *ask) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.asked, a)
	if i >= 0 {
		l.asked = slices.Delete(l.asked, i, i+1)
	}
	return i >= 0
}

// silent answers what the holder has not answered for too long: it does not even answer a ping.
func (l *Link) silent(holder int, since time.Duration) {
	l.mu.Lock()
	var old []*ask
	l.asked = slices.DeleteFunc(l.asked, func(a *ask) bool {
		late := time.Since(a.at) >= since && a.wait == ""
		if late {
			old = append(old, a)
		}
		return late
	})
	l.mu.Unlock()
	for _, a := range old {
		a.fail(fmt.Sprintf("The process that holds the journal (%d) does not answer: it may be stopped, or the machine too busy. What was asked may still be done once it goes on; look before you ask again. It all works again as soon as that process goes on or ends.", holder))
	}
}

// watch has the holder pinged while something was asked and not answered, if it is another process.
func (l *Link) watch() {
	l.mu.Lock()
	r, remote := l.way.(*remote)
	l.mu.Unlock()
	if remote && l.waits() {
		r.watch()
	}
}

// waits says whether anything was asked and not answered.
func (l *Link) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.asked, func(a *ask) bool { return a.wait == "" })
}

// Call runs a tool; see session.Engine.
func (l *Link) Call(call engine.Call, answer func(tools.Reply)) bool {
	if local := l.local.Load(); local != nil {
		return local.Call(call, answer)
	}
	call.Arguments, call.Key = slices.Clone(call.Arguments), strings.ToLower(rand.Text()[:16])
	return l.askWaiting(call.Cancel, func(w way, answered func() bool) bool {
		return w.Call(call, func(r tools.Reply) {
			if answered() {
				answer(r)
			}
		})
	}, func(why string) { answer(tools.Reply{Text: why, IsError: true}) })
}

// CancelWait calls a waiting call off: it is not answered.
func (l *Link) CancelWait(cancel string) {
	l.mu.Lock()
	l.asked = slices.DeleteFunc(l.asked, func(a *ask) bool { return a.wait == cancel && cancel != "" })
	w := l.way
	l.mu.Unlock()
	if w != nil {
		w.CancelWait(cancel)
	}
}

// Resource reads one of the resources.
func (l *Link) Resource(uri string, answer func(text string, err error)) bool {
	return l.ask(func(w way, answered func() bool) bool {
		return w.Resource(uri, func(text string, err error) {
			if answered() {
				answer(text, err)
			}
		})
	}, func(why string) { answer("", errors.New(why)) })
}

// Initialized begins the conversation anew.
func (l *Link) Initialized(c engine.Client) {
	l.mu.Lock()
	l.peer.Client, l.peer.Policy, l.peer.Met = c, nil, true
	if c.Name != "" {
		l.peer.Name = newName(c.Name)
	}
	c.Session = l.peer.Name
	clear(l.running)
	l.mu.Unlock()
	l.tell(func(w way) { w.Initialized(c) })
}

// UpdatePolicy takes a featureSets/update request.
func (l *Link) UpdatePolicy(params json.RawMessage, answer func(mcpl.Receipt, error)) bool {
	params = slices.Clone(params)
	return l.ask(func(w way, answered func() bool) bool {
		return w.UpdatePolicy(params, func(r mcpl.Receipt, err error) {
			if answered() {
				l.mu.Lock()
				l.peer.Policy = []engine.PolicyUpdate{{Request: true, Params: params}} // what came before it counts no more
				l.mu.Unlock()
				answer(r, err)
			}
		})
	}, func(why string) { // the grant holds all the same, once there is an engine
		var p mcpl.Policy
		l.mu.Lock()
		p.Initialized(l.peer.Client.Offers)
		l.mu.Unlock()
		r, err := p.Update(params)
		r.Notes = append(r.Notes, "Heartbeats and reminders are not delivered yet: "+why)
		answer(r, err)
	})
}

// NoticePolicy takes a featureSets/update notification.
func (l *Link) NoticePolicy(params json.RawMessage) {
	params = slices.Clone(params)
	l.tell(func(w way) {
		l.mu.Lock()
		l.peer.Policy = append(l.peer.Policy, engine.PolicyUpdate{Params: params})
		l.mu.Unlock()
		w.NoticePolicy(params)
	})
}

// Lifecycle takes an inference/lifecycle notification, and remembers which turns run.
func (l *Link) Lifecycle(params json.RawMessage) {
	var turn struct{ InferenceID, Phase string }
	l.mu.Lock()
	if json.Unmarshal(params, &turn) == nil && turn.InferenceID != "" {
		if delete(l.running, turn.InferenceID); turn.Phase == "started" {
			l.running[turn.InferenceID] = true
		}
	}
	l.mu.Unlock()
	params = slices.Clone(params)
	l.tell(func(w way) { w.Lifecycle(params) })
}

// offer hands a wake of a holder elsewhere to this session's host.
func (l *Link) offer(o engine.Offer, params json.RawMessage, limit time.Duration) {
	l.mu.Lock()
	l.forget()
	l.offers[o.Seq] = &offered{outcome: outcome{Offer: o}}
	l.mu.Unlock()
	err := error(nil)
	if unread := l.host.Backlog(); unread >= mostUnread {
		err = fmt.Errorf("the host has not read what this server wrote (%d bytes wait)", unread)
	} else {
		err = l.host.Offer(o, params, limit)
	}
	if err != nil {
		l.Outcome(o, wire.Answer{Err: &jsonrpc2.Error{Code: jsonrpc2.CodeInternalError, Message: err.Error()}})
	}
}

// Outcome says what came of an offer, to whoever holds the journal now.
func (l *Link) Outcome(o engine.Offer, a wire.Answer) {
	if local := l.local.Load(); local != nil {
		local.Outcome(o, a)
		return
	}
	l.mu.Lock()
	l.offers[o.Seq] = &offered{outcome{o, answerOf(a)}, time.Now()}
	l.mu.Unlock()
	l.tell(func(w way) { w.Outcome(o, a) })
}
