package journal

// FindSnapshot is the index of the first part of the newest complete snapshot, 0 when there is none. It reads segments from
// the newest backwards, so that its cost does not grow with the journal's age (SPEC 9.4), and leaves the scan where it is.
func (s *Scanner) FindSnapshot() (uint64, error) {
	var later []part
	for i := len(s.firsts) - 1; i >= 0; i-- {
		one := &Scanner{dir: s.dir, id: s.id, firsts: s.firsts[i : i+1]}
		parts, err := one.parts()
		if err != nil {
			return 0, err
		}
		later = append(parts, later...)
		if found := newestWhole(later); found > 0 {
			return found, nil
		}
	}
	return 0, nil
}

// part is where a part of a snapshot stands, and which it is.
type part struct {
	index uint64
	Part  uint32 `msgpack:"p"`
	Parts uint32 `msgpack:"ps"`
}

// parts are all parts of snapshots, none of them decoded as a whole.
func (s *Scanner) parts() (all []part, err error) {
	for s.advance() {
		p := part{index: s.event.Index}
		if s.event.Kind == KindSnapshot && decodeBody(s.event.Raw, &p) {
			all = append(all, p)
		}
	}
	return all, s.err
}

// newestWhole is the index of the first part of the newest snapshot all of whose parts are there; 0: none.
func newestWhole(parts []part) (found uint64) {
	for begin, first := range parts {
		run := parts[begin:]
		if n := uint64(first.Parts); n > 0 && n <= uint64(len(run)) && isRun(run[:n]) {
			found = first.index
		}
	}
	return found
}

// isRun says whether parts begin with the first one and stand one behind the other.
func isRun(parts []part) bool {
	for i, p := range parts {
		if int(p.Part) != i || p.index != parts[0].index+uint64(i) {
			return false
		}
	}
	return true
}
