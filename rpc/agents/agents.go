// Package agents owns presence: the tools by which agents see and wake each other (SPEC 12), on top of a mesh, which is a
// shared folder on one machine or NATS on many.
//
// Start with [NewServices]: the sessions on one journal may be one agent or several, each with a [Service] of its own. All methods may
// be called from any goroutine; those that reach the mesh may wait for it.
package agents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"heartbeat-mcpl/projection"
)

// Mesh carries presence and messages. Errors are for agents to read.
type Mesh interface {
	// CheckIn announces an agent, or renews it. One that was stale begins anew, with an empty inbox.
	CheckIn(a projection.Agent) (projection.Agent, error)
	// Touch renews an agent that is here.
	Touch(agent string) error
	// Agents are all that are here, by name.
	Agents() ([]projection.Agent, error)
	// Send puts a letter into the inboxes of agents that are here.
	Send(l projection.Letter, to []string) error
	// Inbox are the messages that wait for an agent, the oldest first.
	Inbox(agent string) ([]projection.Letter, error)
	// Waiting is how many messages wait for an agent, whoever it is.
	Waiting(agent string) (int, error)
	// Acknowledge takes messages out of an agent's inbox, and says which were there.
	Acknowledge(agent string, ids []string) ([]string, error)
	// Follow calls changed whenever there may be something new for the agent, until stop is closed.
	Follow(agent string, stop <-chan struct{}, changed func())
	// Serve says that this process serves the agent from now on, until end is called.
	Serve(agent string) (end func())
	// Ended says whether the server of an agent has ended, and when; 0 where that is not known. False where it runs, or nobody knows.
	Ended(agent string) (ended bool, atMs int64)
	// Close lets the mesh go.
	Close() error
}

// refusal is what a mesh refuses, whatever carries it: it was reached.
type refusal struct{ error }

func errStale(agent string) error {
	return refusal{fmt.Errorf("the mesh no longer knows %s (its presence went stale, or the mesh was made anew): check in again with agent_checkin", agent)}
}

// errUnknown says that nobody knows whether a message was sent.
var errUnknown = errors.New("it is not known whether the message was taken")

func errLeft(agent string) error { return refusal{fmt.Errorf("%s has just left", agent)} }

// roomFor says whether an inbox takes one more message.
func roomFor(agent string, waiting int) error {
	if waiting < projection.MostInbox {
		return nil
	}
	return refusal{fmt.Errorf("the inbox of %s is full: %d messages wait", agent, waiting)}
}

// Host is what a service wakes through: the engine.
type Host interface {
	// Remember keeps as whom a session takes part, across restarts, and returns once that is on disk.
	Remember(session, agent, pane string)
	// Letters says which messages wait for an agent: they are pushed, or offered to be polled.
	Letters(agent string, unread []projection.Letter)
	// LettersRead says that an agent has acknowledged messages.
	LettersRead(agent string, ids []string)
	// Pushing says whether a host lets wakes through.
	Pushing() bool
}

// Options are what a Service needs to know.
type Options struct {
	Mesh Mesh
	Host Host
	Zone *time.Location
	Log  *slog.Logger
	Home string   // tells this server's sessions from those of others
	Pane Prompter // wakes an agent in a terminal's pane; nil: there is none
}

// Service answers the mesh's tools for one agent.
type Service struct {
	o Options

	mu       sync.Mutex
	agent    string // as whom this session takes part; empty: not at all
	pane     string
	presence projection.Agent // as it was announced last
	stop     chan struct{}    // ends the following of the mesh
	ended    sync.WaitGroup
	sent     []time.Time   // of the last minute
	wake     chan int      // how many messages wait, for the pane
	resumed  chan struct{} // closed once Resume is done, or has to wait for the mesh
	begun    func()        // closes it
	away     error         // why Resume waits; nil: it does not
	ctx      context.Context
	cancel   context.CancelFunc // ends what is under way when the service is closed
}

// New makes a service for an agent that takes no part yet.
func New(o Options) *Service {
	s := &Service{o: o, wake: make(chan int, 1), resumed: make(chan struct{})}
	s.begun = sync.OnceFunc(func() { close(s.resumed) })
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// resumeEvery is how often a mesh that was away is asked again who took part.
const resumeEvery = time.Second

// Resume goes on as the agent that took part before this process began, if its presence is not stale and the session has not
// checked in meanwhile. Call it with no name where nobody is known; it returns once the mesh has answered.
func (s *Service) Resume(agent, pane string) {
	defer s.begun()
	for agent != "" {
		all, err := s.o.Mesh.Agents()
		if err == nil {
			s.resume(agent, pane, all)
			return
		}
		if s.waitsFor(err) {
			s.o.Log.Warn("the mesh cannot be reached: "+agent+" takes part as soon as it can", "err", err)
		}
		s.begun()
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(resumeEvery):
		}
	}
}

// waitsFor keeps why the agent cannot be resumed yet, and says whether it is the first time.
func (s *Service) waitsFor(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.away == nil
	s.away = err
	return first
}

func (s *Service) resume(agent, pane string, all []projection.Agent) {
	s.mu.Lock()
	s.away = nil
	free := s.agent == ""
	s.mu.Unlock()
	for _, a := range all {
		if free && a.ID == agent {
			s.follow(a, pane)
		}
	}
}

// follow makes this session the agent's.
func (s *Service) follow(a projection.Agent, pane string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.agent == a.ID && s.stop != nil
	s.agent, s.pane, s.presence = a.ID, pane, a
	if again {
		return
	}
	if s.stop != nil {
		close(s.stop)
	}
	stop := make(chan struct{})
	s.stop = stop
	end := s.o.Mesh.Serve(a.ID)
	s.ended.Go(func() {
		defer end()
		s.o.Mesh.Follow(a.ID, stop, s.look)
	})
	if s.o.Pane != nil {
		s.ended.Go(func() { s.prompt(stop) })
	}
}

// look tells the host what waits.
func (s *Service) look() {
	s.mu.Lock()
	agent := s.agent
	s.mu.Unlock()
	if agent == "" {
		return
	}
	unread, err := s.o.Mesh.Inbox(agent)
	if err != nil {
		s.o.Log.Warn("the inbox cannot be read", "err", err)
		return
	}
	s.o.Host.Letters(agent, unread)
	select {
	case <-s.wake:
	default:
	}
	s.wake <- len(unread)
}

// Close ends the following of the mesh.
func (s *Service) Close() {
	s.cancel()
	s.mu.Lock()
	if s.stop != nil {
		close(s.stop)
		s.stop = nil
	}
	s.mu.Unlock()
	if err := s.o.Mesh.Close(); err != nil {
		s.o.Log.Info("the mesh could not be let go", "err", err)
	}
	s.ended.Wait()
}

// take acknowledges messages that the host took otherwise: it was polled.
func (s *Service) take(ids []string) {
	s.mu.Lock()
	agent := s.agent
	s.mu.Unlock()
	read, err := s.o.Mesh.Acknowledge(agent, ids)
	if err != nil {
		s.o.Log.Warn("messages could not be acknowledged", "err", err)
	}
	s.o.Host.LettersRead(agent, read)
	s.look()
}

// refresh tells the host what waits now: it is about to be asked.
func (s *Service) refresh() {
	<-s.resumed
	s.look()
}

// errNobody says that the session has not checked in.
var errNobody = refusal{errors.New("this session has not checked in to the mesh: call agent_checkin with confirm true first")}

// me is the agent of this session, renewed: every mesh call renews (SPEC 12.2). The first call may come before the session goes on
// as the agent of the one before it.
func (s *Service) me() (string, error) {
	select {
	case <-s.resumed:
	case <-s.ctx.Done():
	}
	s.mu.Lock()
	agent, away := s.agent, s.away
	s.mu.Unlock()
	switch {
	case agent == "" && away != nil:
		return "", away
	case agent == "":
		return "", errNobody
	}
	return agent, s.o.Mesh.Touch(agent)
}

// Prompter submits a text to a pane of the terminal.
type Prompter interface {
	// Prompt submits it. An error that is ErrNotReady's means that it may work later.
	Prompt(ctx context.Context, pane, text string) error
}

// ErrNotReady says that the agent in the pane cannot take a prompt now.
var ErrNotReady = errors.New("the agent in the pane is not ready")
