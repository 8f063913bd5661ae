package recovery

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

func say(t *testing.T, m *Mesh, bodies ...journal.Body) {
	t.Helper()
	if err := m.Append(func(*projection.Mesh, int64) ([]journal.Body, error) { return bodies, nil }); err != nil {
		t.Fatal(err)
	}
}

func inboxOf(t *testing.T, m *Mesh, agent string) (n int) {
	t.Helper()
	if err := m.Read(func(mesh *projection.Mesh) { n = len(mesh.Inbox(agent)) }); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAKilledWriterLeavesNothingBroken: its torn record is passed over by readers, and mended by the next writer.
func TestAKilledWriterLeavesNothingBroken(t *testing.T) {
	dir := t.TempDir()
	quiet := slog.New(slog.DiscardHandler)
	a, b := NewMesh(dir, quiet), NewMesh(dir, quiet)
	say(t, a, &journal.Present{Agent: "x", TTLMs: 3600_000})
	say(t, b, &journal.Message{ID: "m1", From: "y", To: []string{"x"}})
	segment := filepath.Join(dir, "journal", "00000000000000000001")
	whole, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 1; cut < 20; cut++ {
		if err := os.WriteFile(segment, append(whole[:len(whole):len(whole)], whole[len(whole)-20:len(whole)-cut]...), 0o600); err != nil {
			t.Fatal(err)
		}
		if n := inboxOf(t, a, "x"); n != 1 {
			t.Fatalf("cut %d: a reader sees %d messages", cut, n)
		}
		fresh := NewMesh(dir, quiet)
		say(t, fresh, &journal.Message{ID: "m2", From: "y", To: []string{"x"}})
		if n := inboxOf(t, fresh, "x"); n != 2 {
			t.Fatalf("cut %d: after the next writer there are %d messages", cut, n)
		}
		if n := inboxOf(t, NewMesh(dir, quiet), "x"); n != 2 {
			t.Fatalf("cut %d: a new reader sees %d", cut, n)
		}
		if err := os.WriteFile(segment, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		a = NewMesh(dir, quiet)
	}
}

// TestAMeshsHistoryIsBounded: snapshots let old segments go, and a reader that begins late starts from one.
func TestAMeshsHistoryIsBounded(t *testing.T) {
	dir := t.TempDir()
	quiet := slog.New(slog.DiscardHandler)
	m, slow := NewMesh(dir, quiet), NewMesh(dir, quiet)
	say(t, m, &journal.Present{Agent: "x", TTLMs: 86_400_000}, &journal.Message{ID: "kept", From: "y", To: []string{"x"}})
	if n := inboxOf(t, slow, "x"); n != 1 {
		t.Fatal(n)
	}
	var touches []journal.Body
	for range 2600 {
		touches = append(touches, &journal.Touch{Agent: "x"})
	}
	for range 3 {
		say(t, m, touches...)
	}
	for i, reader := range []*Mesh{slow, NewMesh(dir, quiet)} {
		if n := inboxOf(t, reader, "x"); n != 1 {
			t.Errorf("reader %d sees %d messages", i, n)
		}
	}
	scanner, err := journal.NewScanner(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := scanner.FindSnapshot()
	if err != nil || snapshot == 0 {
		t.Errorf("snapshot at %d, %v", snapshot, err)
	}
}

// TestAMeshThatWasRemovedBeginsAnew, for those who knew the old one, too: whether the new one is shorter by now or longer.
func TestAMeshThatWasRemovedBeginsAnew(t *testing.T) {
	for _, more := range []int{0, 10} {
		dir := t.TempDir()
		quiet := slog.New(slog.DiscardHandler)
		a, b := NewMesh(dir, quiet), NewMesh(dir, quiet)
		say(t, a, &journal.Present{Agent: "x", TTLMs: 3600_000}, &journal.Message{ID: "old", From: "y", To: []string{"x"}})
		say(t, b, &journal.Touch{Agent: "x"}, &journal.Touch{Agent: "x"})
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		for _, m := range []*Mesh{a, b} {
			if n := inboxOf(t, m, "x"); n != 0 {
				t.Errorf("without a folder there are %d messages", n)
			}
		}
		say(t, a, &journal.Present{Agent: "x", TTLMs: 3600_000})
		for range more {
			say(t, a, &journal.Touch{Agent: "x"})
		}
		say(t, b, &journal.Message{ID: "new", From: "y", To: []string{"x"}})
		for who, m := range map[string]*Mesh{"who begun it": a, "who knew the old one": b, "who comes new": NewMesh(dir, quiet)} {
			if n := inboxOf(t, m, "x"); n != 1 {
				t.Errorf("%d more: %s sees %d messages, want 1", more, who, n)
			}
		}
	}
}

func TestAFollowerHearsOfWhatOthersAppend(t *testing.T) {
	dir := t.TempDir()
	quiet := slog.New(slog.DiscardHandler)
	heard, stop := make(chan struct{}, 100), make(chan struct{})
	defer close(stop)
	reader, writer := NewMesh(dir, quiet), NewMesh(dir, quiet)
	go reader.Follow(stop, func() { heard <- struct{}{} })
	for i := range 3 {
		say(t, writer, &journal.Present{Agent: fmt.Sprint("a", i), TTLMs: 60_000})
		select {
		case <-heard:
		case <-time.After(time.Minute):
			t.Fatal("nothing was heard")
		}
	}
}
