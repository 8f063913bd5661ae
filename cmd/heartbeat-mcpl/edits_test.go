package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"heartbeat-mcpl/journal"
)

// TestEditOfAnOldTextUndoesNothing: a person opens the views in an editor, the server goes on, and the person saves.
func TestEditOfAnOldTextUndoesNothing(t *testing.T) {
	for _, running := range []bool{true, false} {
		h := newHome(t)
		s := h.open()
		kept := s.add(map[string]any{"inHours": 1, "message": "kept"})
		cancelled := s.add(map[string]any{"inHours": 2, "message": "cancelled meanwhile"})
		h.shows(cancelled)
		reminders, config := h.read(h.reminders()), h.read(h.config())

		s.call("reminder_cancel", map[string]any{"id": cancelled})
		added := s.add(map[string]any{"inHours": 3, "message": "added meanwhile"})
		s.call("heartbeat_configure", map[string]any{"intervalHours": 9})
		h.shows(added)
		if !running {
			s.end()
		}
		h.write(h.reminders(), strings.Replace(reminders, `"kept"`, `"edited"`, 1))
		h.write(h.config(), strings.Replace(config, `"paused": false`, `"paused": true`, 1))
		if !running {
			s = h.open()
		}
		list := s.until("reminder_list", `"edited"`)
		contains(t, list, kept, added, "2 reminder(s):")
		contains(t, s.until("heartbeat_status", "PAUSED"), "interval=32400s")
		s.end()
	}
}

// TestViewThatIsPutBackWholeIsAnEdit: an undo in the editor, a backup, a checkout.
func TestViewThatIsPutBackWholeIsAnEdit(t *testing.T) {
	h := newHome(t)
	s := h.open()
	first := s.add(map[string]any{"inHours": 1, "message": "first"})
	second := s.add(map[string]any{"inHours": 2, "message": "second"})
	reminders, config := h.shows(second), h.read(h.config())

	s.call("reminder_cancel", map[string]any{"id": second})
	h.write(h.config(), strings.Replace(config, "14400", "500", 1))
	contains(t, s.call("heartbeat_status", nil), "interval=500s")
	s.call("heartbeat_configure", map[string]any{"deliveryMode": "silent"})
	h.viewShows(h.config(), "silent") // the other view is written before it
	if view := h.read(h.reminders()); strings.Contains(view, "second") {
		t.Fatal(view)
	}
	h.write(h.reminders(), reminders)
	h.write(h.config(), config)
	contains(t, s.call("reminder_list", nil), first, second)
	contains(t, s.call("heartbeat_status", nil), "interval=14400s", "mode=message")
	s.end()
}

// TestWhatIsWrongWithAViewIsSaidAtOnce: what is whole JSON is used in part at once, what is not may not be whole yet.
func TestWhatIsWrongWithAViewIsSaidAtOnce(t *testing.T) {
	h := newHome(t)
	s := h.open()
	id := s.add(map[string]any{"inHours": 1})
	h.shows(id)
	h.write(h.config(), `{"intervalSeconds":300,"paused":true,"deliveryMode":7}`)
	contains(t, s.call("heartbeat_status", nil), "PAUSED", "interval=300s", "could be used only in part (deliveryMode")
	h.write(h.reminders(), `[{"id": "rem`)
	contains(t, s.call("reminder_list", nil), id, "was written just now and cannot be used as it stands (")
	contains(t, s.until("reminder_list", "could not be used"), id)
	if list := s.call("reminder_list", nil); strings.Contains(list, "just now") {
		t.Error(list)
	}
	s.end()
}

// TestTypingErrorInAMemberOfOursChangesNothing: also in one that only some have, while the server runs and while it does not.
func TestTypingErrorInAMemberOfOursChangesNothing(t *testing.T) {
	for _, running := range []bool{true, false} {
		h := newHome(t)
		s := h.open()
		plan := s.add(map[string]any{"message": "plan", "cron": "0 9 * * 1-5"})
		limited := s.add(map[string]any{"message": "limited", "everySeconds": 3600, "count": 3})
		s.call("heartbeat_configure", map[string]any{"activeHours": "08:00-22:30"})
		list := s.call("reminder_list", nil)
		h.shows(limited)
		h.viewShows(h.config(), "22:30")
		if !running {
			s.end()
		}
		h.write(h.reminders(), strings.NewReplacer("0 9 * * 1-5", "0 9 * * MON-FRY", `"remaining": 3`, `"remaining": "2"`, `"plan"`, `"changed"`).Replace(h.read(h.reminders())))
		h.write(h.config(), strings.Replace(h.read(h.config()), "08:00-22:30", "8-22", 1))
		if !running {
			s = h.open()
		}
		now := s.call("reminder_list", nil)
		contains(t, now, `entry 1: cron "0 9 * * MON-FRY" in the zone "America/Los_Angeles"`, `entry 2: remaining is no number ("2")`, plan, limited, `"plan"`, "3 left")
		if want := strings.Count(list, "\n"); strings.Count(now, " | next ") != want {
			t.Errorf("%s, want %d reminders", now, want)
		}
		contains(t, s.call("heartbeat_status", nil), "hours=08:00-22:30", `could be used only in part (activeHours "8-22"`)
		s.end()
	}
}

func TestSlowSaveInPlaceIsWaitedFor(t *testing.T) {
	h := newHome(t)
	s := h.open()
	s.add(map[string]any{"inHours": 1, "message": "before"})
	edited := strings.Replace(h.shows("before"), `"before"`, `"after"`, 1)
	finish := h.saveInPlace(edited)
	for range 3 { // each would have set the half file aside
		s.call("reminder_list", nil)
		s.add(map[string]any{"inHours": 2})
		time.Sleep(150 * time.Millisecond)
	}
	finish()
	contains(t, s.until("reminder_list", `"after"`), "4 reminder(s):")
	s.end()
	if aside := h.events()[journal.KindSetAside]; len(aside) != 0 {
		t.Errorf("set aside: %+v", aside[0].Body)
	}
}

// TestSlowSaveInPlaceOutlivesTheServer: what was begun to be written while it ran is taken in by the next one.
func TestSlowSaveInPlaceOutlivesTheServer(t *testing.T) {
	h := newHome(t)
	s := h.open()
	s.add(map[string]any{"inHours": 1, "message": "before"})
	edited := strings.Replace(h.shows("before"), `"before"`, `"after"`, 1)
	finish := h.saveInPlace(edited)
	contains(t, s.call("reminder_list", nil), "may not be whole yet", `"before"`)
	s.call("heartbeat_configure", map[string]any{"paused": true})
	s.end()
	finish()
	s = h.open()
	contains(t, s.call("reminder_list", nil), `"after"`, "1 reminder(s):")
	contains(t, s.call("heartbeat_status", nil), "PAUSED")
	s.end()
}

func TestDamageDoneWhileTheServerRunsIsSetAside(t *testing.T) {
	h := newHome(t)
	s := h.open()
	id := s.add(map[string]any{"inHours": 1})
	h.shows(id)
	h.write(h.reminders(), `[{"id": "rem`)
	contains(t, s.until("reminder_list", "could not be used"), id)
	contains(t, h.shows(id), id)
	s.end()
}

func TestViewRemovedWhileTheServerRunsIsRebuilt(t *testing.T) {
	h := newHome(t)
	s := h.open()
	id := s.add(map[string]any{"inHours": 1})
	h.shows(id)
	s.ok(os.Remove(h.reminders()))
	s.ok(os.Remove(h.config()))
	h.shows(id)
	s.end()
}

// segmentOf is the path of a journal's segment.
func segmentOf(h *home, first string) string { return filepath.Join(h.journal(), first) }

func TestJournalThatLostItsRecordsIsSaid(t *testing.T) {
	const first = "00000000000000000001"
	for _, c := range []struct {
		name   string
		damage func(*home) error
		says   string // beside the reminders, which the views keep
	}{
		{"emptied", func(h *home) error { return os.Truncate(segmentOf(h, first), 0) }, "holds no record"},
		{"its segment removed", func(h *home) error { return os.Remove(segmentOf(h, first)) }, "holds no record"},
		{"removed", func(h *home) error { return os.RemoveAll(h.journal()) }, "what happened before cannot be shown"},
		{"zeroed", func(h *home) error {
			return os.WriteFile(segmentOf(h, first), make([]byte, 500), 0o600)
		}, "lost its newest"},
		{"an empty segment behind a gap", func(h *home) error {
			return os.WriteFile(segmentOf(h, "00000000000000000099"), nil, 0o600)
		}, "was damaged"},
		{"garbage behind a gap", func(h *home) error {
			return os.WriteFile(segmentOf(h, "00000000000000000099"), []byte("garbage"), 0o600)
		}, "was damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHome(t)
			s := h.open()
			id := s.add(map[string]any{"inHours": 1})
			s.end()
			s.ok(c.damage(h))
			s = h.open()
			contains(t, s.call("reminder_list", nil), id, c.says, "1 reminder(s):")
			s.add(map[string]any{"inHours": 2})
			s.end()
			h.events() // fails on damage
			s = h.open()
			if again := s.call("reminder_list", nil); strings.Contains(again, "journal") || !strings.Contains(again, "2 reminder(s):") {
				t.Errorf("after the next start: %s", again)
			}
			s.end()
		})
	}
}

// TestLostBeginningOfTheJournalIsSaid: the oldest segments are gone, and no snapshot covers them.
func TestLostBeginningOfTheJournalIsSaid(t *testing.T) {
	h := newHome(t)
	s := h.open()
	text := strings.Repeat("x", 60_000)
	for range 40 {
		s.add(map[string]any{"message": text, "inHours": 1})
	}
	s.end()
	segments, err := filepath.Glob(h.path("heartbeat-journal/0*"))
	if err != nil || len(segments) < 3 {
		t.Fatal(segments, err)
	}
	for _, path := range append(segments[:len(segments)-1], h.config(), h.reminders()) {
		s.ok(os.Remove(path))
	}
	s = h.open()
	contains(t, s.call("heartbeat_status", nil), "lost its beginning")
	count := s.call("reminder_list", nil)
	s.end()
	s = h.open()
	again := s.call("reminder_list", nil)
	if strings.Contains(again, "lost its beginning") || strings.Count(again, "rem_") != strings.Count(count, "rem_") {
		t.Errorf("at the next start: %.300s", again)
	}
	s.end()
}

func TestNoPipeInAFilesPlaceHangsTheServer(t *testing.T) {
	h := newHome(t)
	for _, path := range []string{h.config(), h.reminders()} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := h.open()
	contains(t, s.call("heartbeat_status", nil), "it is no regular file", "left as it is")
	s.end()
}

// TestStaleViewBesideADamagedJournalCancelsNothing: the journal is repaired into a new generation, the views are old.
func TestStaleViewBesideADamagedJournalCancelsNothing(t *testing.T) {
	h := newHome(t)
	s := h.open()
	first := s.add(map[string]any{"inHours": 1, "message": "first"})
	old, oldConfig := h.shows(first), ""
	oldConfig = h.read(h.config())
	second := s.add(map[string]any{"inHours": 2, "message": "second"})
	third := s.add(map[string]any{"inHours": 3, "message": "third"})
	s.end()
	h.write(h.reminders(), old)
	h.write(h.config(), oldConfig)
	segment := segmentOf(h, "00000000000000000001")
	whole := h.read(segment)
	at := strings.Index(whole, second)
	h.write(segment, whole[:at]+"X"+whole[at+1:])
	s = h.open()
	contains(t, s.call("reminder_list", nil), first, third, "1 record is lost")
	s.end()
}
