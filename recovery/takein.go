package recovery

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

// TakeInEdits looks whether somebody changed a view since it was last read or written, and takes the change in as events
// (SPEC 2.6). It says whether it recorded any; the caller commits them.
func (s *Store) TakeInEdits(now int64) bool {
	if s.flushing != nil {
		return false
	}
	before := s.state.Index
	s.config.waits, s.reminders.waits = "", ""
	if v := s.config; v.readable() && v.changed() {
		seen := v.seen
		file := readConfig(v)
		if s.another(file.said.Ref.ID) {
			s.sayForeign(v, file.said.Ref.ID)
		} else if v.accept(); !s.beingSaved(v, seen, file.torn()) {
			s.takeInConfig(now, journal.ByFile, file, s.baseConfig(&file.said))
			s.dirtyConfig = true
		}
	}
	if v := s.reminders; v.readable() && v.changed() {
		seen := v.seen
		file := readReminders(v, now, s.o.Zone)
		if s.another(file.journals()...) {
			s.sayForeign(v, file.journals()[0])
		} else if v.accept(); !s.beingSaved(v, seen, file.torn()) {
			if file.err != nil || file.partial() || file.digest != s.shown {
				s.takeInReminders(now, journal.ByFile, file, s.baseReminders(&file))
			}
			s.dirtyReminders = true
		}
	}
	if s.state.Index == before {
		return false
	}
	s.edited = true
	return true
}

// savePatience is how long a view must have been left alone before what is wrong with it counts: programs that save in
// place leave half a file for a moment.
const savePatience = 2 * time.Second

// beingSaved says whether somebody seems to be writing a view just now, of which torn is wrong. It then counts as not read yet, and
// is not written.
func (s *Store) beingSaved(v *view, seen os.FileInfo, torn string) bool {
	if !s.halfSaved(v, savePatience, torn) {
		return false
	}
	v.seen = seen
	v.waits = fmt.Sprintf("%s was written just now and cannot be used as it stands (%s): it may not be whole yet, and is read again in a moment; until then what the journal holds counts.", v.name, torn)
	return true
}

// halfSaved says whether what is torn of a view that was read may be that somebody is not done with saving it.
func (s *Store) halfSaved(v *view, patience time.Duration, torn string) bool {
	return torn != "" && s.justTouched(v, patience)
}

// tornText is what is wrong with a view's text that may be half of one, empty where it is none: a whole JSON document was saved whole.
func tornText(data []byte, err error, problems []string) string {
	switch {
	case !errors.Is(err, projection.ErrDamaged) && len(problems) == 0, json.Valid(data):
		return ""
	case err != nil:
		return err.Error()
	}
	return listed(problems)
}

// justTouched says whether somebody wrote a view within the last moment.
func (s *Store) justTouched(v *view, moment time.Duration) bool {
	if v.seen == nil {
		return false
	}
	age := s.o.Now().Sub(v.seen.ModTime())
	return age >= 0 && age < moment
}

// baseConfig is what the config view showed when somebody began to edit it: at the index that it names, so that what happened
// since is not undone. One that shows just that was not edited but put back whole, over what the view shows now.
func (s *Store) baseConfig(said *projection.FileConfig) projection.Config {
	if said.Ref.ID != s.id.String() || said.Ref.Index == 0 || said.Ref.Index >= s.ref.Index {
		return s.shownConfig
	}
	base := s.stateAt(said.Ref.Index).Config
	if over := said.Over(base); over.Digest() == base.Digest() {
		return s.shownConfig
	}
	return base
}

// baseReminders is the same for the reminders view.
func (s *Store) baseReminders(file *remindersFile) uint64 {
	named := file.said.Index
	if named == 0 || named >= s.shownIndex || file.digest == s.stateAt(named).RemindersDigest() {
		return s.shownIndex
	}
	return named
}

// configFile is a config view as it was read.
type configFile struct {
	data []byte
	said projection.FileConfig
	err  error // fs.ErrNotExist, projection.ErrDamaged, or why it cannot be read at all
}

func readConfig(v *view) configFile {
	var f configFile
	if f.data, f.err = v.read(); f.err == nil {
		f.said, f.err = projection.ReadConfigView(f.data)
	}
	return f
}

func (f *configFile) torn() string { return tornText(f.data, f.err, f.said.Problems) }

// remindersFile is a reminders view as it was read.
type remindersFile struct {
	data   []byte
	now    int64  // when it was read
	zone   string // of the agent
	parsed bool   // said is what it says; before that, only err is known
	said   projection.FileReminders
	digest projection.Digest // of what it shows
	err    error             // as in configFile
}

// anyZone is for looking whether a view shows what the server wrote, which names the zone of each calendar.
const anyZone = "UTC"

// readReminders reads the reminders view and what it says.
func readReminders(v *view, now int64, zone string) remindersFile {
	f := loadReminders(v, now, zone)
	f.parse()
	return f
}

// loadReminders reads the reminders view's bytes: what a long one says takes a while to find out, and is often known from
// the journal ([remindersFile.showsExactly]).
func loadReminders(v *view, now int64, zone string) remindersFile {
	f := remindersFile{now: now, zone: zone}
	f.data, f.err = v.read()
	return f
}

func (f *remindersFile) parse() {
	if f.parsed || f.err != nil {
		return
	}
	f.parsed = true
	f.said, f.err = projection.ReadRemindersView(f.data, f.now, f.zone)
	f.digest = projection.DigestReminders(f.said.Reminders)
}

// showsExactly says whether the file is, byte by byte, what the server writes for the state. Its digest is known then.
func (f *remindersFile) showsExactly(state *projection.State) bool {
	rest := same(f.data)
	ref := projection.ViewRef{ID: projection.FirstViewRef(f.data).ID, Index: state.Index} // views of older versions name no journal
	if projection.WriteReminders(&rest, state.Reminders(), ref) != nil || len(rest) > 0 {
		return false
	}
	f.digest = state.RemindersDigest()
	return true
}

// same is what is left of a text that a writer's bytes are held against.
type same []byte

var errDiffers = errors.New("it differs")

// Write implements [io.Writer]; an error says that the bytes are not the text's next ones.
func (s *same) Write(data []byte) (int, error) {
	rest, ok := bytes.CutPrefix(*s, data)
	if !ok {
		return 0, errDiffers
	}
	*s = rest
	return len(data), nil
}

// seemsCut says whether it is worth finding out at once what is wrong with the file: a long one that ends as it should is not.
func (f *remindersFile) seemsCut() bool {
	const short = 1 << 20
	return len(f.data) <= short || !bytes.HasSuffix(bytes.TrimSpace(f.data), []byte("]"))
}

func (f *remindersFile) torn() string { return tornText(f.data, f.err, f.said.Problems) }

func (f *remindersFile) partial() bool { return len(f.said.Problems) > 0 }

// takeInConfig records what a person changed in the config view since it showed base.
func (s *Store) takeInConfig(now int64, by journal.Source, file configFile, base projection.Config) {
	if !s.usable(now, s.config, file.data, file.err) {
		return
	}
	file.said.Settle(s.state.Config, by == journal.ByImport)
	problems := file.said.Problems
	if len(problems) > 0 && !s.keepCopy(now, s.config, file.data, problems, "the rest of it is used, and these stay as they were") {
		return
	}
	if edit := s.state.ConfigEdit(by, base, file.said); edit != nil {
		s.recordImport(now, by, s.config, file.data, len(problems) > 0, edit)
	}
}

// takeInReminders records what a person changed in the reminders view since it showed the state at index base.
func (s *Store) takeInReminders(now int64, by journal.Source, file remindersFile, base uint64) {
	if !s.usable(now, s.reminders, file.data, file.err) {
		return
	}
	file.said.Settle(s.state, by == journal.ByImport)
	if file.partial() {
		kept := plural(len(file.said.Reminders), "good entry", "good entries") + " of it and all that the journal holds are kept"
		if s.first || s.id == (journal.ID{}) {
			kept = plural(len(file.said.Reminders), "good entry of it is", "good entries of it are") + " kept"
		}
		if !s.keepCopy(now, s.reminders, file.data, file.said.Problems, kept) {
			return
		}
	}
	if edits := s.state.ReminderEdits(by, s.stateAt(base), file.said); len(edits) > 0 {
		s.recordImport(now, by, s.reminders, file.data, file.partial(), edits...)
	}
}

// usable says whether a view that was read holds something to take in. A missing one does not (it will be rebuilt), nor
// does one that cannot be read at all (it is left alone from now on, SPEC 3.1) or is damaged (copied aside, SPEC 3.2).
func (s *Store) usable(now int64, v *view, data []byte, err error) bool {
	switch {
	case err == nil:
		v.note = ""
		return true
	case errors.Is(err, fs.ErrNotExist):
		return false
	case errors.Is(err, projection.ErrDamaged):
		s.setAsideDamaged(now, v, data, err)
		return false
	}
	s.leaveAlone(v, fmt.Sprintf("%s cannot be read (%v)", v.name, err))
	return false
}

// leaveAlone stops all writing to a view until a restart (SPEC 3.1, 3.4).
func (s *Store) leaveAlone(v *view, why string) {
	if s.looking {
		v.note = why + ": what the journal holds is shown."
		return
	}
	v.locked = why
	v.note = fmt.Sprintf("%s: it is left as it is until a restart reads it again; until then changes are kept in %s and not saved to this file.", why, s.keeper())
	s.o.Log.Error(v.note)
}

// setAsideDamaged copies a damaged view aside; the next flush rebuilds it (SPEC 3.2).
func (s *Store) setAsideDamaged(now int64, v *view, data []byte, why error) {
	if s.looking {
		v.note = fmt.Sprintf("%s cannot be used (%v): what the journal holds is shown, and the next start of a server copies the file aside and rebuilds it.", v.name, why)
		if s.first {
			v.note = fmt.Sprintf("%s cannot be used (%v), and there is no journal: nothing is known of what it held.", v.name, why)
		}
		return
	}
	copied, err := v.setAside(data)
	if err != nil {
		s.leaveAlone(v, fmt.Sprintf("%s cannot be used (%v), and it cannot be copied aside (%v)", v.name, why, err))
		return
	}
	rebuilt := "it is rebuilt from the journal, and nothing that the journal holds is lost"
	if s.first || s.id == (journal.ID{}) {
		rebuilt = "there is no journal to rebuild it from, so the server starts without what it held"
	}
	v.note = fmt.Sprintf("%s could not be used (%v): it was copied to %s, and %s.", v.name, why, filepath.Base(copied), rebuilt)
	s.o.Log.Error(v.note)
	s.Record(now, &journal.SetAside{File: v.name, Copy: copied, Why: why.Error()})
	s.markDirty(v)
}

// keepCopy copies a view that is usable in part aside. False: the copy cannot be made, so the view counts as one that
// cannot be read (SPEC 3.3, 3.4).
func (s *Store) keepCopy(now int64, v *view, data []byte, problems []string, kept string) bool {
	why := listed(problems)
	if s.looking {
		v.note = fmt.Sprintf("%s can be used only in part (%s): %s; the next start of a server imports it so, and keeps a copy of the file as it is.", v.name, why, kept)
		return true
	}
	copied, err := v.setAside(data)
	if err != nil {
		s.leaveAlone(v, fmt.Sprintf("%s can be used only in part (%s), and it cannot be copied aside (%v)", v.name, why, err))
		return false
	}
	v.note = fmt.Sprintf("%s could be used only in part (%s): %s; the file as it was is kept as %s.", v.name, why, kept, filepath.Base(copied))
	s.o.Log.Error(v.note)
	s.Record(now, &journal.SetAside{File: v.name, Copy: copied, Why: "used in part: " + why})
	s.markDirty(v)
	return true
}

func (s *Store) markDirty(v *view) {
	s.dirtyReminders = s.dirtyReminders || v == s.reminders
	s.dirtyConfig = true
}

func (s *Store) recordImport(now int64, by journal.Source, v *view, data []byte, partial bool, changes ...journal.Body) {
	if s.looking && by == journal.ByFile && !partial {
		v.note = fmt.Sprintf("%s was edited (%s): what it says is shown, and the next start of a server imports it.", v.name, plural(len(changes), "change", "changes"))
	}
	sum := sha256.Sum256(data)
	s.Record(now, &journal.Import{By: by, File: v.name, SHA256: hex.EncodeToString(sum[:]), Changes: len(changes), Partial: partial})
	s.Record(now, changes...)
	s.o.Log.Info("taken in from "+v.name, "changes", len(changes), "source", string(by))
}

// listed is the first few problems as one text.
func listed(problems []string) string {
	const most = 5
	if len(problems) <= most {
		return strings.Join(problems, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(problems[:most], "; "), len(problems)-most)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
