package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

const (
	meshLockPatience = 20 * time.Second       // how long one append waits for the others: fifty servers on a busy disk need over ten
	meshLookEvery    = 100 * time.Millisecond // how often a follower looks for new records (SPEC 12: within 200 ms)
	meshKeep         = 7 * 24 * time.Hour     // how long the mesh's history is kept
)

// Mesh is a mesh of agents on one machine: a journal in a folder that many processes share. Each append takes the lock, reads
// what others appended, mends what one that was killed left behind, and writes. Its methods may be called from any goroutine.
type Mesh struct {
	dir string
	log *slog.Logger

	mu    sync.Mutex
	state *projection.Mesh
	id    journal.ID // of the journal that state was read from
	stop  chan struct{}
	seen  string // how the folder looked when it was last read to its end
	said  string // of damage, last
}

// NewMesh is the mesh in dir. Nothing is made before the first append.
func NewMesh(dir string, log *slog.Logger) *Mesh {
	return &Mesh{dir: filepath.Join(dir, "journal"), log: log, state: projection.NewMesh(), stop: make(chan struct{})}
}

// Close ends all waiting for the mesh's lock. Call it once.
func (m *Mesh) Close() { close(m.stop) }

// Read calls f with the mesh as it is now. f must not keep it.
func (m *Mesh) Read(f func(*projection.Mesh)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.catchUp(); err != nil {
		return err
	}
	f(m.state)
	return nil
}

// Append has decide look at the mesh as it is, and appends what it returns, in one piece with regard to all other
// processes. An error of decide's appends nothing.
func (m *Mesh) Append(decide func(*projection.Mesh, int64) ([]journal.Body, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(m.dir), 0o700); err != nil {
		return fmt.Errorf("make the mesh's folder: %w", err)
	}
	lock, err := m.lock()
	if err != nil {
		return err
	}
	err = m.append(decide)
	return errors.Join(err, lock.Unlock())
}

// lock waits for the mesh's lock.
func (m *Mesh) lock() (*journal.Lock, error) {
	for deadline := time.Now().Add(meshLockPatience); ; {
		lock, err := journal.TryLock(m.dir)
		if err == nil {
			return lock, nil
		}
		if !errors.Is(err, journal.ErrHeld) {
			return nil, fmt.Errorf("lock the mesh: %w", err)
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the mesh %s is busy: %w", m.dir, err)
		}
		select {
		case <-m.stop:
			return nil, errors.New("the server is ending")
		case <-time.After(time.Duration(1+rand.IntN(8)) * time.Millisecond):
		}
	}
}

func (m *Mesh) append(decide func(*projection.Mesh, int64) ([]journal.Body, error)) error {
	now := time.Now().UnixMilli()
	log, err := m.open(now)
	if err != nil {
		return err
	}
	now = max(now, m.state.TimeMs) // clocks of one machine: a step back never reorders
	bodies, err := decide(m.state, now)
	if err == nil && m.state.SnapshotDue() {
		var parts []journal.Body
		if parts, err = m.state.Snapshot(); err == nil {
			bodies = append(bodies, parts...)
		}
	}
	if err != nil || len(bodies) == 0 {
		return errors.Join(err, log.Close())
	}
	events := make([]journal.Event, len(bodies))
	for i, b := range bodies {
		events[i] = journal.Event{Index: log.Last() + 1 + uint64(i), Time: now, Kind: b.Kind(), Body: b}
	}
	if err := errors.Join(log.Append(events), log.Close()); err != nil {
		return fmt.Errorf("write to the mesh: %w", err)
	}
	for _, e := range events {
		m.state.Apply(e)
	}
	if s, ok := events[len(events)-1].Body.(*journal.Snapshot); ok {
		if _, err := journal.Retain(m.dir, now-meshKeep.Milliseconds(), events[len(events)-1].Index-uint64(s.Part)); err != nil {
			m.log.Warn("old segments of the mesh could not be removed", "err", err)
		}
	}
	return nil
}

// open brings the journal into a state that can be appended to, and m.state up to its end. The lock is held.
func (m *Mesh) open(now int64) (*journal.Log, error) {
	options := journal.LogOptions{Log: m.log}
	switch found, err := recordsIn(m.dir); {
	case err != nil:
		return nil, err
	case found == noRecord:
		aside, err := moveEmptyAside(m.dir)
		if err != nil {
			return nil, err
		}
		m.log.Error("the mesh lost its records: it begins anew", "journal", m.dir, "copy", aside.Copy)
		fallthrough
	case found == nothing:
		m.state = projection.NewMesh()
		log, err := journal.Create(m.dir, journal.Begin{ID: journal.NewID().String(), Major: journal.FirstMajor, Minor: journal.Minor}, now, options)
		if err == nil {
			m.state.Index, m.id = log.Last(), log.ID()
		}
		return log, err
	}
	if err := finishRewrite(m.dir); err != nil {
		return nil, err
	}
	repairs, err := repair(m.dir, journal.ID{}, now, m.log)
	if err != nil {
		return nil, err
	}
	if len(repairs) > 0 {
		m.state = projection.NewMesh() // indices may mean something else now
	}
	m.seen = ""
	if err := m.catchUp(); err != nil {
		return nil, err
	}
	return journal.OpenLog(m.dir, m.id, m.state.Index, options)
}

// catchUp reads what was appended since the last time. A record that another process is just writing is left for later.
func (m *Mesh) catchUp() error {
	looks, err := m.looks()
	if err != nil {
		return err
	}
	if looks == "" {
		m.state = projection.NewMesh()
		return nil
	}
	if looks == m.seen {
		return nil
	}
	starts, err := journal.Starts(m.dir)
	if err != nil {
		return err
	}
	scanner, err := journal.NewScanner(m.dir)
	if err != nil {
		return err
	}
	if scanner.ID() != m.id { // somebody removed the folder, and another server has begun it anew
		m.state, m.id = projection.NewMesh(), scanner.ID()
	}
	next := m.state.Index + 1
	if len(starts) > 0 && starts[0] > next || m.state.Index == 0 {
		if next, err = scanner.FindSnapshot(); err != nil {
			return err
		}
		m.state = projection.NewMesh()
	}
	scanner.Seek(next)
	var parts []journal.Event
	for scanner.Next() {
		e := scanner.Event()
		if parts = nextPart(parts, e); complete(parts) {
			if loaded, err := projection.LoadMesh(parts); err == nil && m.state.Index+1 != parts[0].Index {
				m.state = loaded
			}
		}
		if e.Index > m.state.Index {
			m.state.Apply(e)
		}
	}
	m.seen = looks
	m.sayDamage(scanner.Damage())
	return scanner.Err()
}

// sayDamage logs damage that the next append repairs, once. A torn end may be another process's append under way.
func (m *Mesh) sayDamage(all []journal.Damage) {
	if len(all) == 0 || all[0].Tail && m.state.Index > 0 {
		return
	}
	if said := all[0].Text(); said != m.said {
		m.said = said
		m.log.Warn("the mesh is damaged: what is whole of it is shown, and the next call of an agent repairs it", "damage", said, "journal", m.dir)
	}
}

// looks is how the folder's newest segment looks, empty where there is no mesh yet.
func (m *Mesh) looks() (string, error) {
	newest, err := journal.Newest(m.dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && newest == "" {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(newest)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(newest, info.Size(), info.ModTime().UnixNano()), nil
}

// Follow calls changed whenever the mesh has grown, until stop is closed.
func (m *Mesh) Follow(stop <-chan struct{}, changed func()) {
	ticker := time.NewTicker(meshLookEvery)
	defer ticker.Stop()
	last := ""
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		looks, err := m.looks()
		if err == nil && looks != last {
			last = looks
			changed()
		}
	}
}
