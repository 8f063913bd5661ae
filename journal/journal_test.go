package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// made is a journal with n reminders added, in a folder of the test.
func made(t *testing.T, n int, o LogOptions) (dir string, id ID) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "journal")
	id = NewID()
	l, err := Create(dir, Begin{ID: id.String(), Major: Major, Minor: Minor}, 1000, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		appendOne(t, l, i)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, id
}

func add(index uint64, i int) Event {
	return Event{Index: index, Time: 1000 + int64(i), Kind: KindAdd, Body: &Add{By: ByTool, ID: fmt.Sprint("rem_", i), Message: "message", CreatedAt: 1, FireAt: 2}}
}

func appendOne(t *testing.T, l *Log, i int) {
	t.Helper()
	if err := l.Append([]Event{add(l.Last()+1, i)}); err != nil {
		t.Fatal(err)
	}
}

// scanned is all that a scan finds.
func scanned(t *testing.T, dir string) ([]Event, []Damage) {
	t.Helper()
	s, err := NewScanner(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []Event
	for s.Next() {
		all = append(all, s.Event())
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return all, s.Damage()
}

func TestWhatIsAppendedIsScannedInOrder(t *testing.T) {
	dir, id := made(t, 500, LogOptions{SegmentSize: 4096})
	all, damage := scanned(t, dir)
	if len(all) != 501 || len(damage) != 0 {
		t.Fatalf("got %d records and damage %v", len(all), damage)
	}
	for i, e := range all {
		if e.Index != uint64(i+1) {
			t.Fatalf("record %d has index %d", i+1, e.Index)
		}
	}
	if b, ok := all[500].Body.(*Add); !ok || b.ID != "rem_499" {
		t.Fatalf("the last body is %+v", all[500].Body)
	}
	l, err := OpenLog(dir, id, 501, LogOptions{SegmentSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	appendOne(t, l, 500)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if all, damage = scanned(t, dir); len(all) != 502 || len(damage) != 0 {
		t.Fatalf("after reopening: %d records, damage %v", len(all), damage)
	}
}

func TestJournalIsPrivate(t *testing.T) {
	dir, _ := made(t, 1, LogOptions{})
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, _ := e.Info(); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v", info.Mode())
	}
}

func TestMissingJournalIsNamed(t *testing.T) {
	if _, err := NewScanner(filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrNoJournal) {
		t.Fatalf("got %v", err)
	}
}
