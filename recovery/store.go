// Package recovery owns what a server keeps on disk, as one thing: the journal and the two views. It opens them in
// whatever state they are (lock, repair of the log, replay, views that are stale, edited or damaged), and keeps them: new
// events are appended, views follow.
//
// Start with [Open], which returns a [Store]. Its invariants:
//   - the state is the fold of every recorded event, also of those that could not be appended yet (SPEC 3.7);
//   - a file that cannot be used is never overwritten: it is left alone, or copied aside first (SPEC 3);
//   - nothing that was appended is ever lost by what happens later.
//
// A Store is used by one goroutine at a time: the engine's loop, or a call that is answered while that rests. Only the function
// that [Store.BeginFlush] returns runs beside it.
package recovery

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

// retryEvery is how often an append that failed is tried again when nothing else happens (SPEC 3.7).
const retryEvery = 30 * time.Second

// mostBacklog is how many events wait for a journal that cannot be written. Beyond it the state alone is kept.
const mostBacklog = 50_000

// Files names what a server keeps (SPEC 1.2).
type Files struct {
	Config    string
	Reminders string
	Journal   string // folder
}

// Options are what [Open] needs to know.
type Options struct {
	Files
	Version string        // of the server, for the start event
	PID     int           // of the server
	Zone    string        // the agent's time zone
	Keep    time.Duration // how long old events are kept; 0: for ever (SPEC 9.4)
	Log     *slog.Logger
	Now     func() time.Time

	// MustJournal has [Open] fail where the journal cannot be used, before it changes anything else: what opens it has no memory that
	// could keep a change.
	MustJournal bool
}

// Store is the journal and the views of one server.
type Store struct {
	o     Options
	state *projection.State

	lock *journal.Lock
	log  *journal.Log // nil: no journal can be used (SPEC 3.5)
	id   journal.ID   // of the journal that the state was read from; zero: from none
	ours []string     // the identities that a view of this journal may name, as [projection.ViewRef.Short] has them; nil: any

	fresh   []journal.Event // recorded since the last Commit
	backlog []journal.Event // recorded before, not appended yet
	saveErr error           // why the backlog is not saved
	failed  time.Time       // when the last append failed
	appends atomic.Uint64   // begun since the start; for the flush in flight to see

	config         *view
	reminders      *view
	ref            projection.ViewRef // what the config view on disk says: both views show at least this
	shownConfig    projection.Config  // what the config view on disk shows
	shown          projection.Digest  // of what the reminders view on disk shows
	shownIndex     uint64             // of the state that it shows
	dirtyConfig    bool
	dirtyReminders bool
	flushing       *flushJob

	journalNotes []string // SPEC 3.6 about the journal
	first        bool     // the journal is being made: there is nothing to rebuild a view from
	looking      bool     // nothing may be written ([Look])
	newest       int64    // time of the newest event that was there at the start
	edited       bool     // edits were taken in since the last Edited
	covered      uint64   // index of a snapshot that was recorded and makes older segments removable once it is on disk
}

// State is the current state. It changes by Record alone.
func (s *Store) State() *projection.State { return s.state }

// Record makes events of the bodies: they are applied to the state at once and wait for [Store.Commit].
func (s *Store) Record(now int64, bodies ...journal.Body) {
	for _, b := range bodies {
		e := journal.Event{Index: s.state.Index + 1, Time: now, Kind: b.Kind(), Body: b}
		s.state.Apply(e)
		s.fresh = append(s.fresh, e)
		s.dirty(b)
	}
}

// dirty marks the views that an event makes stale. The config view follows every event but snapshots: it says how far
// the journal had come.
func (s *Store) dirty(b journal.Body) {
	switch b.(type) {
	case *journal.Snapshot:
		return
	case *journal.Add, *journal.Cancel, *journal.Ack, *journal.Clock:
		s.dirtyReminders = true
	}
	s.dirtyConfig = true
}

// Commit appends all recorded events with one fsync. An error says that they are in memory only, and why; they are
// appended by a later Commit (SPEC 3.7). Without a usable journal there is nothing to append to, and no error: what is
// said about it then is in [Store.Notes].
func (s *Store) Commit(now int64) error {
	if s.log == nil {
		s.fresh = s.fresh[:0]
		return nil
	}
	if s.state.SnapshotDue() {
		s.recordSnapshot(now)
	}
	nothingNew := len(s.fresh) == 0
	s.backlog = append(s.backlog, s.fresh...)
	s.fresh = emptied(s.fresh)
	if len(s.backlog) == 0 {
		return nil
	}
	if s.saveErr != nil && nothingNew && time.Since(s.failed) < retryEvery {
		return s.saveErr
	}
	s.appends.Add(1)
	if err := s.log.Append(s.backlog); err != nil {
		if s.saveErr == nil {
			s.o.Log.Error("not saved: the journal cannot be written; what changed is in memory and is appended as soon as that works again", "err", err)
		}
		s.saveErr, s.failed = err, time.Now()
		s.boundBacklog(now)
		return err
	}
	if s.saveErr != nil {
		s.o.Log.Info("saved: the journal can be written again, and holds everything that was in memory only", "events", len(s.backlog))
		s.saveErr = nil
	}
	s.backlog = emptied(s.backlog)
	if s.covered > 0 {
		s.retain(now)
	}
	return nil
}

// emptied is a list that is used again, unless it grew large: an import has many events at once.
func emptied(events []journal.Event) []journal.Event {
	const mostKept = 1024
	if cap(events) > mostKept {
		return nil
	}
	clear(events)
	return events[:0]
}

func (s *Store) recordSnapshot(now int64) {
	parts, err := s.state.Snapshot()
	if err != nil {
		s.o.Log.Error("no snapshot was made", "err", err)
		return
	}
	s.Record(now, parts...)
	s.covered = s.state.Index + 1 - uint64(len(parts))
}

// Trim makes a snapshot where old segments could be removed and none covers them (SPEC 9.4). The next Commit removes them.
func (s *Store) Trim(now int64) {
	if s.log == nil || s.o.Keep <= 0 {
		return
	}
	old, err := journal.HasOld(s.o.Journal, now-s.o.Keep.Milliseconds())
	if err != nil {
		s.o.Log.Warn("the age of the journal's segments cannot be read", "err", err)
	}
	if old {
		s.recordSnapshot(now)
	}
}

// retain removes the segments that are older than what is to be kept, once the snapshot that covers them is on disk.
func (s *Store) retain(now int64) {
	snapshot := s.covered
	s.covered = 0
	if s.o.Keep <= 0 {
		return
	}
	n, err := journal.Retain(s.o.Journal, now-s.o.Keep.Milliseconds(), snapshot)
	if err != nil {
		s.o.Log.Warn("old segments of the journal could not be removed", "err", err)
	}
	if n > 0 {
		s.o.Log.Info("old segments of the journal were removed, as HEARTBEAT_KEEP asks", "segments", n)
	}
}

// boundBacklog keeps memory bounded while the journal cannot be written: the events that wait give way to the state
// they led to. Their history is lost then, their effect is not.
func (s *Store) boundBacklog(now int64) {
	if len(s.backlog) <= mostBacklog {
		return
	}
	parts, err := s.state.Snapshot()
	if err != nil {
		return
	}
	lost := uint64(len(s.backlog))
	s.backlog = nil
	s.state.Rewind(s.log.Last())
	s.Record(now, &journal.SetAside{File: s.o.Journal, Why: "the journal could not be written for long: the events themselves were given up, the state that they led to is kept", Lost: lost})
	s.Record(now, parts...)
	s.backlog, s.fresh = append(s.backlog, s.fresh...), s.fresh[:0]
	s.o.Log.Warn("the journal could not be written for long: waiting events were replaced by the state they led to", "events", lost)
}

// Edited says whether edits of the views were taken in since it was last asked.
func (s *Store) Edited() bool {
	edited := s.edited
	s.edited = false
	return edited
}

// Behind says whether the views are waiting to be written.
func (s *Store) Behind() bool {
	return s.dirtyReminders && s.reminders.locked == "" || s.dirtyConfig && s.config.locked == ""
}

// Locked says whether this process holds the journal's lock.
func (s *Store) Locked() bool { return s.lock != nil }

// Journalled says whether there is a journal that events go to, be it later.
func (s *Store) Journalled() bool { return s.log != nil }

// NotSaved is why the last changes are in memory only; nil when everything is saved.
func (s *Store) NotSaved() error { return s.saveErr }

// Notes are the sentences that a reply must carry when it shows or counts what the files hold (SPEC 3.6).
func (s *Store) Notes(config, reminders bool) []string {
	notes := slices.Clone(s.journalNotes)
	if config {
		notes = append(notes, s.config.sentences()...)
	}
	if reminders {
		notes = append(notes, s.reminders.sentences()...)
	}
	return notes
}

func (v *view) sentences() []string {
	var all []string
	for _, said := range []string{v.note, v.waits} {
		if said != "" {
			all = append(all, said)
		}
	}
	if v.writeErr != nil {
		all = append(all, fmt.Sprintf("%s cannot be written (%v): it does not show the latest changes.", v.name, v.writeErr))
	}
	return all
}

// Flush brings the views up to date and returns when they are on disk. An error says that edits which it took in could not be
// appended.
func (s *Store) Flush(now int64) (saved error) {
	for range 4 { // an edit, the views, an edit that came meanwhile, the views again
		work := s.BeginFlush(now)
		switch {
		case work != nil:
			work()
			s.EndFlush()
		case len(s.fresh) > 0:
			saved = s.Commit(now)
		default:
			return saved
		}
	}
	return saved
}

// Close takes in the last edits, writes the stop event and the views and lets the journal go (SPEC 1.4). A view that somebody is just
// saving is left to the next start.
func (s *Store) Close(now int64, reason string) error {
	s.TakeInEdits(now)
	s.Record(now, &journal.Stop{PID: s.o.PID, Reason: reason})
	err := s.Commit(now)
	if late := s.Flush(now); late != nil {
		err = late
	}
	return errors.Join(err, s.letGo())
}

// letGo closes the journal and gives its lock up.
func (s *Store) letGo() (err error) {
	if s.log != nil {
		err = s.log.Close()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Unlock())
	}
	return err
}

// keeper is what keeps the changes that a view cannot show, as a sentence has it.
func (s *Store) keeper() string {
	switch {
	case s.log == nil:
		return "memory only (they are gone when the server stops)"
	case s.saveErr != nil:
		return "memory until the journal can be written again"
	}
	return "the journal"
}
