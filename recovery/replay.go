package recovery

import (
	"errors"
	"fmt"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

// replayed is what a replay came to.
type replayed struct {
	state   *projection.State
	scanner *journal.Scanner
	whole   bool // false: neither the beginning nor a snapshot was left, the state is of what the rest says
}

// replay folds the journal of a scanner that has read nothing yet, up to the event at index to (0: to its end). It starts at
// the newest complete snapshot that is not after to, so that its length does not grow with the journal's age (SPEC 9.4). visit,
// if not nil, is called with the state after each event that was folded.
func replay(scanner *journal.Scanner, to uint64, visit func(*projection.State, journal.Event)) (r replayed, err error) {
	from, err := scanner.FindSnapshot()
	if err != nil {
		return r, err
	}
	if to == 0 || from <= to {
		scanner.Seek(from)
	}
	r.scanner = scanner
	r.state, err = fold(nil, scanner, to, visit)
	if r.whole = r.state != nil; err != nil || r.whole {
		return r, err
	}
	if r.scanner, err = scanner.Again(); err != nil {
		return r, err
	}
	r.state, err = fold(projection.New(), r.scanner, to, visit)
	return r, err
}

// replayDir replays the journal in dir, strictly read-only; hint is the identity to try where it has lost its own.
func replayDir(dir string, hint journal.ID, to uint64, visit func(*projection.State, journal.Event)) (replayed, error) {
	scanner, err := journal.NewScannerWithID(dir, hint)
	if err != nil {
		return replayed{}, err
	}
	return replay(scanner, to, visit)
}

// fold folds what scanner reads onto state, which lacks what was before. A nil one stays nil until the journal's first record or a
// complete snapshot is met.
func fold(state *projection.State, scanner *journal.Scanner, to uint64, visit func(*projection.State, journal.Event)) (*projection.State, error) {
	f := folding{state: state, lacks: state != nil}
	for scanner.Next() {
		e := scanner.Event()
		if to > 0 && e.Index > to {
			break
		}
		if _, err := f.take(e); err != nil && f.state == nil {
			return nil, err
		}
		if visit != nil && f.state != nil {
			visit(f.state, e)
		}
	}
	return f.state, scanner.Err()
}

// folding makes the state out of a journal's records in order: from the first record on, or from the first whole snapshot
// where the first record is gone. The state is nil before that. Where records are missing, it is mended by the snapshots behind
// them, also by those of which only parts are left.
type folding struct {
	state *projection.State
	parts []journal.Event // of a snapshot that is not whole yet
	lacks bool            // the state lacks what records that are lost did
	last  uint64          // index of the record before; 0: none

	salvaged *projection.Reminder // the last one of the part that was salvaged last
	lastPart uint64               // index of that part
}

// take folds one event. It returns the state that the event completes a snapshot of, nil for none.
func (f *folding) take(e journal.Event) (snapshot *projection.State, err error) {
	if f.parts = nextPart(f.parts, e); complete(f.parts) {
		snapshot, err = projection.LoadSnapshot(f.parts)
		f.parts = nil
	}
	f.lacks = f.lacks || e.Kind == journal.KindHole || f.last > 0 && e.Index != f.last+1
	f.last = e.Index
	switch {
	case snapshot != nil && (f.lacks || f.state == nil):
		f.state, f.lacks = snapshot, false
		return snapshot, err
	case f.state == nil && e.Index == 1:
		f.state = projection.New()
	case f.state == nil:
		return snapshot, err
	}
	if part, is := e.Body.(*journal.Snapshot); is && f.lacks {
		if part.Part == 0 || e.Index != f.lastPart+1 {
			f.salvaged = nil
		}
		f.salvaged, f.lastPart = f.state.Salvage(part, f.salvaged), e.Index
	}
	f.state.Apply(e)
	return snapshot, err
}

// nextPart is the run of snapshot parts with e added, or begun anew by it.
func nextPart(parts []journal.Event, e journal.Event) []journal.Event {
	b, ok := e.Body.(*journal.Snapshot)
	switch {
	case !ok:
		return nil
	case b.Part == 0:
		return []journal.Event{e}
	case len(parts) == int(b.Part) && parts[len(parts)-1].Index+1 == e.Index:
		return append(parts, e)
	}
	return nil
}

func complete(parts []journal.Event) bool {
	if len(parts) == 0 {
		return false
	}
	b := parts[0].Body.(*journal.Snapshot)
	return len(parts) == int(b.Parts)
}

// StateAt is the state that the journal in dir projected at index (0: at its end), read without taking anything. An
// error wraps [ErrForgotten] where the records that it would be made of are gone.
func StateAt(dir string, index uint64) (*projection.State, error) {
	r, err := replayDir(dir, journal.ID{}, index, nil)
	if err == nil && !r.whole {
		err = fmt.Errorf("the state at record %d: %w", index, ErrForgotten)
	}
	return r.state, err
}

// ErrForgotten says that a state cannot be known.
var ErrForgotten = errors.New("the journal no longer holds its beginning or a snapshot from before")

// Peek is the state that the journal in dir holds, read without taking anything (SPEC 1.5: a server that waits for the
// journal answers from it).
func Peek(dir string) (*projection.State, error) {
	r, err := replayDir(dir, journal.ID{}, 0, nil)
	return r.state, err
}

// stateAt is what the journal on disk projected at index; the state of an empty journal for 0, and the current state
// where the journal cannot say.
func (s *Store) stateAt(index uint64) *projection.State {
	if index == 0 && s.first {
		return projection.New()
	}
	if s.id == (journal.ID{}) || index == 0 || index >= s.state.Index {
		return s.state
	}
	r, err := replayDir(s.o.Journal, s.id, index, nil)
	if err != nil || r.state.Index != index {
		s.o.Log.Warn("the journal could not be read back; the edited file is compared with the current state", "index", index, "err", err)
		return s.state
	}
	return r.state
}
