package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

// Seen is what the files hold, as [Look] found it.
type Seen struct{ store *Store }

// Look reads the journal and the views as the next start of a server would, and changes nothing: no file, no folder, no lock
// (SPEC 2.8). Edits that no server has imported yet are in the state, and the notes say so. An error says that what the files hold
// cannot be known.
func Look(o Options) (*Seen, error) {
	o.Log, o.Now = slog.New(slog.DiscardHandler), time.Now
	for attempt := 0; ; attempt++ {
		seen, tail, err := look(o)
		if err != nil || !tail || attempt > 0 {
			return seen, err
		}
		time.Sleep(tailSettles) // a server may be appending just now
	}
}

// State is what the next start of a server would go on with.
func (s *Seen) State() *projection.State { return s.store.state }

// Notes are the sentences that a reply must carry (SPEC 3.6).
func (s *Seen) Notes(config, reminders bool) []string { return s.store.Notes(config, reminders) }

func look(o Options) (seen *Seen, tail bool, err error) {
	s := &Store{o: o, looking: true, state: projection.New(), config: newView(o.Config), reminders: newView(o.Reminders)}
	now := o.Now().UnixMilli()
	config, reminders := s.readSaved(now)
	s.o.Journal = s.journalToRead()
	switch records, err := recordsIn(s.o.Journal); {
	case err != nil:
		return nil, false, cannotRead("the journal "+s.o.Journal, err)
	case records == nothing, records == noRecord:
		return s.lookAtViews(now, &config, &reminders, records)
	}
	hint, _ := journal.ParseID(config.said.Ref.ID)
	r, was, err := readJournal(s.o.Journal, hint, &config, &reminders)
	if err != nil {
		return nil, false, cannotRead("the journal "+s.o.Journal, err)
	}
	s.state, s.newest = r.state, r.state.TimeMs
	s.knowAs(r.scanner)
	s.state.Rewind(r.scanner.Last())
	for _, d := range r.scanner.Damage() {
		tail = tail || d.Tail
		s.noteJournal(fmt.Sprintf("The journal %s is damaged (%s in %s): every whole record counts, and the next start of a server repairs it.", s.o.Journal, d.Text(), d.Segment))
	}
	if !r.whole {
		s.noteJournal(fmt.Sprintf("The journal %s lost its beginning: what the rest of it and the two files show is shown.", s.o.Journal))
	}
	s.fillLostIndices(now, &config, &reminders)
	s.settleViews(now, &config, &reminders, was)
	return &Seen{s}, tail, nil
}

// journalToRead is the journal's folder, or the one that a repair which was cut short has made for it ([finishRewrite]).
func (s *Store) journalToRead() string {
	dir := s.o.Journal
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return dir // what is wrong is said by who reads it
	}
	if _, err := os.Stat(rewriteDir(dir)); err != nil {
		return dir
	}
	s.noteJournal(fmt.Sprintf("A repair of the journal %s was cut short: what it has made is shown, and the next start of a server completes it.", dir))
	return rewriteDir(dir)
}

// lookAtViews is a look where no journal is.
func (s *Store) lookAtViews(now int64, config *configFile, reminders *remindersFile, found records) (*Seen, bool, error) {
	for _, v := range []struct {
		name string
		err  error
	}{{s.config.name, config.err}, {s.reminders.name, reminders.err}} {
		if v.err != nil && !errors.Is(v.err, fs.ErrNotExist) && !errors.Is(v.err, projection.ErrDamaged) {
			return nil, false, cannotRead(v.name, v.err)
		}
	}
	none := errors.Is(config.err, fs.ErrNotExist) && errors.Is(reminders.err, fs.ErrNotExist)
	switch {
	case found == noRecord:
		s.noteJournal(fmt.Sprintf("The journal's folder %s holds no record: what the two files hold is shown; the next start of a server keeps the folder aside and begins a new journal.", s.o.Journal))
	case !none:
		s.noteJournal(fmt.Sprintf("No server has run on %s yet: what the files hold is shown, and the first start of a server imports it.", s.o.Journal))
	}
	s.state, s.first = projection.Begun(now), true
	s.importViews(now, config, reminders)
	return &Seen{s}, false, nil
}

func cannotRead(what string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s cannot be read: %w; run this as the user of the server", what, cause(err))
	}
	return fmt.Errorf("%s cannot be read: %w", what, err)
}
