package projection

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"heartbeat-mcpl/journal"
)

// Limits of a mesh.
const (
	MostInbox      = 1000                                  // unread messages of one agent
	messageLife    = int64(7 * 24 * time.Hour / 1_000_000) // how long a message waits, in milliseconds
	forgottenAfter = int64(24 * time.Hour / 1_000_000)     // how long after it went stale an agent is forgotten
)

// Agent is one agent in the mesh. Times are Unix milliseconds.
type Agent struct {
	ID       string   `msgpack:"id"`
	Role     string   `msgpack:"ro,omitempty"`
	Repo     string   `msgpack:"re,omitempty"`
	Caps     []string `msgpack:"ca,omitempty"`
	Status   string   `msgpack:"st,omitempty"`
	Home     string   `msgpack:"ho,omitempty"` // tells the sessions of one server from those of others
	StatusMs int64    `msgpack:"sm"`           // since when it has this status
	SinceMs  int64    `msgpack:"si"`           // when it checked in
	LastMs   int64    `msgpack:"la"`           // when it was heard of
	TTLMs    int64    `msgpack:"tt"`
}

// StaleMs is when the agent leaves the list by itself (SPEC 12.2).
func (a *Agent) StaleMs() int64 { return a.LastMs + a.TTLMs }

// Stale says whether the agent has gone silent for longer than it may.
func (a *Agent) Stale(now int64) bool { return now > a.StaleMs() }

// Letter is a message in somebody's inbox.
type Letter struct {
	ID     string `msgpack:"id"`
	From   string `msgpack:"fr"`
	Text   string `msgpack:"tx"`
	SentMs int64  `msgpack:"ts"`
}

// Mesh is the fold of a mesh's journal: who is here, and what waits for whom. It is pure, as [State] is.
type Mesh struct {
	Index  uint64 // of the last event applied
	TimeMs int64

	agents map[string]*Agent
	inbox  map[string][]Letter
	since  int // events since the last snapshot
}

// NewMesh is the mesh of an empty journal.
func NewMesh() *Mesh { return &Mesh{agents: map[string]*Agent{}, inbox: map[string][]Letter{}} }

// Apply folds one event. It never fails, as [State.Apply].
func (m *Mesh) Apply(e journal.Event) {
	m.Index, m.TimeMs = e.Index, e.Time
	m.since++
	switch b := e.Body.(type) {
	case *journal.Present:
		m.applyPresent(b, e.Time)
	case *journal.Touch:
		if a := m.agents[b.Agent]; a != nil && !a.Stale(e.Time) {
			a.LastMs = max(a.LastMs, e.Time)
		}
	case *journal.Message:
		for _, to := range b.To {
			if a := m.agents[to]; a != nil && !a.Stale(e.Time) && len(m.inbox[to]) < MostInbox {
				m.inbox[to] = append(m.inbox[to], Letter{b.ID, b.From, b.Text, e.Time})
			}
		}
	case *journal.Read:
		m.inbox[b.Agent] = slices.DeleteFunc(m.inbox[b.Agent], func(l Letter) bool { return slices.Contains(b.IDs, l.ID) })
	case *journal.Snapshot:
		if b.Part+1 == b.Parts {
			m.since = 0
		}
	}
}

// applyPresent renews an agent that is here, and else begins its presence anew: with an empty inbox (SPEC 12.4).
func (m *Mesh) applyPresent(b *journal.Present, now int64) {
	a := m.agents[b.Agent]
	if a == nil || a.Stale(now) {
		m.forget(now)
		a = &Agent{ID: b.Agent, SinceMs: now, StatusMs: now}
		m.agents[b.Agent] = a
		delete(m.inbox, b.Agent)
	}
	if a.Status != b.Status {
		a.StatusMs = now
	}
	a.Home = b.Home
	a.Role, a.Repo, a.Caps, a.Status, a.TTLMs, a.LastMs = b.Role, b.Repo, b.Caps, b.Status, b.TTLMs, now
}

// forget drops agents that have been gone for long, and messages that nobody fetched.
func (m *Mesh) forget(now int64) {
	maps.DeleteFunc(m.agents, func(id string, a *Agent) bool {
		gone := now > a.StaleMs()+forgottenAfter
		if gone {
			delete(m.inbox, id)
		}
		return gone
	})
	for id, letters := range m.inbox {
		m.inbox[id] = slices.DeleteFunc(letters, func(l Letter) bool { return now > l.SentMs+messageLife })
	}
}

// Waits says whether a message waits for an agent.
func (m *Mesh) Waits(agent, message string) bool {
	return slices.ContainsFunc(m.inbox[agent], func(l Letter) bool { return l.ID == message })
}

// Agent is the agent of that name if it is here.
func (m *Mesh) Agent(id string, now int64) (Agent, bool) {
	a := m.agents[id]
	if a == nil || a.Stale(now) {
		return Agent{}, false
	}
	return *a, true
}

// Agents are all that are here, by name.
func (m *Mesh) Agents(now int64) []Agent {
	all := []Agent{}
	for _, a := range m.agents {
		if !a.Stale(now) {
			all = append(all, *a)
		}
	}
	slices.SortFunc(all, func(a, b Agent) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Inbox are the messages that wait for an agent, the oldest first.
func (m *Mesh) Inbox(id string) []Letter { return slices.Clone(m.inbox[id]) }

const (
	meshSnapshotEvery = 5000    // events
	meshSnapshotPart  = 1 << 20 // bytes
)

// SnapshotDue says whether a snapshot should be appended now.
func (m *Mesh) SnapshotDue() bool { return m.since >= meshSnapshotEvery }

type meshData struct {
	Agents []Agent           `msgpack:"a"`
	Inbox  ordered[[]Letter] `msgpack:"i"`
}

// Snapshot is the whole mesh as the bodies of consecutive records.
func (m *Mesh) Snapshot() ([]journal.Body, error) {
	d := meshData{Inbox: m.inbox}
	for _, id := range slices.Sorted(maps.Keys(m.agents)) {
		d.Agents = append(d.Agents, *m.agents[id])
	}
	data, err := marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode the mesh: %w", err)
	}
	chunks := slices.Collect(slices.Chunk(data, meshSnapshotPart))
	bodies := make([]journal.Body, len(chunks))
	for i, chunk := range chunks {
		bodies[i] = &journal.Snapshot{Part: uint32(i), Parts: uint32(len(chunks)), Data: chunk}
	}
	return bodies, nil
}

// LoadMesh is the mesh that the events, the parts of one snapshot in order, hold.
func LoadMesh(parts []journal.Event) (*Mesh, error) {
	m := NewMesh()
	var data []byte
	for i, e := range parts {
		b, ok := e.Body.(*journal.Snapshot)
		if !ok || int(b.Part) != i || int(b.Parts) != len(parts) {
			return nil, fmt.Errorf("event %d: %w", e.Index, errSnapshot)
		}
		data = append(data, b.Data...)
		m.Index, m.TimeMs = e.Index, e.Time
	}
	var d meshData
	if err := msgpack.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("decode the mesh's snapshot: %w", err)
	}
	for i := range d.Agents {
		m.agents[d.Agents[i].ID] = &d.Agents[i]
	}
	for id, letters := range d.Inbox {
		m.inbox[id] = letters
	}
	return m, nil
}
