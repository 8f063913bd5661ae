package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/rpc/attach"
)

// ctl runs a command on the home's files; a failure is in its text.
func (h *home) ctl(args ...string) string {
	h.t.Helper()
	out, _ := h.command(append([]string{"ctl"}, args...)...).CombinedOutput()
	return string(out)
}

func TestCtlTalksToTheRunningServer(t *testing.T) {
	h := newHome(t)
	s := h.open()
	contains(t, h.ctl("every", "10m", "Check the --build"), "Updated. Heartbeat ACTIVE", `message="Check the --build"`, "delivery=ok")
	id := reminderID(t, h.ctl("add", "Stand-up", "--cron", "0 9 * * 1-5", "--count", "3"))
	contains(t, s.call("reminder_list", nil), id, `repeats by cron "0 9 * * 1-5" [America/Los_Angeles], 3 left`)
	contains(t, h.ctl("add", "soon", "--in", "1h30m"), "(~5400s)")
	contains(t, h.ctl("list"), id, "soon")
	screen := h.ctl("status")
	contains(t, screen, "Heartbeat  active", "every    10m (message)", "wakes are delivered", "Reminders  2", `"Stand-up"`)
	contains(t, h.ctl("status", "--json"), `"status":"active"`, `"intervalSeconds":600`)
	out := make(chan string, 1)
	go func() { out <- h.ctl("trigger") }()
	s.ok(s.push().Accept())
	contains(t, <-out, "Heartbeat fired.")
	contains(t, s.until("heartbeat_status", "taken=1"), "last=")
	contains(t, h.ctl("history"), "| heartbeat | taken, asked for |")
	contains(t, h.ctl("cancel", id), "Cancelled "+id)
	contains(t, h.ctl("cancel", id), "heartbeat-mcpl: there is no reminder")
	contains(t, h.ctl("pause"), "PAUSED")
	contains(t, h.ctl("resume"), "ACTIVE")
	contains(t, h.ctl("clear"), "NOT SET")
	contains(t, h.ctl("every", "45s", "x"), "45s is shorter than the least, 60s")
	contains(t, h.ctl("configure"), "give what should change")
	info, err := os.Stat(h.journal() + ".sock")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	s.end()
	if _, err := os.Stat(h.journal() + ".sock"); err == nil {
		t.Error("the socket is left behind")
	}
	for _, e := range h.events()[journal.KindConfigure] {
		if e.By() != journal.ByCLI {
			t.Errorf("a configure by %s", e.By())
		}
	}
}

// TestCtlShowsWhatAPersonEdited: also while no server runs, and before anything is there.
func TestCtlShowsWhatAPersonEdited(t *testing.T) {
	h := newHome(t)
	contains(t, h.ctl("status"), "every    4h", "(in 4h)")
	contains(t, h.ctl("every", "1h", "look around"), "ACTIVE")
	id := reminderID(t, h.ctl("add", "alone", "--at", "2031-01-01T09:00"))
	h.write(h.config(), strings.Replace(h.read(h.config()), `"intervalSeconds": 3600`, `"intervalSeconds": 7200`, 1))
	contains(t, h.ctl("status"), "every    2h", "Reminders  1")
	h.write(h.reminders(), strings.Replace(h.read(h.reminders()), `"alone"`, `"edited"`, 1))
	contains(t, h.ctl("list"), id, `"edited"`)
}

// TestCtlSpeaksTheAgentsZone: not that of the terminal, when no server runs; and it changes what is known of it for nobody else.
func TestCtlSpeaksTheAgentsZone(t *testing.T) {
	h := newHome(t)
	h.open().end()
	contains(t, h.ctl("add", "zone", "--at", "2031-01-01T09:00"), "next 2031-01-01T09:00:00-08:00 [America/Los_Angeles]", "No reminder is sent now: no server runs.")
	contains(t, h.ctl("add", "zone", "--at", "2031-01-01T09:00", "--timezone", "Europe/Berlin"), "next 2031-01-01T09:00:00+01:00 [Europe/Berlin]")
	for _, reading := range []string{"replay", "audit"} {
		shown, err := h.command(reading).CombinedOutput()
		if err != nil || !strings.Contains(string(shown), "2031-01-01 09:00") || !strings.Contains(string(shown), "2031-01-01 00:00") {
			t.Errorf("%s: %s, %v", reading, shown, err)
		}
	}
}

// TestCtlSpeaksTheZoneThatIsNamed: with a server as without one.
func TestCtlSpeaksTheZoneThatIsNamed(t *testing.T) {
	h := newHome(t)
	for _, running := range []bool{false, true} {
		var s *session
		if running {
			s = h.open()
		}
		contains(t, h.ctl("add", "x", "--at", "2031-01-01T09:00", "--timezone", "Europe/Berlin"), "Reminder rem_")
		contains(t, h.ctl("add", "x", "--cron", "0 9 * * 1-5", "--until", "2031-01-01T09:00", "--timezone", "Europe/Berlin"), `cron "0 9 * * 1-5" [Europe/Berlin], until 2031-01-01T0`)
		contains(t, h.ctl("add", "x", "--cron", "0 9 * * 1-5", "--cron-zone", "UTC", "--timezone", "Europe/Berlin"), `cron "0 9 * * 1-5" [UTC]`)
		if running {
			list := s.call("reminder_list", nil)
			if n := strings.Count(list, "next 2031-01-01T00:00:00-08:00"); n != 2 {
				t.Errorf("%d of both are at nine in Berlin: %s", n, list)
			}
			s.end()
		}
	}
}

func TestCtlSaysWhatWasAskedInItsOwnWords(t *testing.T) {
	h := newHome(t)
	contains(t, h.ctl("add", "x"), "say when: --in, --at, --every or --cron", "Run 'heartbeat-mcpl ctl add --help'")
	contains(t, h.ctl("add"), "give the reminder's text: ctl add Buy milk --in 2h")
	contains(t, h.ctl("add", "x", "--at", "noon"), `--at "noon": give a time`)
	contains(t, h.ctl("configure", "--mode", "loud"), "--mode must be one of")
	contains(t, h.ctl("cancel", "rem_x"), `there is no reminder "rem_x"; there is none at all`)
}

// TestNothingComesInThePast: what is due and waits is not what comes next, and the screen says whose clock it shows.
func TestNothingComesInThePast(t *testing.T) {
	h := newHome(t)
	h.write(h.reminders(), nodeReminders(time.Now().Add(-25*time.Hour).UnixMilli()))
	contains(t, h.ctl("every", "1m", "look"), "ACTIVE")
	h.write(h.config(), `{"intervalSeconds": 60, "paused": false, "deliveryMode": "message", "message": "look"}`)
	state := h.ctl("status", "--timezone", "America/Los_Angeles")
	contains(t, state, "times in America/Los_Angeles\n", "  next     ")
	contains(t, state, "due 1d 1h ago")

	var out strings.Builder
	past := time.Now().Add(-257 * time.Second)
	blocked := "no server runs"
	printStatus(ui{out: &out}, mustJSON(t, map[string]any{"status": "active", "nextAt": past, "blockedReason": blocked, "intervalSeconds": 600}), []byte(`{}`), time.UTC)
	contains(t, out.String(), "times in UTC\n", "  due      since "+local(past, time.UTC)+" (4m17s ago), no server runs\n")
	if strings.Contains(out.String(), "next ") {
		t.Errorf("something comes in the past: %s", out.String())
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestWhatCannotBeReadIsNotMadeUp: another user sees an error, not a heartbeat that nobody set.
func TestWhatCannotBeReadIsNotMadeUp(t *testing.T) {
	h := newHome(t)
	s := h.open()
	s.add(map[string]any{"inHours": 1})
	another := func(args ...string) (string, int) {
		cmd := h.command(args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if os.Getuid() != 0 {
		t.Skip("only root can run a program as another user")
	}
	openTo(t, h.dir)
	commands := [][]string{{"ctl"}, {"ctl", "list"}, {"ctl", "history"}, {"ctl", "status", "--json"}, {"ctl", "add", "x", "--in", "1h"}, {"replay"}, {"audit"}, {"replay", "--verify"}}
	for _, running := range []bool{true, false} {
		if !running {
			s.end()
		}
		for _, args := range commands {
			said, status := another(args...)
			if status != 1 || !strings.Contains(said, "permission denied; run it as the user of the server") || strings.Count(said, "\n") != 1 {
				t.Errorf("%v with a server: %v: status %d, %s", args, running, status, said)
			}
		}
	}
	s.ok(os.RemoveAll(h.journal())) // the two files alone, as the Node.js server leaves them
	if said, status := another("ctl", "list"); status != 1 || !strings.Contains(said, "heartbeat-config.json: permission denied; run it as") {
		t.Errorf("without a journal: status %d, %s", status, said)
	}
	if mesh, status := another("mesh", "--mesh-dir", h.path("heartbeat-config.json.d")); status != 0 || !strings.Contains(mesh, "No agents are here.") {
		t.Errorf("a mesh that is not there: status %d, %s", status, mesh)
	}
}

// TestACommandTakesTheFirstLettersOfAnID: of one reminder; those of several are listed, and one that is none is an error everywhere.
func TestACommandTakesTheFirstLettersOfAnID(t *testing.T) {
	h := newHome(t)
	for _, running := range []bool{false, true} {
		var s *session
		if running {
			s = h.open()
		}
		milk, bread := reminderID(t, h.ctl("add", "Buy", "milk", "--in", "1h")), reminderID(t, h.ctl("add", "Buy", "bread", "--in", "1h"))
		few := 5 // letters of one alone
		for strings.HasPrefix(bread, milk[:few]) {
			few++
		}
		contains(t, h.ctl("cancel", "rem_"), `ids begin with "rem_"; give more of one:`, milk, bread, `"Buy milk"`)
		contains(t, h.ctl("cancel", milk[:few]), "Cancelled "+milk)
		contains(t, h.ctl("cancel", milk), `there is no reminder "`+milk+`"; the nearest:`, bread)
		contains(t, h.ctl("history", "--id", milk), "No wakes of")
		for _, args := range [][]string{{"replay", "--reminder"}, {"audit", "--reminder"}, {"ctl", "history", "--id"}} {
			if out, err := h.command(append(args, milk[:few])...).CombinedOutput(); err != nil || !strings.Contains(string(out), milk) {
				t.Errorf("%v with the first letters: %v, %s", args, err, out)
			}
			cmd := h.command(append(args, "rem_zzzzzz")...)
			var complaint strings.Builder
			cmd.Stderr = &complaint
			out, _ := cmd.Output()
			if status := cmd.ProcessState.ExitCode(); status != 1 || len(out) > 0 || !strings.Contains(complaint.String(), `there is no reminder "rem_zzzzzz"; the nearest:`) {
				t.Errorf("%v of an id that is none: status %d, %s%s", args, status, out, complaint.String())
			}
		}
		contains(t, h.ctl("history", "--since", "24h"), "No wakes in the journal.")
		contains(t, h.ctl("history", "--since", "2026-01-01T00:00"), "No wakes in the journal.")
		if s != nil {
			s.end()
		}
	}
}

func TestCtlSaysThatNothingIsThere(t *testing.T) {
	h := newHome(t)
	warning := "no server has run on " + h.journal() + " yet"
	contains(t, h.ctl("status"), warning)
	contains(t, h.ctl("history"), "there is no journal")
	if _, err := os.Stat(h.journal()); err == nil {
		t.Error("a look made a journal")
	}
	contains(t, h.ctl("add", "x", "--in", "1h"), warning, "Reminder rem_")
	if shown := h.ctl("list"); strings.Contains(shown, warning) {
		t.Error(shown)
	}
}

func TestCtlWithoutAServerOpensTheJournal(t *testing.T) {
	h := newHome(t)
	id := reminderID(t, h.ctl("add", "alone", "--at", "2031-01-01T09:00"))
	starts := len(h.events()[journal.KindStart])
	contains(t, h.ctl("list"), id, "alone")
	contains(t, h.ctl("status"), "no wake can be sent: no server runs")
	if got := len(h.events()[journal.KindStart]); got != starts {
		t.Error("a look left a trace in the journal")
	}
	contains(t, h.ctl("trigger"), "no server runs")
	contains(t, h.read(h.reminders()), id)
	s := h.open()
	contains(t, s.call("reminder_list", nil), id)
	s.Kill() // its socket is a dead one's
	contains(t, h.ctl("add", "after a crash", "--in", "1h"), "Reminder rem_")
	s = h.open()
	contains(t, h.ctl("list"), "after a crash", "2 reminder(s)")
	s.end()
}

func TestASocketsPathMayBeTooLong(t *testing.T) {
	h := newHome(t)
	h.dir = filepath.Join(h.dir, strings.Repeat("a-very-long-name-", 6))
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := h.open()
	contains(t, h.ctl("add", "far", "--in", "1h"), "Reminder rem_")
	contains(t, s.call("reminder_list", nil), `"far"`)
	s.end()
}

// TestMeshToolsAreNotServedOnTheSocket: they are the agent's own, and the engine has none of them.
func TestMeshToolsAreNotServedOnTheSocket(t *testing.T) {
	h := newHome(t)
	s := h.open()
	r, err := attach.Ask(h.journal(), "agents_list", nil)
	s.ok(err)
	if !r.IsError || !strings.Contains(r.Text, "agents_list is not served here") {
		t.Errorf("got %+v", r)
	}
	s.call("heartbeat_status", nil)
	s.end()
}

// TestEditIsTakenInAtOnce: what a person saves is there long before anybody would look by the clock.
func TestEditIsTakenInAtOnce(t *testing.T) {
	h := newHome(t)
	s := h.open()
	id := s.add(map[string]any{"inHours": 1, "message": "before"})
	view := h.shows(id)
	time.Sleep(300 * time.Millisecond) // all writing is over
	for _, replace := range []bool{false, true} {
		edited := strings.Replace(view, `"before"`, `"after"`, 1)
		if replace { // as editors do that save by renaming
			edited = strings.Replace(view, `"before"`, `"again"`, 1)
			h.write(h.path("temp"), edited)
			s.ok(os.Rename(h.path("temp"), h.reminders()))
		} else {
			h.write(h.reminders(), edited)
		}
		want := "after"
		if replace {
			want = "again"
		}
		found := false
		for range 200 {
			if strings.Contains(readQuietly(filepath.Join(h.journal(), "00000000000000000001")), want) {
				found = true
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if !found {
			t.Errorf("%q is not in the journal", want)
		}
	}
	s.end()
}

func readQuietly(path string) string {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	return string(data)
}

func TestHeartbeatPrompt(t *testing.T) {
	h := newHome(t)
	s := h.open()
	raw, err := s.Request(s.patience(), "prompts/list", map[string]any{})
	s.ok(err)
	contains(t, string(raw), `"name":"heartbeat"`, `"name":"hb"`, `"command"`)
	raw, err = s.Request(s.patience(), "prompts/get", map[string]any{"name": "hb", "arguments": map[string]any{"command": "every 15m Check the CI run"}})
	s.ok(err)
	contains(t, string(raw), `"role":"user"`, "Heartbeat ACTIVE", "interval=900s")
	raw, err = s.Request(s.patience(), "prompts/get", map[string]any{"name": "heartbeat"})
	s.ok(err)
	contains(t, string(raw), "Check the CI run")
	for command, want := range map[string]string{"every 1s x": "1s is shorter than the least", "evry 10m x": "did you mean every"} {
		if _, err := s.Request(s.patience(), "prompts/get", map[string]any{"name": "hb", "arguments": map[string]any{"command": command}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", command, err)
		}
	}
	if _, err := s.Request(s.patience(), "prompts/get", map[string]any{"name": "none"}); err == nil || !strings.Contains(err.Error(), "there are heartbeat and hb") {
		t.Errorf("another prompt: %v", err)
	}
	s.end()
}

func TestManyCtlCommandsAtOnceLoseNothing(t *testing.T) {
	h := newHome(t)
	const commands = 12
	var all sync.WaitGroup
	for i := range commands {
		all.Go(func() {
			if out := h.ctl("add", fmt.Sprint("number ", i), "--in", "1h"); !strings.Contains(out, "Reminder rem_") {
				t.Errorf("command %d: %s", i, out)
			}
		})
	}
	all.Wait()
	contains(t, h.ctl("list"), fmt.Sprint(commands, " reminder(s)"))
}

// TestCtlSaysWhenNothingIsKept: without a server there is no memory that could keep a change.
func TestCtlSaysWhenNothingIsKept(t *testing.T) {
	h := newHome(t)
	s := h.open()
	s.add(map[string]any{"inHours": 1})
	s.end()
	s.ok(os.WriteFile(filepath.Join(h.journal(), "meta.json"), []byte(`{"id":"00000000000000000000000000000000","format":99}`), 0o600))
	cmd := h.command("ctl", "add", "lost", "--in", "5m")
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("exit: %v", err)
	}
	contains(t, string(out), "heartbeat-mcpl: nothing was kept", "newer version")
}

func TestALookMakesNothing(t *testing.T) {
	h := newHome(t)
	contains(t, h.ctl("list"), "No reminders set.")
	contains(t, h.ctl(), "Heartbeat  active", "Reminders  0")
	if entries, err := os.ReadDir(h.dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}
