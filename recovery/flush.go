package recovery

import (
	"errors"
	"os"
	"sync/atomic"

	"heartbeat-mcpl/projection"
)

// BeginFlush looks whether the views are behind the state or were changed by somebody. Changes are taken in as events
// (SPEC 2.6), for the caller to commit before it calls again: a view names the journal's last event, and must show no more. It
// returns the writing that is to be done, nil for none, to be run in any goroutine and to be followed by [Store.EndFlush] in
// the owner's; only one at a time.
func (s *Store) BeginFlush(now int64) func() {
	if s.flushing != nil {
		return nil
	}
	if s.TakeInEdits(now) {
		return nil
	}
	writeReminders := s.reminders.locked == "" && (s.dirtyReminders || s.reminders.seen == nil)
	writeConfig := s.config.locked == "" && (s.dirtyConfig || writeReminders || s.config.seen == nil)
	if !writeConfig && !writeReminders {
		return nil
	}
	j := &flushJob{
		views: [2]*view{s.config, s.reminders}, config: s.state.Config, ref: s.viewRef(), shown: s.remindersRef(),
		digest: s.state.RemindersDigest(), appends: &s.appends,
		writeConfig: writeConfig, writeReminders: writeReminders,
	}
	if writeReminders {
		j.all = s.state.Reminders()
	}
	for i, v := range j.views {
		j.seen[i] = v.seen
		v.coming.Store(nil)
	}
	s.flushing, s.dirtyConfig, s.dirtyReminders = j, false, false
	return j.run
}

// EditedMeanwhile says whether somebody changed a view while the views are being written. [Store.TakeInEdits] takes that in after
// [Store.EndFlush].
func (s *Store) EditedMeanwhile() bool {
	if s.flushing == nil {
		return false
	}
	for i, v := range s.flushing.views {
		if v.locked != "" {
			continue
		}
		info, err := os.Stat(v.path)
		if looks(info, err, s.flushing.seen[i]) {
			continue
		}
		if coming := v.coming.Load(); coming == nil || !looks(info, err, *coming) {
			return true
		}
	}
	return false
}

// viewRef is the reference that the views get with the next write: what is not in the journal yet is not claimed.
func (s *Store) viewRef() projection.ViewRef {
	if s.log == nil {
		return s.ref
	}
	return projection.ViewRef{ID: s.id.String(), Index: min(s.state.Index, s.log.Last())}
}

// remindersRef is the same for the reminders view. Where the state is ahead of the journal, the view shows more than the index
// says, so that a restart takes it for an edit and saves what the journal could not.
func (s *Store) remindersRef() projection.ViewRef {
	if s.log == nil {
		return projection.ViewRef{ID: s.ref.ID, Index: s.shownIndex}
	}
	return s.viewRef()
}

// EndFlush takes in what the writing came to.
func (s *Store) EndFlush() {
	j := s.flushing
	if j == nil {
		return
	}
	s.flushing = nil
	if j.writeReminders && !j.overtaken {
		s.complain(s.reminders, j.remindersErr)
		if j.remindersErr == nil {
			s.shown, s.shownIndex = j.digest, j.shown.Index
		}
	}
	if j.configDone {
		s.complain(s.config, j.configErr)
		if j.configErr == nil {
			s.ref, s.shownConfig = j.ref, j.config
		}
	}
	s.dirtyConfig = s.dirtyConfig || j.overtaken || s.config.writeErr != nil
	s.dirtyReminders = s.dirtyReminders || j.overtaken && j.writeReminders || s.reminders.writeErr != nil
}

func (s *Store) complain(v *view, err error) {
	if err != nil && (v.writeErr == nil || v.writeErr.Error() != err.Error()) {
		s.o.Log.Error(v.name+" cannot be written: changes are kept in "+s.keeper()+", and the file is written as soon as that works", "err", err)
	}
	if err == nil && v.writeErr != nil {
		s.o.Log.Info(v.name + " can be written again and is up to date")
	}
	v.writeErr = err
}

// flushJob is one writing of the views. The reminders go first: what the config view says of the index is then true of
// both, whenever the machine stops.
type flushJob struct {
	views  [2]*view       // config, reminders
	seen   [2]os.FileInfo // how they looked when it began
	config projection.Config
	ref    projection.ViewRef
	shown  projection.ViewRef // the same of the reminders view
	digest projection.Digest
	all    []*projection.Reminder

	appends *atomic.Uint64 // to the journal, meanwhile

	writeConfig    bool
	writeReminders bool

	overtaken    bool // somebody changed a view just now: nothing was written over it
	configDone   bool
	configErr    error
	remindersErr error
}

func (j *flushJob) run() {
	config, reminders := j.views[0], j.views[1]
	if j.writeReminders {
		j.remindersErr = j.write(reminders, func(f *os.File) error {
			return projection.WriteReminders(newPacedFile(f, j.appends), j.all, j.shown)
		})
	}
	if !j.writeConfig || j.overtaken || j.remindersErr != nil {
		return
	}
	j.configErr = j.write(config, whole(projection.ConfigView(j.config, j.ref)))
	j.configDone = !j.overtaken
}

func (j *flushJob) write(v *view, content func(*os.File) error) error {
	if v.changed() {
		j.overtaken = true
		return nil
	}
	err := v.replace(content)
	if errors.Is(err, errOvertaken) {
		j.overtaken = true
		return nil
	}
	return err
}
