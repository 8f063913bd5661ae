package recovery

import (
	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

// replay folds the journal in dir up to the event at index to (0: to its end), strictly read-only. It starts at the
// newest complete snapshot that is not after to, so that its length does not grow with the journal's age (SPEC 9.4). visit, if not nil, is
// called with the state after each event that was folded.
func replay(dir string, hint journal.ID, to uint64, visit func(*projection.State)) (*projection.State, *journal.Scanner, error) {
	from, err := journal.FindSnapshot(dir, hint)
	if err != nil {
		return nil, nil, err
	}
	if to > 0 && from > to {
		from = 0
	}
	state, scanner, err := fold(dir, hint, from, to, visit)
	if err == nil && state == nil {
		// No start that holds the whole state is left: what the events say is all there is.
		state, scanner, err = foldOnto(projection.New(), dir, hint, to, visit)
	}
	return state, scanner, err
}

// fold replays from the record at index from. The state is nil when neither the journal's first record nor a complete
// snapshot was met.
func fold(dir string, hint journal.ID, from, to uint64, visit func(*projection.State)) (*projection.State, *journal.Scanner, error) {
	scanner, err := journal.NewScannerWithID(dir, hint)
	if err != nil {
		return nil, nil, err
	}
	if from > 0 {
		scanner.Seek(from)
	}
	var state *projection.State
	var parts []journal.Event
	for scanner.Next() {
		e := scanner.Event()
		if to > 0 && e.Index > to {
			break
		}
		switch {
		case state != nil:
			state.Apply(e)
		case e.Index == 1:
			state = projection.New()
			state.Apply(e)
		default:
			if parts = nextPart(parts, e); !complete(parts) {
				continue
			}
			if state, err = projection.LoadSnapshot(parts); err != nil {
				return nil, nil, err
			}
			parts = nil
		}
		if visit != nil {
			visit(state)
		}
	}
	return state, scanner, scanner.Err()
}

func foldOnto(state *projection.State, dir string, hint journal.ID, to uint64, visit func(*projection.State)) (*projection.State, *journal.Scanner, error) {
	scanner, err := journal.NewScannerWithID(dir, hint)
	if err != nil {
		return nil, nil, err
	}
	for scanner.Next() {
		e := scanner.Event()
		if to > 0 && e.Index > to {
			break
		}
		state.Apply(e)
		if visit != nil {
			visit(state)
		}
	}
	return state, scanner, scanner.Err()
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

// Peek is the state that the journal in dir holds, read without taking anything (SPEC 1.5: a server that waits for the
// journal answers from it).
func Peek(dir string) (*projection.State, error) {
	state, _, err := replay(dir, journal.ID{}, 0, nil)
	return state, err
}

// stateAt is what the journal on disk projected at index; the state of an empty journal for 0, and the current state
// where the journal cannot say.
func (s *Store) stateAt(index uint64) *projection.State {
	if index == 0 && s.first {
		return projection.New()
	}
	if s.log == nil || index == 0 || index >= s.state.Index {
		return s.state
	}
	state, _, err := replay(s.log.Dir(), s.log.ID(), index, nil)
	if err != nil || state.Index != index {
		s.o.Log.Warn("the journal could not be read back; the edited file is compared with the current state", "index", index, "err", err)
		return s.state
	}
	return state
}
