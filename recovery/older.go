package recovery

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// sayOlder says that a view shows what the journal held a while ago, where no crash explains it: somebody put it there while no
// server ran (SPEC 2.9).
func (s *Store) sayOlder(v *view, a age) {
	if !a.old(s.newest) {
		return
	}
	v.older = true
	v.note = fmt.Sprintf("%s is older than the journal: as of %s, event %d. What the journal holds counts; to go back to that state: %s (it first shows what would change).",
		v.name, s.agentTime(a.at), a.index, s.o.Files.restoreCommand(a.index))
	s.o.Log.Warn(v.note)
}

// sayEmptied says that a reminders view without an entry is taken for an old copy.
func (s *Store) sayEmptied(n int) {
	note := s.reminders.name + " is empty, as it was before the first reminder: it is taken for an old copy and rebuilt; to cancel reminders use reminder_cancel, or empty the file while the server runs"
	s.o.Log.Warn(note, "reminders", n)
	if s.looking {
		s.reminders.note = s.reminders.name + " is empty, as it was before the first reminder: it is taken for an old copy, and the next start of a server rebuilds it."
	}
}

// ForgetOlder ends the notes about views that were older than the journal: somebody has answered them.
func (s *Store) ForgetOlder() {
	for _, v := range []*view{s.config, s.reminders} {
		if v.older {
			v.older, v.note = false, ""
		}
	}
}

// agentTime is a time as the agent reads it (SPEC 1.3).
func (s *Store) agentTime(ms int64) string {
	zone, err := time.LoadLocation(s.o.Zone)
	if err != nil {
		zone = time.UTC // it was checked when it was set
	}
	return time.UnixMilli(ms).In(zone).Format("2006-01-02T15:04:05-07:00") + " [" + zone.String() + "]"
}

// restoreCommand is what a person types to go back to an event, with what is not found by itself.
func (f Files) restoreCommand(index uint64) string {
	words := []string{"heartbeat-mcpl", "restore", "--at", fmt.Sprint(index), "--config-file", shellWord(absolute(f.Config))}
	if !SameFile(f.Reminders, filepath.Join(filepath.Dir(f.Config), RemindersName)) {
		words = append(words, "--reminders-file", shellWord(absolute(f.Reminders)))
	}
	if !SameFile(f.Journal, DefaultJournalDir(f.Config)) {
		words = append(words, "--journal-dir", shellWord(absolute(f.Journal)))
	}
	return strings.Join(words, " ")
}

func absolute(name string) string {
	if path, err := filepath.Abs(name); err == nil {
		return path
	}
	return name
}

// shellWord is a text as one word of a shell.
func shellWord(text string) string {
	if strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789/._-+:@%") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
