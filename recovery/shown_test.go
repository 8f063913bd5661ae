package recovery

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

// shown is a state with reminders, and the reminders view that the server writes for it.
func shown() (*projection.State, []byte) {
	state := projection.New()
	for i, b := range []journal.Body{
		&journal.Begin{}, &journal.Add{ID: "rem_a", Message: `say "journalIndex": 9`, CreatedAt: 1, FireAt: 2}, &journal.Add{ID: "rem_b", Message: "b", CreatedAt: 1, FireAt: 3},
	} {
		state.Apply(journal.Event{Index: uint64(i + 1), Time: 1, Kind: b.Kind(), Body: b})
	}
	return state, projection.RemindersView(state.Reminders(), projection.ViewRef{Index: state.Index})
}

func TestAViewThatTheServerWroteIsNotReadAgain(t *testing.T) {
	state, data := shown()
	earlier := projection.New()
	earlier.Apply(journal.Event{Index: 1, Time: 1, Kind: journal.KindBegin, Body: &journal.Begin{}})
	for _, c := range []struct {
		name          string
		data          []byte
		parsed, stale bool
	}{
		{"as it was written", data, false, true},
		{"with its journal", projection.RemindersView(state.Reminders(), projection.ViewRef{ID: "0123456789abcdef", Index: state.Index}), false, true},
		{"written otherwise", bytes.ReplaceAll(data, []byte("  "), []byte("\t")), true, true},
		{"changed", bytes.Replace(data, []byte(`"b"`), []byte(`"c"`), 1), true, false},
		{"cut", data[:len(data)-1], true, true},
		{"longer", append(bytes.Clone(data), ' '), true, true},
		{"an entry removed", projection.RemindersView(state.Reminders()[:1], projection.ViewRef{Index: state.Index}), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := remindersFile{data: c.data}
			was := newShownBefore(&configFile{}, &file)
			was.visit(earlier, journal.Event{})
			was.visit(state, journal.Event{})
			if file.parsed != c.parsed || !was.sawReminders || was.staleReminders != c.stale {
				t.Errorf("read: %v, seen: %v, stale: %v; want %v, true, %v", file.parsed, was.sawReminders, was.staleReminders, c.parsed, c.stale)
			}
			if same := file.digest == state.RemindersDigest(); same != c.stale {
				t.Errorf("it shows the state: %v, want %v", same, c.stale)
			}
		})
	}
}

func TestAViewThatNamesNoEventIsReadAtOnce(t *testing.T) {
	for _, data := range []string{"[]\n", "", `[{"id":"a","message":"m","fireAt":5,"createdAt":1,"everySeconds":null}]`, `[{"journalIndex": x}]`} {
		file := remindersFile{data: []byte(data)}
		if newShownBefore(&configFile{}, &file); !file.parsed {
			t.Errorf("%q was not read", data)
		}
	}
}

// edit rewrites the reminders view as a person would.
func edit(t *testing.T, o Options, change func([]byte) []byte) {
	t.Helper()
	put(t, o.Reminders, change(got(t, o.Reminders)))
}

func TestAViewNamesTheEditThatItShows(t *testing.T) {
	o := place(t)
	lived(t, o)
	s := opened(t, o)
	now := time.Now().UnixMilli()
	s.Record(now, &journal.Add{By: journal.ByTool, ID: "rem_new", Message: "new", CreatedAt: now, FireAt: now + 3600_000})
	if err := s.Commit(now); err != nil {
		t.Fatal(err)
	}
	edit(t, o, func(view []byte) []byte { return bytes.Replace(view, []byte("message rem_0"), []byte("edited"), 1) })
	if work := s.BeginFlush(now); work != nil {
		t.Fatal("an edit that is not in the journal yet was about to be written")
	}
	if err := s.Commit(now); err != nil {
		t.Fatal(err)
	}
	s.Flush(now)
	edited := s.State().Index
	if index := projection.FirstViewRef(got(t, o.Reminders)).Index; index != edited || !bytes.Contains(got(t, o.Reminders), []byte(`"edited"`)) {
		t.Errorf("the view names event %d, want %d, with the edit: %s", index, edited, got(t, o.Reminders))
	}
	if faults := verified(t, o); len(faults) > 0 {
		t.Errorf("beside the server: %v", faults)
	}
	if err := s.Close(now, "test"); err != nil {
		t.Fatal(err)
	}
}

func TestAViewThatNamesAnotherEventIsPutRight(t *testing.T) {
	for _, named := range []string{"2", "1000000000000"} {
		o := place(t)
		lived(t, o)
		right := regexp.MustCompile(`"journalIndex": \d+`)
		edit(t, o, func(view []byte) []byte { return right.ReplaceAll(view, []byte(`"journalIndex": `+named)) })
		s := opened(t, o)
		if index := projection.FirstViewRef(got(t, o.Reminders)).Index; index == 0 || index > s.State().Index || fmt.Sprint(index) == named {
			t.Errorf("named %s: it names event %d now, of %d", named, index, s.State().Index)
		}
		if err := s.Close(time.Now().UnixMilli(), "test"); err != nil {
			t.Fatal(err)
		}
		if faults := verified(t, o); len(faults) > 0 {
			t.Errorf("named %s: %v", named, faults)
		}
	}
}

// TestAnEditIsNoticedWhileTheViewsAreWritten: a view that is there before or after the writing is no edit, anything else is.
func TestAnEditIsNoticedWhileTheViewsAreWritten(t *testing.T) {
	o := place(t)
	lived(t, o)
	s := opened(t, o)
	now := time.Now().UnixMilli()
	for _, edited := range []bool{false, true} {
		s.Record(now, &journal.Add{By: journal.ByTool, ID: fmt.Sprint("rem_", edited), Message: "new", CreatedAt: now, FireAt: now + 3600_000})
		if err := s.Commit(now); err != nil {
			t.Fatal(err)
		}
		work := s.BeginFlush(now)
		if work == nil || s.EditedMeanwhile() {
			t.Fatal("an edit that nobody made")
		}
		if edited {
			edit(t, o, func(view []byte) []byte { return bytes.Replace(view, []byte("message rem_0"), []byte("edited"), 1) })
		}
		noticed := s.EditedMeanwhile()
		work()
		if noticed != edited || s.EditedMeanwhile() != edited {
			t.Errorf("edited: %v; noticed before it was written: %v, after: %v", edited, noticed, s.EditedMeanwhile())
		}
		s.EndFlush()
		if s.TakeInEdits(now) != edited {
			t.Errorf("edited: %v; taken in: %v", edited, !edited)
		}
	}
	if r, open := s.State().Reminder("rem_0"); !open || r.Message != "edited" {
		t.Errorf("got %+v", r)
	}
	if err := s.Close(now, "test"); err != nil {
		t.Fatal(err)
	}
}

const nodeList = `[
  {"id": "a", "message": "a", "createdAt": 1, "fireAt": 4000000000000, "everySeconds": null},
  {"id": "b", "message": "b", "createdAt": 1, "fireAt": 4000000000000, "everySeconds": null}
]`

// TestFilesThatWereImportedAreTheBaseOfTheirEdits: also before they were written for the first time, so that what was called
// meanwhile is not undone.
func TestFilesThatWereImportedAreTheBaseOfTheirEdits(t *testing.T) {
	o := place(t)
	put(t, o.Reminders, []byte(nodeList))
	put(t, o.Config, []byte(`{"intervalSeconds": 7200, "message": "old"}`))
	now := time.Now().UnixMilli()
	s := &Store{o: o, state: projection.New(), config: newView(o.Config), reminders: newView(o.Reminders)} // as Open, without a flush
	config, reminders := s.readSaved(now)
	if err := errors.Join(s.openJournal(now, &config, &reminders), s.Commit(now)); err != nil {
		t.Fatal(err)
	}
	interval := int64(999_000)
	s.Record(now, &journal.Add{By: journal.ByTool, ID: "new", Message: "new", CreatedAt: now, FireAt: now + 3600_000},
		&journal.Cancel{By: journal.ByTool, ID: "b"}, &journal.Configure{By: journal.ByTool, IntervalMs: &interval})
	if err := s.Commit(now); err != nil {
		t.Fatal(err)
	}
	edit(t, o, func(view []byte) []byte {
		return bytes.Replace(view, []byte(`"message": "a"`), []byte(`"message": "edited"`), 1)
	})
	put(t, o.Config, []byte(`{"intervalSeconds": 7200, "message": "edited"}`))
	s.TakeInEdits(now)
	a, _ := s.state.Reminder("a")
	_, hasNew := s.state.Reminder("new")
	_, hasCancelled := s.state.Reminder("b")
	if a.Message != "edited" || !hasNew || hasCancelled || s.state.Config.IntervalMs != interval || s.state.Config.Message != "edited" {
		t.Errorf("edited %q, new there %v, cancelled there %v, config %+v", a.Message, hasNew, hasCancelled, s.state.Config)
	}
	if err := s.Close(now, "test"); err != nil {
		t.Fatal(err)
	}
}

// TestAViewThatIsBeingSavedAtTheStart is read once it is whole.
func TestAViewThatIsBeingSavedAtTheStart(t *testing.T) {
	o := place(t)
	put(t, o.Reminders, []byte(nodeList[:100]))
	asked := 0
	o.Now = func() time.Time {
		if asked++; asked == 5 {
			put(t, o.Reminders, []byte(nodeList))
		}
		return time.Now()
	}
	s := opened(t, o)
	if s.state.Len() != 2 || len(s.Notes(true, true)) != 0 || asked < 5 {
		t.Errorf("%d reminders, notes %q", s.state.Len(), s.Notes(true, true))
	}
	if err := s.Close(time.Now().UnixMilli(), "test"); err != nil {
		t.Fatal(err)
	}
}

// TestAnEmptyViewThatWasEditedCancelsNothing: it names no event, and shows what the config view's event left.
func TestAnEmptyViewThatWasEditedCancelsNothing(t *testing.T) {
	o := place(t)
	s := opened(t, o) // both views are written: there is no reminder
	now := time.Now().UnixMilli()
	s.Record(now, &journal.Add{By: journal.ByTool, ID: "rem_answered", Message: "answered", CreatedAt: now, FireAt: now + 3600_000})
	if err := errors.Join(s.Commit(now), s.log.Close(), s.lock.Unlock()); err != nil { // a crash before the views are written again
		t.Fatal(err)
	}
	put(t, o.Reminders, []byte(nodeList))
	s = opened(t, o)
	_, answered := s.state.Reminder("rem_answered")
	_, added := s.state.Reminder("a")
	if !answered || !added || s.state.Len() != 3 {
		t.Errorf("the answered one is there: %v, the added one: %v, of %d", answered, added, s.state.Len())
	}
	if err := s.Close(now, "test"); err != nil {
		t.Fatal(err)
	}
}
