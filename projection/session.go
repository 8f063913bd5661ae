package projection

import (
	"slices"

	"heartbeat-mcpl/journal"
)

// Asker is who asked for a wake.
type Asker struct {
	Session      string `msgpack:"se,omitempty"` // by name: the first to be woken (SPEC 13.4)
	Conversation string `msgpack:"cv,omitempty"` // as the session's host calls it (SPEC 14.5)
}

// Done is a call whose events are in the journal. One that is made again, as the process that did it ended before it could answer,
// is answered from this (SPEC 13.2).
type Done struct {
	Call  string       `msgpack:"k"`           // its key
	Kind  journal.Kind `msgpack:"d"`           // of its events
	ID    string       `msgpack:"i,omitempty"` // of the reminder that the last of them is about
	Count int          `msgpack:"n"`           // of its events
}

// mostDone is how many calls are remembered.
const mostDone = 1000

// Done is what a call did, if it was done.
func (s *State) Done(call string) (Done, bool) {
	i := slices.IndexFunc(s.calls, func(d Done) bool { return d.Call == call })
	if i < 0 {
		return Done{}, false
	}
	return s.calls[i], true
}

// remember keeps which call an event came from.
func (s *State) remember(e journal.Event) {
	call := journal.OriginOf(e.Body).Call
	if call == "" {
		return
	}
	if n := len(s.calls); n > 0 && s.calls[n-1].Call == call {
		s.calls[n-1].ID = e.Reminder()
		s.calls[n-1].Count++
		return
	}
	if len(s.calls) >= 2*mostDone {
		s.calls = slices.Clone(s.calls[mostDone:])
	}
	s.calls = append(s.calls, Done{Call: call, Kind: e.Kind, ID: e.Reminder(), Count: 1})
}

// Participant is an agent as which a session takes part in the mesh.
type Participant struct {
	Agent   string `msgpack:"ag"`
	Pane    string `msgpack:"pn,omitempty"` // of its terminal, to be woken (SPEC 12.5)
	Session string `msgpack:"se,omitempty"` // that checked in
}

// mostParticipants bounds how many are remembered.
const mostParticipants = 100

// checkIn makes a session an agent's, the last one. The agent that the session was before is remembered no more, unless another
// session is it.
func (s *State) checkIn(p Participant) {
	s.Agents = slices.DeleteFunc(slices.Clone(s.Agents), func(o Participant) bool { return o.Agent == p.Agent || o.Session == p.Session })
	if s.Agents = append(s.Agents, p); len(s.Agents) > mostParticipants {
		s.Agents = s.Agents[1:]
	}
}

// Participant is the agent that checked in last; false: none did.
func (s *State) Participant() (Participant, bool) {
	if len(s.Agents) == 0 {
		return Participant{}, false
	}
	return s.Agents[len(s.Agents)-1], true
}

// SessionOf is the session that checked in as an agent; empty: none did.
func (s *State) SessionOf(agent string) string {
	i := slices.IndexFunc(s.Agents, func(p Participant) bool { return p.Agent == agent })
	if i < 0 {
		return ""
	}
	return s.Agents[i].Session
}
