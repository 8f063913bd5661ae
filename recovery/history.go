package recovery

import (
	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

// Past is what a whole journal says: what fired when, and the state that it led to.
type Past struct {
	History *projection.History
	State   *projection.State // nil: neither the beginning nor a snapshot is there
	Zone    string            // of the agent, as in [ZoneOf]
	Damage  []journal.Damage
}

// ReadPast reads the journal in dir from its first record on, strictly read-only. step, if not nil, is called after each
// record, with its index.
func ReadPast(dir string, step func(index uint64)) (*Past, error) {
	scanner, err := journal.NewScanner(dir)
	if err != nil {
		return nil, err
	}
	p := &Past{History: projection.NewHistory()}
	var f folding
	for scanner.Next() {
		e := scanner.Event()
		begun := f.state != nil
		_, _ = f.take(e) // a snapshot that cannot be read matters only where nothing else tells the state: then there is none
		if !begun && f.state != nil {
			p.History.Begin(f.state)
		}
		p.History.Apply(e)
		if start, ok := e.Body.(*journal.Start); ok && !projection.ByCommand(start) {
			p.Zone = start.Zone
		}
		if step != nil {
			step(e.Index)
		}
	}
	p.State, p.Damage = f.state, scanner.Damage()
	return p, scanner.Err()
}

// ZoneOf is the agent's time zone as the newest start of a server says it, empty where there is none. It reads from the end
// backwards. That of a command may be its terminal's.
func ZoneOf(dir string) (string, error) {
	starts, err := journal.Starts(dir)
	if err != nil {
		return "", err
	}
	for i := len(starts) - 1; i >= 0; i-- {
		scanner, err := journal.NewScanner(dir)
		if err != nil {
			return "", err
		}
		scanner.Seek(starts[i])
		zone := ""
		for scanner.Next() && (i+1 == len(starts) || scanner.Event().Index < starts[i+1]) {
			if start, ok := scanner.Event().Body.(*journal.Start); ok && !projection.ByCommand(start) {
				zone = start.Zone
			}
		}
		if zone != "" {
			return zone, nil
		}
	}
	return "", nil
}

// RecentWakes is the history of the journal in dir read from its end backwards, as far as enough says that it has to be:
// it is asked with the history of ever more of the journal, and that of all of it is the last. Strictly read-only.
func RecentWakes(dir string, enough func(*projection.History) bool) (*projection.History, error) {
	starts, err := journal.Starts(dir)
	if err != nil {
		return nil, err
	}
	for segments := 1; ; segments *= 4 {
		from := max(0, len(starts)-segments)
		h, err := readFrom(dir, starts, from)
		if err != nil || from == 0 || enough(h) {
			return h, err
		}
	}
}

func readFrom(dir string, starts []uint64, from int) (*projection.History, error) {
	scanner, err := journal.NewScanner(dir)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		scanner.Seek(starts[from])
	}
	h := projection.NewHistory()
	for scanner.Next() {
		h.Apply(scanner.Event())
	}
	return h, scanner.Err()
}
