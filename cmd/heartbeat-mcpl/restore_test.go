package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"heartbeat-mcpl/journal"
)

// TestABackupThatIsPutBackWhileNoServerRunsIsSaid, and can be gone back to, with a server and without one (SPEC 2.9).
func TestABackupThatIsPutBackWhileNoServerRunsIsSaid(t *testing.T) {
	for _, running := range []bool{false, true} {
		h := newHome(t)
		s := h.open()
		tea := s.add(map[string]any{"inHours": 1, "message": "tea"})
		every := s.add(map[string]any{"everySeconds": 3600, "message": "stretch"})
		s.end()
		config, reminders := h.read(h.config()), h.read(h.reminders())
		s = h.open()
		s.call("reminder_cancel", map[string]any{"id": tea})
		later := s.add(map[string]any{"inHours": 2, "message": "later"})
		s.call("heartbeat_configure", map[string]any{"intervalHours": 9})
		s.end()
		h.write(h.config(), config)
		h.write(h.reminders(), reminders)

		var view struct{ Journal struct{ Index uint64 } }
		if err := json.Unmarshal([]byte(config), &view); err != nil {
			t.Fatal(err)
		}
		at := view.Journal.Index
		command := fmt.Sprintf("restore --at %d --config-file %s", at, h.config())
		contains(t, h.ctl("list"), later, "is older than the journal: as of ", fmt.Sprintf(", event %d. What the journal holds counts", at), command)
		if running {
			s = h.open()
			contains(t, s.call("heartbeat_status", nil), "heartbeat-config.json is older than the journal", "heartbeat-reminders.json is older than the journal", command)
			contains(t, s.call("reminder_list", nil), later)
		}
		restore := func(args ...string) string {
			t.Helper()
			out, err := h.command(append([]string{"restore", "--at", fmt.Sprint(at)}, args...)...).CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			return string(out)
		}
		preview := restore()
		contains(t, preview, fmt.Sprintf("To go back to event %d, ", at), "intervalSeconds: 32400 -> 14400", "comes back  "+tea, "goes        "+later, "Nothing was changed. Say --yes to do it.")
		if strings.Contains(preview, every) {
			t.Errorf("what goes on has not changed: %s", preview)
		}
		contains(t, restore("--json"), `"applied":false`, `"back":[{"id":"`+tea, `"gone":[{"id":"`+later)
		done := restore("--yes")
		contains(t, done, fmt.Sprintf("Restored what was at event %d, ", at), tea)
		if strings.Contains(done, "is older than") {
			t.Errorf("it is answered: %s", done)
		}
		contains(t, restore(), fmt.Sprintf("Nothing differs from what was at event %d, ", at))
		list := h.ctl("list")
		contains(t, list, tea, every, "2 reminder(s):")
		if running {
			contains(t, s.call("heartbeat_status", nil), "interval=14400s")
			s.end()
		}
		adds := h.events()[journal.KindAdd]
		if by := adds[len(adds)-1].Body.(*journal.Add).By; by != journal.ByCLI {
			t.Errorf("it was set by %s", by)
		}
	}
}

// TestACrashLeavesNoBackup: a view that is behind by what a crash explains is not said.
func TestACrashLeavesNoBackup(t *testing.T) {
	h := newHome(t)
	s := h.open()
	id := s.add(map[string]any{"inHours": 1, "message": "tea"})
	view := h.shows(id)
	s.add(map[string]any{"inHours": 2, "message": "call"})
	s.Kill()
	h.write(h.reminders(), view)
	list := h.ctl("list")
	contains(t, list, "tea", "call")
	if strings.Contains(list, "older") {
		t.Error(list)
	}
}

// TestAPastOneShotThatComesBackIsSaid.
func TestAPastOneShotThatComesBackIsSaid(t *testing.T) {
	h := newHome(t)
	id := reminderID(t, h.ctl("add", "past", "--at", "2020-01-01T09:00"))
	at := fmt.Sprint(len(h.events()[journal.KindBegin]) + len(h.events()[journal.KindStart]) + len(h.events()[journal.KindAdd]))
	h.ctl("cancel", id)
	out, err := h.command("restore", "--at", at).CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(out), "comes back  "+id, "(overdue)", "What is marked as overdue comes at once.")
	for args, want := range map[string]string{
		"restore": "say to when", "restore --at 999": "there is no such record", "restore --at 1999-01-01": "the journal begins later", "restore --at soon": "--at",
	} {
		out, err := h.command(strings.Fields(args)...).CombinedOutput()
		if err == nil {
			t.Errorf("%s: no error", args)
		}
		contains(t, string(out), want)
	}
}

// TestDoubtfulMembersByHand (SPEC 2.10): while a server runs and while none does, the entry stays as the journal has it, and it is said.
func TestDoubtfulMembersByHand(t *testing.T) {
	for _, running := range []bool{true, false} {
		h := newHome(t)
		s := h.open()
		every := s.add(map[string]any{"everySeconds": 3600, "message": "stretch"})
		once := s.add(map[string]any{"inHours": 1, "message": "tea"})
		h.shows(once)
		list := s.call("reminder_list", nil)
		if !running {
			s.end()
		}
		view := h.read(h.reminders())
		view = strings.Replace(view, `"everySeconds": 3600`, `"everySecond": 60`, 1)
		cut := strings.LastIndex(view, `"fireAt": `)
		end := cut + strings.Index(view[cut:], ",")
		h.write(h.reminders(), view[:cut]+`"fireAt": 1990000000`+view[end:])
		h.write(h.config(), strings.Replace(h.read(h.config()), `"paused": false`, `"paused": false, "pause": true, "theirs": 1`, 1))
		if !running {
			contains(t, h.ctl("list"), `"everySecond" is no member of it: did you mean everySeconds?`)
			s = h.open()
		}
		now := s.call("reminder_list", nil)
		contains(t, now, `entry 1: "everySecond" is no member of it: did you mean everySeconds?`, "entry 2: fireAt is 1990000000, which are seconds: give milliseconds, 1990000000000",
			every, once, "repeats every 3600s")
		if strings.Count(now, " | next ") != strings.Count(list, " | next ") || strings.Contains(now, "overdue") {
			t.Errorf("it was\n%s\nand is\n%s", list, now)
		}
		contains(t, s.call("heartbeat_status", nil), "Heartbeat ACTIVE", `"pause" is no member of it: did you mean paused?`)
		contains(t, h.viewShows(h.config(), "theirs"), `"paused": false`)
		s.end()
		contains(t, h.read(h.config()), `"theirs": 1`)
		if strings.Contains(h.read(h.config()), `"pause"`) || strings.Contains(h.read(h.reminders()), `"everySecond"`) {
			t.Error("the slips are kept")
		}
	}
}

// TestTimesByHandMayBeISO, in the agent's zone where they have no offset.
func TestTimesByHandMayBeISO(t *testing.T) {
	h := newHome(t)
	h.write(h.reminders(), `[{"id": "iso", "message": "tea", "createdAt": "2026-01-01", "fireAt": "2031-01-01T09:00", "until": "2031-02-01T09:00Z", "everySeconds": 3600}]`)
	contains(t, h.ctl("list", "--timezone", "America/Los_Angeles"), "iso | next 2031-01-01T09:00:00-08:00", "until 2031-02-01T01:00:00-08:00")
	s := h.open()
	contains(t, s.call("reminder_list", nil), "iso | next 2031-01-01T09:00:00-08:00")
	s.end()
	contains(t, h.read(h.reminders()), `"fireAt": 1925053200000`)
}

// TestAViewOfAnotherJournalIsLeftAlone (SPEC 2.7), while a server runs and while none does, until the right one is there.
func TestAViewOfAnotherJournalIsLeftAlone(t *testing.T) {
	for _, running := range []bool{true, false} {
		h, other := lived(t), lived(t)
		own := h.read(h.reminders())
		theirs := strings.ReplaceAll(other.read(other.reminders()), `"tea"`, `"theirs"`)
		theirConfig := strings.Replace(other.read(other.config()), "14400", "777", 1)
		var s *session
		if running {
			s = h.open()
			s.call("reminder_list", nil)
		}
		h.write(h.reminders(), theirs)
		h.write(h.config(), theirConfig)
		if !running {
			s = h.open()
		}
		list := s.call("reminder_list", nil)
		contains(t, list, `"tea"`, `"call"`, "heartbeat-reminders.json shows another journal (", "HEARTBEAT_REMINDERS_FILE")
		contains(t, s.call("heartbeat_status", nil), "interval=14400s", "heartbeat-config.json shows another journal (")
		if strings.Contains(list, "theirs") {
			t.Error(list)
		}
		s.add(map[string]any{"inHours": 3, "message": "meanwhile"})
		s.end()
		if h.read(h.reminders()) != theirs || h.read(h.config()) != theirConfig {
			t.Error("it was written")
		}
		if n := len(h.events()[journal.KindImport]) + len(h.events()[journal.KindSetAside]); n != 0 {
			t.Errorf("%d imports and copies", n)
		}
		s = h.open()
		contains(t, s.call("reminder_list", nil), "meanwhile", "shows another journal")
		h.write(h.reminders(), strings.Replace(own, `"tea"`, `"coffee"`, 1)) // the right file: an edit of it counts
		contains(t, s.call("reminder_list", nil), `"coffee"`, "meanwhile")
		if list := s.call("reminder_list", nil); strings.Contains(list, "another journal") {
			t.Error(list)
		}
		s.end()
		contains(t, h.read(h.reminders()), "meanwhile")
	}
}

// TestAnOlderVersionsViewIsOurs: it names an event, but no journal.
func TestAnOlderVersionsViewIsOurs(t *testing.T) {
	h := lived(t)
	view := h.read(h.reminders())
	at := strings.Index(view, ",\n    \"journalId\"")
	end := at + strings.Index(view[at:], "\n  }")
	h.write(h.reminders(), view[:at]+view[end:])
	s := h.open()
	list := s.call("reminder_list", nil)
	contains(t, list, "tea", "call", "2 reminder(s)")
	if strings.Contains(list, "heartbeat-reminders.json") {
		t.Error(list)
	}
	s.end()
	if n := len(h.events()[journal.KindImport]); n != 0 {
		t.Errorf("%d imports", n)
	}
	contains(t, h.read(h.reminders()), `"journalId": "`)
}

// TestFilesOfAJournalThatIsGoneAreImported (SPEC 2.4), but not those of one that is there, beside them.
func TestFilesOfAJournalThatIsGoneAreImported(t *testing.T) {
	gone, h := lived(t), newHome(t)
	h.write(h.config(), gone.read(gone.config()))
	h.write(h.reminders(), gone.read(gone.reminders()))
	contains(t, h.ctl("list"), "tea", "call")
	s := h.open()
	contains(t, s.call("reminder_list", nil), "tea", "call", "was written with is not in")
	s.Kill() // before or after the views are written again
	h.write(h.config(), gone.read(gone.config()))
	h.write(h.reminders(), gone.read(gone.reminders()))
	s = h.open()
	if list := s.call("reminder_list", nil); strings.Contains(list, "another journal") || !strings.Contains(list, "2 reminder(s)") {
		t.Error(list)
	}
	s.end()

	there, fresh := lived(t), newHome(t)
	before := there.read(there.reminders())
	fresh.env = append(fresh.env, "HEARTBEAT_REMINDERS_FILE="+there.reminders())
	s = fresh.open()
	contains(t, s.call("reminder_list", nil), "No reminders set.", "shows another journal")
	s.end()
	if there.read(there.reminders()) != before {
		t.Error("another agent's file was written")
	}
}
