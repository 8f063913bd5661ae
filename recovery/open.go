package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

// RemindersName is the usual name of the reminders view, beside the config view.
const RemindersName = "heartbeat-reminders.json"

// DefaultJournalDir is the journal's folder for a config view: beside the file that it really is, so that two names for
// one file are one journal (SPEC 1.2).
func DefaultJournalDir(config string) string {
	return filepath.Join(filepath.Dir(resolve(config)), "heartbeat-journal")
}

// SameFile says whether two names lead to one file, be it there or not.
func SameFile(a, b string) bool { return resolve(a) == resolve(b) }

// Target is the file that a name leads to through symbolic links, be it there or not.
func Target(name string) string { return resolve(name) }

// Holds says whether a name leads to a file that a server keeps: a view, the journal, its lock or socket, or a copy of one of them.
func (f Files) Holds(name string) bool {
	path := resolve(name)
	for _, ours := range []string{resolve(f.Config), resolve(f.Reminders), resolve(f.Journal)} {
		rest, begins := strings.CutPrefix(path, ours)
		if begins && (rest == "" || strings.HasPrefix(rest, asideSuffix) || slices.Contains([]string{".lock", ".sock"}, rest)) {
			return true
		}
	}
	return Within(path, f.Journal) || Within(path, rewriteDir(f.Journal))
}

// Within says whether a name leads to a file in a folder, however deep.
func Within(name, dir string) bool {
	return strings.HasPrefix(resolve(name), resolve(dir)+string(filepath.Separator))
}

// Open opens the journal and the views in whatever state they are and brings them into step (SPEC 2, 3). The only errors
// are of [journal.ErrHeld]'s kind: another server holds the journal, nothing was changed; and, with MustJournal, why the
// journal cannot be used. Everything else that cannot be used is said in [Store.Notes] and the log, and worked around.
func Open(o Options) (*Store, error) {
	s := &Store{o: o, state: projection.New(), config: newView(o.Config), reminders: newView(o.Reminders)}
	var err error
	if s.lock, err = journal.TryLock(o.Journal); errors.Is(err, journal.ErrHeld) {
		return nil, err
	}
	s.config.sweep()
	s.reminders.sweep()
	now := o.Now().UnixMilli()
	config, reminders := s.readSaved(now)
	if err == nil {
		err = s.openJournal(now, &config, &reminders)
	}
	if err != nil && o.MustJournal {
		return nil, errors.Join(fmt.Errorf("the journal %s cannot be used: %w", o.Journal, err), s.letGo())
	}
	if err != nil {
		s.withoutJournal(now, err, config, reminders)
		return s, nil
	}
	s.Trim(now)
	_ = s.Commit(now) // said by NotSaved, and tried again
	_ = s.Flush(now)  // the same
	return s, nil
}

// A start waits this long for a view to be left alone before what is wrong with it counts: what can be told of it is to be in the
// first replies. It looks now and then whether the view is whole, so often at most.
const (
	startPatience = 500 * time.Millisecond
	savePoll      = 20 * time.Millisecond
	mostPolls     = 100
)

// readSaved reads the views once nobody seems to be saving one of them.
func (s *Store) readSaved(now int64) (configFile, remindersFile) {
	for polls := 0; ; polls++ {
		config, reminders := readConfig(s.config), loadReminders(s.reminders, now, s.o.Zone)
		if s.justTouched(s.reminders, startPatience) && reminders.seemsCut() {
			reminders.parse()
		}
		saving := s.halfSaved(s.config, startPatience, config.torn()) || s.halfSaved(s.reminders, startPatience, reminders.torn())
		if !saving || polls == mostPolls {
			return config, reminders
		}
		time.Sleep(savePoll)
	}
}

// openJournal repairs, replays and opens the journal, or makes a new one, and takes the views in. An error leaves the
// journal untouched as unusable.
func (s *Store) openJournal(now int64, config *configFile, reminders *remindersFile) error {
	dir := s.o.Journal
	if err := finishRewrite(dir); err != nil {
		return err
	}
	hint, _ := journal.ParseID(config.said.Ref.ID)
	switch records, err := recordsIn(dir); {
	case err != nil:
		return err
	case records == nothing:
		return s.firstStart(now, config, reminders)
	case records == noRecord:
		aside, err := moveEmptyAside(dir)
		if err != nil {
			return err
		}
		s.noteJournal(repairNote(dir, aside))
		return s.firstStart(now, config, reminders, aside)
	}
	r, was, err := readJournal(dir, hint, config, reminders)
	var repairs []*journal.SetAside
	if err != nil || len(r.scanner.Damage()) > 0 {
		if repairs, err = repair(dir, hint, now, s.o.Log); err != nil {
			return err
		}
		if r, was, err = readJournal(dir, hint, config, reminders); err != nil {
			return err
		}
	}
	state, scanner := r.state, r.scanner
	if d := scanner.Damage(); len(d) > 0 {
		return fmt.Errorf("the journal is still damaged after its repair (%s in %s)", d[0].Why, d[0].Segment)
	}
	if s.log, err = journal.OpenLog(dir, scanner.ID(), scanner.Last(), journal.LogOptions{Log: s.o.Log}); err != nil {
		return err
	}
	s.state, s.newest = state, state.TimeMs
	s.knowAs(scanner)
	s.state.Rewind(scanner.Last())
	s.fillLostIndices(now, config, reminders)
	s.started(now)
	for _, r := range repairs {
		s.noteJournal(repairNote(dir, r))
		s.Record(now, r)
	}
	if !r.whole {
		s.sayBeginningLost(now)
	}
	s.settleViews(now, config, reminders, was)
	if !r.whole {
		s.recordSnapshot(now) // from here on the state is whole again
	}
	return nil
}

// readJournal replays a journal, and finds out meanwhile which of its states the views show.
func readJournal(dir string, hint journal.ID, config *configFile, reminders *remindersFile) (r replayed, was *shownBefore, err error) {
	scanner, err := journal.NewScannerWithID(dir, hint)
	if err != nil {
		return r, nil, err
	}
	if begin := scanner.Begin(); begin != nil {
		namedBefore(begin, config, reminders)
	}
	was = newShownBefore(config, reminders)
	r, err = replay(scanner, 0, was.visit)
	return r, was, err
}

// sayBeginningLost notices that the oldest segments are gone without a snapshot that covers them, which no retention does.
func (s *Store) sayBeginningLost(now int64) {
	first, err := journal.First(s.o.Journal)
	if err != nil {
		first = "its first segment"
	}
	why := "it begins with " + first + ", and neither the records before it nor a snapshot of them is there"
	note := fmt.Sprintf("The journal %s lost its beginning (%s): what the rest of it and the two files show is kept; reminders that stood nowhere else are gone.", s.o.Journal, why)
	s.noteJournal(note)
	s.o.Log.Error(note)
	s.Record(now, &journal.SetAside{File: s.o.Journal, Why: why})
}

// What there may be in a journal's place.
type records int

const (
	nothing  records = iota // no journal was ever there
	noRecord                // a journal's folder that lost its records
	some
)

// recordsIn looks what is in a journal's place.
func recordsIn(dir string) (records, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nothing, nil
	}
	if err != nil {
		return nothing, err
	}
	found := nothing
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nothing, err
		}
		if found = noRecord; len(e.Name()) >= 20 && info.Size() > 0 {
			return some, nil
		}
	}
	return found, nil
}

// firstStart makes a journal and imports the views that are there (SPEC 2.4): a drop-in upgrade.
func (s *Store) firstStart(now int64, config *configFile, reminders *remindersFile, repairs ...*journal.SetAside) error {
	if old := config.said.Ref.ID; old != "" && s.elsewhere(s.config, old) == "" {
		note := fmt.Sprintf("The journal that %s was written with is not in %s: what the files show is kept in a new one, and what happened before cannot be shown.", s.config.name, s.o.Journal)
		s.noteJournal(note)
		s.o.Log.Error(note, "missing id", old)
	}
	reminders.parse()
	begin := journal.Begin{ID: journal.NewID().String(), Major: journal.FirstMajor, Minor: journal.Minor, Instead: s.gone(config, reminders)}
	log, err := journal.Create(s.o.Journal, begin, now, journal.LogOptions{Log: s.o.Log})
	if err != nil {
		return err
	}
	s.log, s.id, s.first = log, log.ID(), true
	s.ours = shorts(begin.ID, begin.Instead)
	s.state = projection.Begun(now)
	s.started(now)
	for _, r := range repairs {
		s.Record(now, r)
	}
	s.importViews(now, config, reminders)
	s.first = false
	s.shownConfig, s.shown, s.shownIndex = s.state.Config, s.state.RemindersDigest(), s.state.Index // until they are written, the files show what was imported
	s.dirtyConfig, s.dirtyReminders = true, true
	return nil
}

// shownBefore finds out, while the journal is replayed, whether each view shows what the journal projected at the index
// that the view names: then it is stale, not edited (SPEC 2.5 a).
type shownBefore struct {
	config         *configFile
	reminders      *remindersFile
	names          uint64 // the index that the reminders view seems to name; 0: none
	staleConfig    bool
	staleReminders bool
	baseConfig     projection.Config // what the journal projected at the index that the config view names
	sawConfig      bool
	emptyThen      bool // and that there were no reminders
	sawReminders   bool
	configAge      age
	remindersAge   age
}

// age is what is known of how long a view has been behind the journal.
type age struct {
	at    int64 // when the journal projected what the view shows
	index uint64
	since int64 // when it first projected something else; 0: it never did
	ended bool  // a server has ended since, which writes the views
}

// mostLag is how long a view may be behind the journal while a server runs, with room for a slow disk.
const mostLag = 10 * time.Second

// follow looks at one event after the one that the view shows.
func (a *age) follow(e journal.Event, differs bool) {
	if a.since == 0 && differs {
		a.since = e.Time
	}
	a.ended = a.ended || a.since > 0 && e.Kind == journal.KindStop
}

// old says whether somebody must have put the view there: no crash leaves one so far behind (SPEC 2.9).
func (a *age) old(newest int64) bool {
	return a.since > 0 && (a.ended || newest-a.since > mostLag.Milliseconds())
}

func newShownBefore(config *configFile, reminders *remindersFile) *shownBefore {
	w := &shownBefore{config: config, reminders: reminders, names: projection.FirstViewRef(reminders.data).Index}
	if w.names == 0 {
		reminders.parse()
	}
	return w
}

// visit looks at one state of the replay. The reminders view is read only when it is not what the server wrote: that takes
// longer than to write it once more.
func (w *shownBefore) visit(state *projection.State, e journal.Event) {
	if w.sawConfig && w.staleConfig {
		w.configAge.follow(e, state.Config.Digest() != w.baseConfig.Digest())
	}
	if w.sawReminders && w.staleReminders {
		w.remindersAge.follow(e, state.RemindersDigest() != w.reminders.digest)
	}
	if state.Index == w.config.said.Ref.Index {
		w.compareConfig(state)
	}
	if !w.reminders.parsed && state.Index == w.names {
		if w.reminders.showsExactly(state) {
			w.compareReminders(state)
			return
		}
		w.reminders.parse()
	}
	if w.reminders.parsed && state.Index == w.reminders.said.Index {
		w.compareReminders(state)
	}
}

func (w *shownBefore) compareConfig(state *projection.State) {
	w.sawConfig, w.baseConfig, w.emptyThen = true, state.Config, state.Len() == 0
	over := w.config.said.Over(state.Config)
	w.staleConfig = over.Digest() == state.Config.Digest()
	w.configAge = age{at: state.TimeMs, index: state.Index}
}

func (w *shownBefore) compareReminders(state *projection.State) {
	w.sawReminders = true
	w.staleReminders = w.reminders.digest == state.RemindersDigest()
	w.remindersAge = age{at: state.TimeMs, index: state.Index}
}

// settleViews tells for each view whether it is stale, edited or damaged, and takes in what was edited (SPEC 2.5).
func (s *Store) settleViews(now int64, config *configFile, reminders *remindersFile, was *shownBefore) {
	if !was.sawReminders {
		reminders.parse()
	}
	s.leaveForeign(config, reminders)
	if s.config.foreign {
		config.said.Ref = projection.ViewRef{}
	}
	s.lookBack(config, reminders, was)

	if !was.sawConfig {
		was.baseConfig = s.state.Config
	}
	switch {
	case s.config.foreign:
	case config.err != nil || len(config.said.Problems) > 0 || !was.staleConfig:
		s.takeInConfig(now, journal.ByFile, *config, was.baseConfig)
	case was.baseConfig.Digest() != s.state.Config.Digest():
		s.sayOlder(s.config, was.configAge)
	}
	base := reminders.said.Index
	if base == 0 { // it names no event: it shows at least the one that the other view names
		base = config.said.Ref.Index
	}
	whole := reminders.err == nil && !reminders.partial()
	switch {
	case s.reminders.foreign:
	case whole && was.staleReminders:
		if reminders.digest != s.state.RemindersDigest() {
			s.sayOlder(s.reminders, was.remindersAge)
		}
	case whole && len(reminders.said.Reminders) == 0:
		// Without an entry the view cannot say which event it shows, and every journal began without reminders.
		if n := s.state.Len(); n > 0 && !was.emptyThen {
			s.sayEmptied(n)
		}
	default:
		s.takeInReminders(now, journal.ByFile, *reminders, base)
	}
	s.shownConfig = s.state.Config
	s.dirtyConfig = true
	namesWrongly := s.state.Len() > 0 && (!was.staleReminders || !slices.Equal(reminders.journals(), shorts(s.id.String())))
	s.dirtyReminders = reminders.err != nil || namesWrongly || reminders.digest != s.state.RemindersDigest() || s.dirtyReminders
	s.shown, s.shownIndex = s.state.RemindersDigest(), s.state.Index
	s.ref = config.said.Ref
}

// lookBack reads the journal back for indices that the replay since the last snapshot did not pass.
func (s *Store) lookBack(config *configFile, reminders *remindersFile, was *shownBefore) {
	if i := config.said.Ref.Index; config.err == nil && i > 0 && !was.sawConfig {
		if state := s.stateAt(i); state.Index == i {
			was.compareConfig(state)
			was.configAge.since = state.TimeMs
		}
	}
	if i := reminders.said.Index; reminders.err == nil && i > 0 && !was.sawReminders {
		if state := s.stateAt(i); state.Index == i {
			was.compareReminders(state)
			was.remindersAge.since = state.TimeMs
		}
	}
}

// mostLost bounds how many indices are given up at once: more is no lost tail but a number that somebody typed.
const mostLost = 1 << 20

// fillLostIndices notices that a view names an event which the journal does not hold: answered events are gone. Their indices
// are never used again; what they did is in the views, and taken in from there.
func (s *Store) fillLostIndices(now int64, config *configFile, reminders *remindersFile) {
	name, named, last := s.config.name, config.said.Ref.Index, s.state.Index
	switch {
	case config.err != nil: // the other view names an event, too, but not its journal
		if projection.FirstViewRef(reminders.data).Index > last {
			reminders.parse()
		}
		if s.another(reminders.journals()...) {
			return
		}
		name, named = s.reminders.name, reminders.said.Index
	case config.said.Ref.ID != s.id.String():
		return
	}
	if named <= last || named-last > mostLost {
		return
	}
	lost := named - last
	holes := make([]journal.Body, lost)
	for i := range holes {
		holes[i] = &journal.Hole{Why: "the journal ended before the event that a view names"}
	}
	s.Record(now, holes...)
	s.Record(now, &journal.SetAside{File: s.o.Journal, Why: "its newest records are gone", Lost: lost})
	note := fmt.Sprintf("The journal %s lost its newest %s (the last one that %s names is %d, the journal ended at %d): what the two files show is kept.",
		s.o.Journal, plural(int(lost), "record", "records"), name, named, last)
	s.noteJournal(note)
	s.o.Log.Error(note)
}

// withoutJournal makes the server run on the views and memory (SPEC 3.5, last sentence), and on what the journal still
// shows: one that cannot be repaired, because the disk is full, may be read all the same.
func (s *Store) withoutJournal(now int64, why error, config configFile, reminders remindersFile) {
	s.log = nil
	note := fmt.Sprintf("The journal %s cannot be used (%v): it is left untouched; the server runs on what can be read of it, on %s, %s and memory, and what happens is not journalled.",
		s.o.Journal, why, s.config.name, s.reminders.name)
	s.noteJournal(note)
	s.o.Log.Error(note)
	defer func() { s.fresh = s.fresh[:0] }()
	was := newShownBefore(&config, &reminders)
	if r, err := replayDir(s.o.Journal, journal.ID{}, 0, was.visit); err == nil && r.whole {
		s.state = r.state
		s.knowAs(r.scanner)
		s.newest = r.state.TimeMs
		read := r.state.Index
		s.settleViews(now, &config, &reminders, was)
		s.ref, s.shownIndex = projection.ViewRef{ID: s.id.String(), Index: read}, read
		return
	}
	reminders.parse()
	s.state = projection.Begun(now)
	s.takeInConfig(now, journal.ByFile, config, projection.DefaultConfig())
	s.takeInReminders(now, journal.ByFile, reminders, 0)
	s.shownConfig, s.shown, s.shownIndex = s.state.Config, s.state.RemindersDigest(), reminders.said.Index
	s.ref = config.said.Ref
}

// started begins this server's run in the journal.
func (s *Store) started(now int64) {
	s.Record(now, &journal.Start{Version: s.o.Version, PID: s.o.PID, Zone: s.o.Zone})
	s.setClock(now)
}

// setClock notices that the clock was set back while no server ran: the journal's newest event lies in the future.
// Lengths of time are then counted from now (SPEC 6.8).
func (s *Store) setClock(now int64) {
	if s.newest > now {
		s.o.Log.Warn("the clock was set back since the last event: running intervals are moved back with it", "by", fmt.Sprintf("%dms", s.newest-now))
		s.Record(now, &journal.Clock{ShiftMs: s.newest - now})
	}
}

func (s *Store) noteJournal(sentence string) { s.journalNotes = append(s.journalNotes, sentence) }

func repairNote(dir string, r *journal.SetAside) string {
	lost := ""
	if r.Lost > 0 {
		lost = plural(int(r.Lost), "record is", "records are") + " lost, "
	}
	return fmt.Sprintf("The journal %s was damaged (%s): %severy whole record is kept; the damaged part is in %s.",
		dir, r.Why, lost, filepath.Base(r.Copy))
}
