package agents

import (
	"encoding/json"
	"sync"

	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/tools"
)

// Services are the agents of one journal. A session is the agent that checked in last on it; one on which nobody did is the agent
// that checked in last on any.
type Services struct {
	o    Options
	open func() (Mesh, error) // for one more agent

	mu      sync.Mutex
	nobody  *Service            // of sessions while nobody has checked in
	agents  map[string]*Service // by the agent's name
	session map[string]*Service // by the session that checked in
	last    *Service            // that checked in last; nil: nobody did
}

// NewServices makes the services for agents that take no part yet. open opens the mesh for one agent; o's Mesh is for calls of
// nobody.
func NewServices(o Options, open func() (Mesh, error)) *Services {
	return &Services{o: o, open: open, nobody: New(o), agents: map[string]*Service{}, session: map[string]*Service{}}
}

// Resume goes on as the agents that took part before this process began, the last one last.
func (s *Services) Resume(all []projection.Participant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range all {
		service, err := s.serviceOf(p.Agent)
		if err != nil {
			s.o.Log.Warn("the mesh cannot be opened for "+p.Agent, "err", err)
			continue
		}
		s.session[p.Session], s.last = service, service
		go service.Resume(p.Agent, p.Pane)
	}
	s.nobody.begun()
}

// serviceOf is the service of an agent; it is made where there is none. Under mu.
func (s *Services) serviceOf(agent string) (*Service, error) {
	if service := s.agents[agent]; service != nil {
		return service, nil
	}
	mesh, err := s.open()
	if err != nil {
		return nil, err
	}
	o := s.o
	o.Mesh = mesh
	s.agents[agent] = New(o)
	return s.agents[agent], nil
}

// of is the service that a session's calls go to.
func (s *Services) of(session string) *Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.session[session] != nil:
		return s.session[session]
	case s.last != nil:
		return s.last
	}
	return s.nobody
}

// Call runs one of the mesh's tools for a session.
func (s *Services) Call(session, key, tool string, arguments json.RawMessage) tools.Reply {
	caller := Caller{Session: session, Key: key}
	if tool != "agent_checkin" {
		return s.of(session).Call(caller, tool, arguments)
	}
	args, _, err := tools.ParseCheckIn(arguments)
	if err != nil || !args.Confirm {
		return s.of(session).Call(caller, tool, arguments) // a preview, or a refusal
	}
	s.mu.Lock()
	service, err := s.serviceOf(args.Agent)
	s.mu.Unlock()
	if err != nil {
		return failed(err)
	}
	service.begun() // as somebody who is here already, or anew
	reply := service.Call(caller, tool, arguments)
	if !reply.IsError {
		s.checkedIn(session, service)
	}
	return reply
}

// checkedIn makes a session an agent's. One that no session is any longer is followed no more: its entry expires.
func (s *Services) checkedIn(session string, service *Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session[session], s.last = service, service
	used := map[*Service]bool{}
	for _, other := range s.session {
		used[other] = true
	}
	for agent, other := range s.agents {
		if !used[other] {
			delete(s.agents, agent)
			go other.Close()
		}
	}
}

// Refresh tells the host what waits for a session's agent: it is about to be asked.
func (s *Services) Refresh(session string) { s.of(session).refresh() }

// Take acknowledges messages that a session's host took otherwise: it was polled.
func (s *Services) Take(session string, ids []string) { s.of(session).take(ids) }

// Close ends all taking part.
func (s *Services) Close() {
	s.mu.Lock()
	all := []*Service{s.nobody}
	for _, service := range s.agents {
		all = append(all, service)
	}
	s.mu.Unlock()
	for _, service := range all {
		service.Close()
	}
}
