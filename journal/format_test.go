package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// formatOf is the major version that a journal's meta file names.
func formatOf(t *testing.T, dir string) int {
	t.Helper()
	m, _, ok := readMeta(dir)
	if !ok {
		t.Fatal("no meta file")
	}
	return m.Format
}

// repeating is a reminder that a reader of format 1 would take for one that comes once.
func repeating(index uint64) Event {
	e := add(index, 0)
	b := *e.Body.(*Add)
	b.Repeats, b.From, b.Zone = "1 month", "2027-01-31T18:00:00", "UTC"
	e.Body = &b
	return e
}

func TestAnEventThatNeedsANewerReaderRaisesTheFormat(t *testing.T) {
	for name, event := range map[string]func(uint64) Event{
		"a reminder with a rule": repeating,
		"a snapshot of one": func(index uint64) Event {
			return Event{Index: index, Time: 1, Kind: KindSnapshot, Body: &Snapshot{Parts: 1, Needs: 2}}
		},
	} {
		dir := filepath.Join(t.TempDir(), "journal")
		id := NewID()
		l, err := Create(dir, Begin{ID: id.String(), Major: FirstMajor, Minor: Minor}, 1000, LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			appendOne(t, l, i)
		}
		if got := formatOf(t, dir); got != FirstMajor {
			t.Errorf("without %s the format is %d", name, got)
		}
		if err := l.Append([]Event{add(l.Last()+1, 3), event(l.Last() + 2)}); err != nil {
			t.Fatal(err)
		}
		if got := formatOf(t, dir); got != 2 {
			t.Errorf("with %s the format is %d", name, got)
		}
		appendOne(t, l, 4)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l, err = OpenLog(dir, id, 7, LogOptions{}); err != nil {
			t.Fatal(err)
		}
		appendOne(t, l, 5)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got := formatOf(t, dir); got != 2 {
			t.Errorf("opened again, with %s the format is %d", name, got)
		}
	}
}

// TestTheFormatIsRaisedBeforeTheEventIsThere: a meta file that cannot be written keeps the event out.
func TestTheFormatIsRaisedBeforeTheEventIsThere(t *testing.T) {
	dir, id := made(t, 1, LogOptions{})
	if err := writeMeta(dir, id, FirstMajor); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLog(dir, id, 2, LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, metaName+".new"), 0o700); err != nil { // in the temporary file's place
		t.Fatal(err)
	}
	if err := l.Append([]Event{repeating(3)}); err == nil || !strings.Contains(err.Error(), metaName) {
		t.Fatalf("got %v", err)
	}
	if all, _ := scanned(t, dir); len(all) != 2 {
		t.Errorf("%d records", len(all))
	}
	if err := os.Remove(filepath.Join(dir, metaName+".new")); err != nil {
		t.Fatal(err)
	}
	if err := l.Append([]Event{repeating(3)}); err != nil {
		t.Fatal(err)
	}
	if got := formatOf(t, dir); got != 2 {
		t.Errorf("the format is %d", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAMetaFileThatIsLostNamesTheHighestFormat: nobody knows what is in the journal without reading all of it.
func TestAMetaFileThatIsLostNamesTheHighestFormat(t *testing.T) {
	dir, id := made(t, 1, LogOptions{})
	if err := os.Remove(filepath.Join(dir, metaName)); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLog(dir, id, 2, LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := formatOf(t, dir); got != Major {
		t.Errorf("the format is %d", got)
	}
}

func TestARewrittenJournalKeepsItsFormat(t *testing.T) {
	for _, format := range []int{FirstMajor, 2} {
		dir, id := made(t, 3, LogOptions{})
		if err := writeMeta(dir, id, format); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "new")
		if _, _, err := Rewrite(dir, ID{}, to, Begin{ID: NewID().String(), Major: FirstMajor}, 1, LogOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := formatOf(t, to); got != format {
			t.Errorf("the format is %d, was %d", got, format)
		}
	}
}

func TestANewerFormatIsNotOpened(t *testing.T) {
	dir, id := made(t, 1, LogOptions{})
	if err := writeMeta(dir, id, Major+1); err != nil {
		t.Fatal(err)
	}
	if _, err := NewScanner(dir); err == nil || !strings.Contains(err.Error(), "newer version (format 3, this one reads 2)") {
		t.Errorf("got %v", err)
	}
}
