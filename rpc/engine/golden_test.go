package engine

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/recovery"
)

// TestWhatAnOlderVersionLeftUntakenIsTriedAgain: a journal that the first version wrote ends with reminders and messages that the host
// refused or did not answer. That version left them until something else happened.
func TestWhatAnOlderVersionLeftUntakenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, dir: t.TempDir()}
		unpack(t, "../../recovery/testdata/golden/v1/home.tar.gz", r.dir, map[string]string{
			"heartbeat-config.json": "config.json", "heartbeat-reminders.json": "reminders.json", "heartbeat-journal": "journal",
		})
		state, err := recovery.StateAt(filepath.Join(r.dir, "journal"), 0)
		if err != nil {
			t.Fatal(err)
		}
		who, _ := state.Participant()
		var unread []projection.Letter
		if err := recovery.NewMesh(filepath.Join(r.dir, "mesh"), nil).Read(func(m *projection.Mesh) { unread = m.Inbox(who.Agent) }); err != nil {
			t.Fatal(err)
		}
		r.step.Store(int64(time.Until(time.UnixMilli(state.TimeMs)) + time.Minute))
		r.start()
		defer func() { r.stop() }()
		r.e.Letters(who.Agent, unread)
		r.says("reminder_list", "7 reminder(s):", "next when wakes can be sent")
		r.open()

		was := map[string]*projection.Attempt{} // by reminder, or message
		for _, wake := range state.Reminders() {
			if wake.Attempt != nil {
				was[wake.ID] = wake.Attempt
			}
		}
		maps.Insert(was, state.FailingMessages())
		pushed := map[string]string{}
		for _, p := range r.host.pushes() {
			pushed[p.params.Origin.ReminderID+p.params.Origin.MessageID] = p.params.EventID
			p.accept()
		}
		if ids := slices.Sorted(maps.Keys(pushed)); len(was) != 5 || !slices.Equal(ids, slices.Sorted(maps.Keys(was))) {
			t.Fatalf("pushed %v, of %v", ids, slices.Sorted(maps.Keys(was)))
		}
		for id, a := range was {
			if same := pushed[id] == a.EventID; same != (a.Outcome == projection.Pending) {
				t.Errorf("%s, outcome %d: %s, and now %s", id, a.Outcome, a.EventID, pushed[id])
			}
		}
		r.says("reminder_list", "5 reminder(s):")
	})
}

// unpack writes an archive's files below a folder, under other names where it has some for the first part of theirs.
func unpack(t *testing.T, archive, dir string, names map[string]string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for a := tar.NewReader(z); ; {
		head, err := a.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if head.Typeflag != tar.TypeReg {
			continue
		}
		first, rest, _ := strings.Cut(head.Name, "/")
		if name, other := names[first]; other {
			first = name
		}
		data, err := io.ReadAll(a)
		path := filepath.Join(dir, first, filepath.FromSlash(rest))
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
