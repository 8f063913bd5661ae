package agents

import (
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/recovery"
)

// Local is the mesh of one machine: a journal that its servers share.
type Local struct{ mesh *recovery.Mesh }

// NewLocal is the mesh in a shared folder.
func NewLocal(m *recovery.Mesh) *Local { return &Local{m} }

// CheckIn is [Mesh.CheckIn].
func (l *Local) CheckIn(a projection.Agent) (here projection.Agent, err error) {
	err = l.mesh.Append(func(*projection.Mesh, int64) ([]journal.Body, error) {
		return []journal.Body{&journal.Present{Agent: a.ID, Role: a.Role, Repo: a.Repo, Caps: a.Caps, Status: a.Status, TTLMs: a.TTLMs, Home: a.Home}}, nil
	})
	if err == nil {
		err = l.mesh.Read(func(m *projection.Mesh) { here, _ = m.Agent(a.ID, m.TimeMs) })
	}
	return here, err
}

// Touch is [Mesh.Touch].
func (l *Local) Touch(agent string) error {
	return l.mesh.Append(func(m *projection.Mesh, now int64) ([]journal.Body, error) {
		if _, here := m.Agent(agent, now); !here {
			return nil, errStale(agent)
		}
		return []journal.Body{&journal.Touch{Agent: agent}}, nil
	})
}

// Agents is [Mesh.Agents].
func (l *Local) Agents() (all []projection.Agent, err error) {
	err = l.mesh.Read(func(m *projection.Mesh) { all = m.Agents(time.Now().UnixMilli()) })
	return all, err
}

// Send is [Mesh.Send].
func (l *Local) Send(letter projection.Letter, to []string) error {
	return l.mesh.Append(func(m *projection.Mesh, now int64) ([]journal.Body, error) {
		for _, name := range to {
			if _, here := m.Agent(name, now); !here {
				return nil, errLeft(name)
			}
			if m.Waits(name, letter.ID) {
				return nil, nil // it was sent before
			}
			if err := roomFor(name, len(m.Inbox(name))); err != nil {
				return nil, err
			}
		}
		return []journal.Body{&journal.Message{ID: letter.ID, From: letter.From, To: to, Text: letter.Text}}, nil
	})
}

// Inbox is [Mesh.Inbox].
func (l *Local) Inbox(agent string) (letters []projection.Letter, err error) {
	err = l.mesh.Read(func(m *projection.Mesh) { letters = m.Inbox(agent) })
	return letters, err
}

// Waiting is [Mesh.Waiting].
func (l *Local) Waiting(agent string) (int, error) {
	letters, err := l.Inbox(agent)
	return len(letters), err
}

// Acknowledge is [Mesh.Acknowledge].
func (l *Local) Acknowledge(agent string, ids []string) (known []string, err error) {
	err = l.mesh.Append(func(m *projection.Mesh, _ int64) ([]journal.Body, error) {
		wanted := map[string]bool{}
		for _, id := range ids {
			wanted[id] = true
		}
		for _, letter := range m.Inbox(agent) {
			if wanted[letter.ID] {
				known = append(known, letter.ID)
			}
		}
		if len(known) == 0 {
			return nil, nil
		}
		return []journal.Body{&journal.Read{Agent: agent, IDs: known}}, nil
	})
	if err != nil {
		return nil, err
	}
	return known, nil
}

// Follow is [Mesh.Follow].
func (l *Local) Follow(_ string, stop <-chan struct{}, changed func()) { l.mesh.Follow(stop, changed) }

// Serve is [Mesh.Serve].
func (l *Local) Serve(agent string) (end func()) { return l.mesh.Serve(agent) }

// Ended is [Mesh.Ended].
func (l *Local) Ended(agent string) (ended bool, atMs int64) { return l.mesh.Ended(agent) }

// Close is [Mesh.Close].
func (l *Local) Close() error {
	l.mesh.Close()
	return nil
}
