package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

// Fault is one thing that [Verify] found wrong, with its place.
type Fault struct {
	File   string          `json:"file"`
	Damage *journal.Damage `json:"damage,omitempty"` // where the file is a segment
	Text   string          `json:"text"`
}

func (f Fault) String() string { return f.File + ": " + f.Text }

// Verification is what [Verify] found.
type Verification struct {
	Journal   string      `json:"journal"`
	ID        string      `json:"id"`
	Segments  int         `json:"segments"`
	Records   uint64      `json:"records"`
	First     uint64      `json:"first"` // index of the first record that is there
	Last      uint64      `json:"last"`
	Snapshots int         `json:"snapshots"`
	Holes     [][2]uint64 `json:"holes"` // runs of indices that an earlier repair marked as lost
	Faults    []Fault     `json:"faults"`
}

// TailSettles is how long a damaged end is given to become whole: it may be an append that is under way.
const TailSettles = 300 * time.Millisecond

var tailSettles = TailSettles // 0 in tests

// Verify checks the journal and the views against it, strictly read-only, also while a server runs on them: framing, CRC,
// order, that every snapshot is what the events before it led to, and that each view shows what the journal projected at
// the index that the view names. An error says that the journal cannot be read at all. step is as in [ReadPast].
func Verify(files Files, step func(index uint64)) (*Verification, error) {
	for attempt := 0; ; attempt++ {
		v, err := verify(files, step)
		if err != nil || attempt > 0 || !v.tailFault() {
			return v, err
		}
		time.Sleep(tailSettles)
	}
}

// tailFault says whether the journal's end is damaged.
func (v *Verification) tailFault() bool {
	return slices.ContainsFunc(v.Faults, func(f Fault) bool { return f.Damage != nil && f.Damage.Tail })
}

func verify(files Files, step func(uint64)) (*Verification, error) {
	// The views are read first: the journal is then never behind them.
	views := shownViews{files: files, config: readConfig(newView(files.Config)), reminders: readReminders(newView(files.Reminders), 0, anyZone)}
	starts, err := journal.Starts(files.Journal)
	if err != nil {
		return nil, err
	}
	hint, _ := journal.ParseID(views.config.said.Ref.ID)
	scanner, err := journal.NewScannerWithID(files.Journal, hint)
	if err != nil {
		return nil, err
	}
	v := &Verification{Journal: files.Journal, ID: scanner.ID().String(), Segments: len(starts), Holes: [][2]uint64{}, Faults: []Fault{}}
	var f folding
	for scanner.Next() {
		e := scanner.Event()
		v.count(e)
		v.checkSnapshot(&f, e)
		if f.state != nil {
			views.compare(f.state)
		}
		if step != nil {
			step(e.Index)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	for _, d := range scanner.Damage() {
		v.Faults = append(v.Faults, Fault{File: filepath.Join(files.Journal, d.Segment), Damage: &d, Text: d.Text()})
	}
	switch {
	case v.Records == 0 && len(v.Faults) == 0:
		v.Faults = append(v.Faults, Fault{File: files.Journal, Text: "it holds no record"})
	case f.state == nil && v.Records > 0:
		v.Faults = append(v.Faults, Fault{File: files.Journal, Text: fmt.Sprintf(
			"it begins with record %d, and neither what was before it nor a snapshot of that is there: the state cannot be known", v.First)})
	case f.state != nil && len(v.Faults) == 0: // what the views show and a damaged journal does not is the journal's fault
		v.Faults = append(v.Faults, views.faults(f.state, v.ID)...)
	}
	if err := journal.CheckFolder(files.Journal, scanner.ID()); err != nil {
		v.Faults = append(v.Faults, Fault{File: files.Journal, Text: err.Error()})
	}
	return v, nil
}

func (v *Verification) count(e journal.Event) {
	if v.Records++; v.First == 0 {
		v.First = e.Index
	}
	v.Last = e.Index
	if e.Body == nil && e.Kind.Known() {
		v.Faults = append(v.Faults, Fault{File: v.Journal, Text: fmt.Sprintf("record %d, of the kind %s, cannot be decoded", e.Index, e.Kind)})
	}
	if e.Kind != journal.KindHole {
		return
	}
	if n := len(v.Holes); n > 0 && v.Holes[n-1][1]+1 == e.Index {
		v.Holes[n-1][1] = e.Index
		return
	}
	v.Holes = append(v.Holes, [2]uint64{e.Index, e.Index})
}

// checkSnapshot folds the event, and holds a snapshot that it completes against the state that the events led to.
func (v *Verification) checkSnapshot(f *folding, e journal.Event) {
	known := f.state != nil
	snapshot, err := f.take(e)
	switch {
	case err != nil:
		v.Faults = append(v.Faults, Fault{File: v.Journal, Text: fmt.Sprintf("record %d: the snapshot cannot be read: %v", e.Index, err)})
	case snapshot != nil:
		v.Snapshots++
		if known && !snapshot.Same(f.state) && len(v.Holes) == 0 { // behind a hole the snapshot knows more than the events
			v.Faults = append(v.Faults, Fault{File: v.Journal, Text: fmt.Sprintf("the snapshot that ends with record %d is not what the events before it led to", e.Index)})
		}
	}
}

// shownViews are the views as they are on disk, and what the journal says of them.
type shownViews struct {
	files          Files
	config         configFile
	reminders      remindersFile
	configChecked  bool // the journal passed the index that the view names
	configFaults   []string
	emptyThen      bool // there were no reminders at the index that the config view names
	listChecked    bool
	listWasDiffers bool
}

// compare holds the views against the state at the indices that they name.
func (s *shownViews) compare(state *projection.State) {
	if s.config.err == nil && state.Index == s.config.said.Ref.Index {
		s.configChecked, s.emptyThen = true, state.Len() == 0
		s.configFaults = s.config.said.Differences(state.Config)
	}
	if s.reminders.err == nil && state.Index == s.reminders.said.Index {
		s.listChecked = true
		s.listWasDiffers = s.reminders.digest != state.RemindersDigest()
	}
}

// faults are what is wrong with the views, once the journal was read to its end.
func (s *shownViews) faults(end *projection.State, id string) (all []Fault) {
	fault := func(file, format string, v ...any) {
		all = append(all, Fault{File: file, Text: fmt.Sprintf(format, v...)})
	}
	const edited = ": somebody edited it, and no server has taken that in yet"
	switch c := s.config; {
	case errors.Is(c.err, fs.ErrNotExist):
		fault(s.files.Config, "it is missing; a server rebuilds it")
	case c.err != nil:
		fault(s.files.Config, "it cannot be used: %v", c.err)
	case c.said.Ref.ID != "" && c.said.Ref.ID != id:
		fault(s.files.Config, "it belongs to another journal, %s", c.said.Ref.ID)
	case c.said.Ref.Index > end.Index:
		fault(s.files.Config, "it shows record %d, and the journal ends with %d: answered events are gone", c.said.Ref.Index, end.Index)
	default:
		differences := append(slices.Clone(c.said.Problems), s.configFaults...)
		if !s.configChecked {
			differences = append(differences, c.said.Differences(end.Config)...)
		}
		for _, d := range differences {
			fault(s.files.Config, "%s%s", d, edited)
		}
	}
	switch r := s.reminders; {
	case errors.Is(r.err, fs.ErrNotExist):
		fault(s.files.Reminders, "it is missing; a server rebuilds it")
	case r.err != nil:
		fault(s.files.Reminders, "it cannot be used: %v", r.err)
	case len(r.said.Journals) > 0 && !slices.Contains(r.said.Journals, projection.ViewRef{ID: id}.Short().ID):
		fault(s.files.Reminders, "it belongs to another journal, %s", r.said.Journals[0])
	case r.partial():
		fault(s.files.Reminders, "it is usable in part: %s", listed(r.said.Problems))
	case r.said.Index > end.Index:
		fault(s.files.Reminders, "it shows record %d, and the journal ends with %d: answered events are gone", r.said.Index, end.Index)
	case s.listChecked && s.listWasDiffers:
		fault(s.files.Reminders, "it does not show the reminders that the journal held at record %d, which it names%s", r.said.Index, edited)
	case !s.listChecked && !(len(r.said.Reminders) == 0 && s.emptyThen) && r.digest != end.RemindersDigest():
		fault(s.files.Reminders, "it does not show the reminders that the journal holds%s", edited)
	}
	return all
}
