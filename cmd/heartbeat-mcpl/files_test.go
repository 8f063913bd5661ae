package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heartbeat-mcpl/journal"
)

// nodeConfig and nodeReminders are files as the Node.js server writes them.
const nodeConfig = `{
  "intervalSeconds": 5400,
  "paused": true,
  "deliveryMode": "silent",
  "message": "[heartbeat] look around"
}`

func nodeReminders(fireAt int64) string {
	return fmt.Sprintf(`[
  {
    "id": "rem_lx2k9_ab1c",
    "message": "tea",
    "createdAt": 1760000000000,
    "fireAt": %d,
    "everySeconds": null
  },
  {
    "id": "rem_lx2k9_zz9z",
    "message": "stretch",
    "createdAt": 1760000000000,
    "fireAt": %d,
    "everySeconds": 7.5,
    "label": "mine"
  }
]`, fireAt, fireAt+1000)
}

func inAnHour() int64 { return time.Now().Add(time.Hour).UnixMilli() }

// asideOf is the name of the copy that is made of a file with that content.
func asideOf(path, content string) string {
	sum := sha256.Sum256([]byte(content))
	return path + ".unreadable-" + hex.EncodeToString(sum[:])[:16]
}

func TestFilesOfTheNodeServerAreTakenOver(t *testing.T) {
	h := newHome(t)
	h.write(h.config(), nodeConfig)
	h.write(h.reminders(), nodeReminders(inAnHour()))
	s := h.open()
	contains(t, s.call("heartbeat_status", nil), "PAUSED", "mode=silent", "interval=5400s (1.50h)", "reminders=2", `"[heartbeat] look around"`)
	contains(t, s.call("reminder_list", nil), "rem_lx2k9_ab1c", "rem_lx2k9_zz9z", "repeats every 7.5s", "2 reminder(s):")
	s.end()
	contains(t, h.read(h.reminders()), `"label": "mine"`, `"rem_lx2k9_ab1c"`)
	contains(t, h.read(h.config()), `"intervalSeconds": 5400`, `"journal": {"id": "`)
	for _, e := range h.events()[journal.KindAdd] {
		if by := e.Body.(*journal.Add).By; by != journal.ByImport {
			t.Errorf("the reminder was added by %s", by)
		}
	}
	s = h.open()
	contains(t, s.call("reminder_list", nil), "2 reminder(s):")
	s.end()
	if n := len(h.events()[journal.KindAdd]); n != 2 {
		t.Errorf("after a second start there are %d add events", n)
	}
}

func TestStaleViewIsRewritten(t *testing.T) {
	h := newHome(t)
	s := h.open()
	first := s.add(map[string]any{"inHours": 1, "message": "first"})
	oldView := h.shows(first)
	oldConfig := h.read(h.config())
	second := s.add(map[string]any{"inHours": 2, "message": "second"})
	s.call("heartbeat_configure", map[string]any{"intervalHours": 9})
	s.end()
	for _, restore := range []func(){
		func() { h.write(h.reminders(), oldView) },
		func() { h.write(h.reminders(), oldView); h.write(h.config(), oldConfig) },
		func() { h.write(h.config(), oldConfig) },
	} {
		restore()
		s = h.open()
		contains(t, s.call("reminder_list", nil), first, second)
		contains(t, s.call("heartbeat_status", nil), "interval=32400s")
		s.end()
		contains(t, h.read(h.reminders()), second)
	}
	if n := len(h.events()[journal.KindImport]); n != 0 {
		t.Errorf("%d imports of stale views", n)
	}
}

func TestEditWhileTheServerWasDownIsTakenIn(t *testing.T) {
	h := newHome(t)
	s := h.open()
	a := s.add(map[string]any{"inHours": 1, "message": "first"})
	b := s.add(map[string]any{"inHours": 2, "message": "second"})
	s.end()
	// The newest reminder is removed, the other one gets another text, and a third one is added.
	view := h.read(h.reminders())
	cut := strings.Index(view, "},")
	edited := strings.Replace(view[:cut], "first", "edited", 1) + fmt.Sprintf(`}, {"id": "by-hand", "message": "new", "createdAt": 1, "fireAt": %d, "everySeconds": null}]`, inAnHour())
	h.write(h.reminders(), edited)
	h.write(h.config(), strings.Replace(h.read(h.config()), `"paused": false`, `"paused": true`, 1))
	s = h.open()
	list := s.call("reminder_list", nil)
	contains(t, list, a, `"edited"`, "by-hand", "2 reminder(s):")
	if strings.Contains(list, b) {
		t.Errorf("what was removed by hand is still there: %s", list)
	}
	contains(t, s.call("heartbeat_status", nil), "PAUSED")
	s.end()
	// And back to what it was at first: an edit, too, although the journal had projected that before.
	h.write(h.config(), strings.Replace(h.read(h.config()), `"paused": true`, `"paused": false`, 1))
	s = h.open()
	contains(t, s.call("heartbeat_status", nil), "ACTIVE")
	s.end()
	cancels := h.events()[journal.KindCancel]
	if len(cancels) != 1 || cancels[0].Body.(*journal.Cancel).By != journal.ByFile || cancels[0].Body.(*journal.Cancel).ID != b {
		t.Errorf("cancels: %+v", cancels)
	}
}

func TestEditWhileTheServerRunsIsTakenIn(t *testing.T) {
	h := newHome(t)
	s := h.open()
	a := s.add(map[string]any{"inHours": 1, "message": "first"})
	h.shows(a)
	h.write(h.reminders(), fmt.Sprintf(`[{"id": "by-hand", "message": "new", "createdAt": 1, "fireAt": %d, "everySeconds": null}]`, inAnHour()))
	contains(t, s.until("reminder_list", "by-hand"), "1 reminder(s):")
	b := s.add(map[string]any{"inHours": 1})
	contains(t, h.shows(b), "by-hand")
	h.write(h.reminders(), "[]")
	s.until("reminder_list", "No reminders set.")
	h.write(h.config(), `{"intervalSeconds": 120}`)
	contains(t, s.until("heartbeat_status", "interval=120s"), "next in ~1")
	s.end()
	contains(t, h.read(h.config()), `"intervalSeconds": 120`, `"message": "[heartbeat]`)
}

func TestMissingViewsAreRebuilt(t *testing.T) {
	h := newHome(t)
	s := h.open()
	id := s.add(map[string]any{"inHours": 1})
	s.end()
	for _, path := range []string{h.config(), h.reminders()} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	s = h.open()
	contains(t, s.call("reminder_list", nil), id)
	s.end()
	contains(t, h.read(h.reminders()), id)
	contains(t, h.read(h.config()), `"intervalSeconds": 14400`)
}

func TestDamagedViewIsSetAsideAndRebuilt(t *testing.T) {
	for _, damage := range []string{`[{"id": "rem_x", "mess`, "", "\x00\x00\x00\x00", `{"not": "an array"}`, "null"} {
		t.Run(damage, func(t *testing.T) {
			h := newHome(t)
			s := h.open()
			id := s.add(map[string]any{"inHours": 1})
			s.end()
			h.write(h.reminders(), damage)
			s = h.open()
			copied := asideOf(h.reminders(), damage)
			contains(t, s.call("reminder_list", nil), id, "heartbeat-reminders.json could not be used", filepath.Base(copied), "rebuilt from the journal")
			contains(t, s.call("heartbeat_status", nil), "could not be used")
			s.end()
			if got := h.read(copied); got != damage {
				t.Errorf("the copy holds %q", got)
			}
			contains(t, h.read(h.reminders()), id)
			s = h.open()
			if list := s.call("reminder_list", nil); strings.Contains(list, "could not be used") {
				t.Errorf("after the next start it still says so: %s", list)
			}
			s.end()
		})
	}
}

func TestDamagedConfigWithoutAJournalStartsWithDefaults(t *testing.T) {
	h := newHome(t)
	h.write(h.config(), `{"intervalSeconds": 60, "pa`)
	s := h.open()
	contains(t, s.call("heartbeat_status", nil), "interval=14400s", "heartbeat-config.json could not be used", "starts without what it held")
	s.end()
	contains(t, h.read(asideOf(h.config(), `{"intervalSeconds": 60, "pa`)), "60")
}

func TestPartOfAViewIsUsed(t *testing.T) {
	h := newHome(t)
	s := h.open()
	kept := s.add(map[string]any{"inHours": 1, "message": "in the journal"})
	s.end()
	reminders := fmt.Sprintf(`[{"id": "good", "message": "caf%s", "createdAt": 1, "fireAt": %d, "everySeconds": null}, {"id": 7}]`, "\xe9", inAnHour())
	config := `{"intervalSeconds": 90, "paused": "yes"}`
	h.write(h.reminders(), reminders)
	h.write(h.config(), config)
	s = h.open()
	contains(t, s.call("reminder_list", nil), kept, "good", "caf\ufffd", "used only in part", "entry 2: id is no text", "U+FFFD", filepath.Base(asideOf(h.reminders(), reminders)))
	contains(t, s.call("heartbeat_status", nil), "interval=90s", "ACTIVE", "paused is neither true nor false", filepath.Base(asideOf(h.config(), config)))
	s.logged("heartbeat-reminders.json could be used only in part")
	s.end()
	if h.read(asideOf(h.reminders(), reminders)) != reminders || h.read(asideOf(h.config(), config)) != config {
		t.Error("the copies differ from the files")
	}
	if n := len(h.events()[journal.KindCancel]); n != 0 {
		t.Errorf("a file that was used in part cancelled %d reminders", n)
	}
}

func TestViewThatCannotBeReadIsLeftAlone(t *testing.T) {
	h := newHome(t)
	if err := os.Mkdir(h.reminders(), 0o700); err != nil {
		t.Fatal(err)
	}
	s := h.open()
	id := s.add(map[string]any{"inHours": 1})
	contains(t, s.call("reminder_list", nil), id, "heartbeat-reminders.json cannot be read (a folder is in its place)", "until a restart", "kept in the journal")
	s.end()
	if info, err := os.Stat(h.reminders()); err != nil || !info.IsDir() {
		t.Errorf("the folder is gone: %v", err)
	}
	if err := os.Remove(h.reminders()); err != nil {
		t.Fatal(err)
	}
	s = h.open()
	contains(t, s.call("reminder_list", nil), id)
	s.end()
	contains(t, h.read(h.reminders()), id)
}

func TestJournalThatCannotBeOpenedLeavesTheViews(t *testing.T) {
	h := newHome(t)
	h.write(h.journal(), "a file where the folder should be")
	h.write(h.config(), nodeConfig)
	h.write(h.reminders(), nodeReminders(inAnHour()))
	s := h.open()
	contains(t, s.call("reminder_list", nil), "rem_lx2k9_ab1c", "cannot be used", "left untouched", "not journalled")
	id := s.add(map[string]any{"inHours": 1})
	s.end()
	contains(t, h.read(h.reminders()), id, "rem_lx2k9_ab1c")
	if got := h.read(h.journal()); got != "a file where the folder should be" {
		t.Errorf("the journal's place holds %q", got)
	}
}

func TestLostTailOfTheJournalIsNoticed(t *testing.T) {
	t.Run("by both views", func(t *testing.T) { lostTail(t, func(*home) {}) })
	t.Run("by the reminders alone", func(t *testing.T) {
		lostTail(t, func(h *home) {
			if err := os.Remove(h.config()); err != nil {
				t.Fatal(err)
			}
		})
	})
}

func lostTail(t *testing.T, more func(*home)) {
	h := newHome(t)
	s := h.open()
	a := s.add(map[string]any{"inHours": 1, "message": "early"})
	h.shows(a)
	early := h.read(filepath.Join(h.journal(), "00000000000000000001"))
	b := s.add(map[string]any{"inHours": 2, "message": "late"})
	s.end()
	// The newest records go, exactly at a record's end: no log can see that by itself.
	h.write(filepath.Join(h.journal(), "00000000000000000001"), early)
	more(h)
	s = h.open()
	contains(t, s.call("reminder_list", nil), a, b, "lost its newest")
	s.end()
	events := h.events()
	if len(events[journal.KindHole]) == 0 {
		t.Error("no hole marks the lost indices")
	}
	s = h.open()
	contains(t, s.call("reminder_list", nil), a, b)
	s.end()
}

func TestTornTailIsSetAsideAndCutOff(t *testing.T) {
	h := newHome(t)
	s := h.open()
	a := s.add(map[string]any{"inHours": 1, "message": "kept"})
	s.end()
	segment := filepath.Join(h.journal(), "00000000000000000001")
	whole := h.read(segment)
	for _, tail := range []string{"\x40\xb7garbage", strings.Repeat("\x00", 4096), whole[len(whole)-20:]} {
		h.write(segment, h.read(segment)+tail)
		s = h.open()
		contains(t, s.call("reminder_list", nil), a, "was damaged", "heartbeat-journal.unreadable-")
		s.end()
		if got := h.read(asideOf(h.journal(), tail)); got != tail {
			t.Errorf("the copy holds %q", got)
		}
		h.events() // fails on damage
	}
}

func TestDamageInTheMiddleKeepsEveryGoodRecord(t *testing.T) {
	h := newHome(t)
	s := h.open()
	var ids []string
	for i := range 10 {
		ids = append(ids, s.add(map[string]any{"inHours": 1 + i}))
	}
	s.end()
	segment := filepath.Join(h.journal(), "00000000000000000001")
	whole := h.read(segment)
	at := strings.Index(whole, ids[4])
	h.write(segment, whole[:at]+"X"+whole[at+1:])
	damaged := h.read(segment)
	if err := os.Remove(h.reminders()); err != nil { // nothing but the journal can tell
		t.Fatal(err)
	}
	s = h.open()
	list := s.call("reminder_list", nil)
	for i, id := range ids {
		if strings.Contains(list, id) != (i != 4) {
			t.Errorf("reminder %d is there: %v", i, i == 4)
		}
	}
	contains(t, list, "was damaged", "1 record is lost")
	s.end()
	events := h.events()
	if len(events[journal.KindHole]) != 1 || len(events[journal.KindSetAside]) != 1 {
		t.Errorf("holes %v, setasides %v", events[journal.KindHole], events[journal.KindSetAside])
	}
	copied := events[journal.KindSetAside][0].Body.(*journal.SetAside).Copy
	if got := h.read(filepath.Join(copied, "00000000000000000001")); got != damaged {
		t.Error("the old folder was not kept whole")
	}
}

func TestJournalOfANewerVersionIsLeftAlone(t *testing.T) {
	h := newHome(t)
	l, err := journal.Create(h.journal(), journal.Begin{ID: journal.NewID().String(), Major: journal.Major + 1}, 1, journal.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	before := h.read(filepath.Join(h.journal(), "00000000000000000001"))
	s := h.open()
	contains(t, s.call("heartbeat_status", nil), "newer version", "left untouched")
	s.end()
	if after := h.read(filepath.Join(h.journal(), "00000000000000000001")); after != before {
		t.Error("it was written to")
	}

	h = newHome(t)
	s = h.open()
	s.end()
	h.write(h.path("heartbeat-journal/meta.json"), strings.Replace(h.read(h.path("heartbeat-journal/meta.json")), `"format":1`, fmt.Sprintf(`"format":%d`, journal.Major+1), 1))
	s = h.open()
	contains(t, s.call("heartbeat_status", nil), "newer version", "left untouched")
	s.end()
}

func TestStrayFilesOfTheLogLibraryAreMovedAside(t *testing.T) {
	h := newHome(t)
	s := h.open()
	id := s.add(map[string]any{"inHours": 1})
	s.end()
	h.write(filepath.Join(h.journal(), "00000000000000000099.START"), "stray")
	s = h.open()
	contains(t, s.call("reminder_list", nil), id, "stray file")
	s.end()
	if got := h.read(asideOf(h.journal(), "stray")); got != "stray" {
		t.Errorf("the copy holds %q", got)
	}
}
