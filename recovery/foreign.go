package recovery

import (
	"fmt"
	"slices"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

// Views that show another journal (SPEC 2.7). The config view names its journal; the reminders view its beginning, in its first entry.
// A view that names none is this journal's: people and older versions write such.

func shorts(ids ...string) []string {
	var all []string
	for _, id := range ids {
		if id != "" {
			all = append(all, projection.ViewRef{ID: id}.Short().ID)
		}
	}
	return all
}

// knowAs takes the journal's identity from its records.
func (s *Store) knowAs(scanner *journal.Scanner) {
	s.id = scanner.ID()
	s.ours = shorts(s.id.String())
	if begin := scanner.Begin(); begin != nil {
		s.ours = append(s.ours, shorts(begin.Before, begin.Instead)...)
	}
}

// namedBefore has views that name a journal which this one took the place of name this one.
func namedBefore(begin *journal.Begin, config *configFile, reminders *remindersFile) {
	switch config.said.Ref.ID {
	case "":
	case begin.Before: // a repair carried the records over, at their indices
		config.said.Ref.ID = begin.ID
	case begin.Instead: // they were imported, and a crash came before they were written again: the indices mean nothing here
		config.said.Ref = projection.ViewRef{}
	}
	if instead := shorts(begin.Instead); slices.Equal(reminders.journals(), instead) && len(instead) > 0 {
		reminders.parse()
		reminders.said.Index = 0
	}
}

// gone is the journal that views name and that is nowhere, for one that is made in its place.
func (s *Store) gone(config *configFile, reminders *remindersFile) string {
	if id := config.said.Ref.ID; id != "" && s.elsewhere(s.config, id) == "" {
		return id
	}
	for _, id := range reminders.said.Journals {
		if s.elsewhere(s.reminders, id) == "" {
			return id
		}
	}
	return ""
}

// another says whether a view that names these journals shows another one than this.
func (s *Store) another(ids ...string) bool {
	ids = shorts(ids...)
	return len(s.ours) > 0 && len(ids) > 0 && !slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(s.ours, id) })
}

// journals are those that the view names.
func (f *remindersFile) journals() []string {
	if f.parsed {
		return f.said.Journals
	}
	return shorts(projection.FirstViewRef(f.data).ID)
}

// leaveForeign leaves the views alone that show another journal. A reminders view of an older version names an event but no
// journal: beside such a config view it is that one's.
func (s *Store) leaveForeign(config *configFile, reminders *remindersFile) {
	theirs := config.said.Ref.ID
	if !s.another(theirs) {
		theirs = ""
	} else {
		s.sayForeign(s.config, theirs)
	}
	ids := reminders.journals()
	if len(ids) == 0 && theirs != "" && reminders.said.Index > 0 {
		ids = []string{theirs}
	}
	if s.another(ids...) {
		s.sayForeign(s.reminders, ids[0])
	}
}

// sayForeign leaves a view alone until somebody changes it.
func (s *Store) sayForeign(v *view, id string) {
	flag := "HEARTBEAT_CONFIG_FILE or --config-file"
	if v == s.reminders {
		flag = "HEARTBEAT_REMINDERS_FILE or --reminders-file"
	}
	v.foreign, v.locked = true, "it shows another journal"
	v.note = fmt.Sprintf("%s shows another journal (%s) than %s: it is neither imported nor written, and does not count. Name the right file (%s), or move this one away, "+
		"and a server writes a new one.", v.name, projection.ViewRef{ID: id}.Short().ID, s.o.Journal, flag)
	s.o.Log.Error(v.note)
}

// readable says whether edits of a view count.
func (v *view) readable() bool { return v.locked == "" || v.foreign }

// accept ends what a foreign view was left alone for: it is another file now.
func (v *view) accept() {
	if v.foreign {
		v.foreign, v.locked, v.note = false, "", ""
	}
}

// elsewhere is the folder of a journal that a view names and that is there, at its usual place beside the view: then it is not gone.
// Empty: it is not there, or it is the place of this one.
func (s *Store) elsewhere(v *view, id string) string {
	dir := DefaultJournalDir(v.name)
	if id == "" || SameFile(dir, s.o.Journal) {
		return ""
	}
	there, err := journal.IDOf(dir)
	if err != nil || !slices.Equal(shorts(there.String()), shorts(id)) {
		return ""
	}
	return dir
}

// importViews takes in what views hold that no journal is there for (SPEC 2.4), but for those of a journal that is elsewhere.
func (s *Store) importViews(now int64, config *configFile, reminders *remindersFile) {
	reminders.parse()
	if id := config.said.Ref.ID; s.elsewhere(s.config, id) != "" {
		s.sayForeign(s.config, id)
	} else {
		s.takeInConfig(now, journal.ByImport, *config, projection.DefaultConfig())
	}
	for _, id := range reminders.said.Journals {
		if s.elsewhere(s.reminders, id) != "" {
			s.sayForeign(s.reminders, id)
			return
		}
	}
	s.takeInReminders(now, journal.ByImport, *reminders, 0)
}
