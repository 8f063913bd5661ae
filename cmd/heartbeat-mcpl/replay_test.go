package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"heartbeat-mcpl/journal"
)

// command is a subcommand on the home's files.
func (h *home) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = h.dir
	cmd.Env = append(os.Environ(), "HEARTBEAT_CONFIG_FILE="+h.config(), "HEARTBEAT_REMINDERS_FILE="+h.reminders(), "HEARTBEAT_JOURNAL_DIR="+h.journal(), "AGENT_TIMEZONE=", "HEARTBEAT_MESH_DIR="+h.meshDir())
	return cmd
}

func TestReplayFollowsARunningServer(t *testing.T) {
	h := newHome(t)
	s := h.open()
	first := s.add(map[string]any{"inHours": 1, "message": "first"})
	follow := h.command("replay", "--follow", "--json", "--kind", "add")
	out, err := follow.StdoutPipe()
	s.ok(err)
	s.ok(follow.Start())
	lines := bufio.NewScanner(out)
	next := func() string {
		if !lines.Scan() {
			t.Fatal("the end came")
		}
		var e struct {
			Kind string
			Data struct{ ID string }
		}
		s.ok(json.Unmarshal(lines.Bytes(), &e))
		return e.Data.ID
	}
	if got := next(); got != first {
		t.Errorf("first %s, want %s", got, first)
	}
	for range 3 {
		want := s.add(map[string]any{"inHours": 1, "message": "later"})
		if got := next(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	s.ok(follow.Process.Signal(syscall.SIGINT))
	if err := follow.Wait(); err != nil {
		t.Errorf("interrupted: %v", err)
	}
	// Beside a server under load, everything verifies.
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300 {
			s.add(map[string]any{"inHours": 1})
		}
	}()
	for busy := true; busy; {
		select {
		case <-done:
			busy = false
		default:
		}
		if out, err := h.command("replay", "--verify").CombinedOutput(); err != nil {
			t.Errorf("verify beside a server: %v: %s", err, out)
		}
	}
	s.end()
}

func TestReplayShowsAllThatIsWholeOfADamagedJournal(t *testing.T) {
	h := newHome(t)
	s := h.open()
	var ids []string
	for range 5 {
		ids = append(ids, s.add(map[string]any{"inHours": 1}))
	}
	s.end()
	segment := segmentOf(h, "00000000000000000001")
	whole := h.read(segment)
	at := strings.Index(whole, ids[2])
	h.write(segment, whole[:at]+"X"+whole[at+1:]+"torn")
	out, err := h.command("replay").Output()
	s.ok(err)
	for i, id := range ids {
		if strings.Contains(string(out), id) != (i != 2) {
			t.Errorf("reminder %d is shown: %v\n%s", i, i == 2, out)
		}
	}
	contains(t, string(out), "DAMAGED  the checksum does not match at byte", ": record 6 is lost in segment 00000000000000000001", "DAMAGED  a torn record at byte")
	out, err = h.command("replay", "--json").Output()
	s.ok(err)
	contains(t, string(out), `{"damage":{"segment":"00000000000000000001","offset":`)
	verify := h.command("replay", "--verify")
	out, err = verify.Output()
	if err == nil || verify.ProcessState.ExitCode() != 1 {
		t.Errorf("verify: %v", err)
	}
	contains(t, string(out), "the checksum does not match at byte", "a torn record at byte")
	if h.read(segment) != whole[:at]+"X"+whole[at+1:]+"torn" {
		t.Error("reading changed it")
	}
}

func TestReadingNeedsNoWritePermission(t *testing.T) {
	h := newHome(t)
	s := h.open()
	id := s.add(map[string]any{"inHours": 1})
	s.end()
	s.ok(filepath.WalkDir(h.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.Chmod(path, 0o555)
		}
		return os.Chmod(path, 0o444)
	}))
	t.Cleanup(func() {
		_ = os.Chmod(h.dir, 0o700)       // for the temporary folder's removal
		_ = os.Chmod(h.journal(), 0o700) // the same
	})
	for _, args := range [][]string{{"replay"}, {"replay", "--verify"}, {"audit"}, {"replay", "--at", "3", "--state"}} {
		cmd := h.command(args...)
		if os.Getuid() == 0 { // permissions say nothing to root
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			openTo(t, h.dir)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
		if args[0] == "audit" {
			contains(t, string(out), id)
		}
	}
	if entries, err := os.ReadDir(h.dir); err != nil || len(entries) != 4 {
		t.Errorf("reading left %v, %v", entries, err)
	}
}

// openTo lets everybody pass the folders above dir and run the binary.
func openTo(t *testing.T, dir string) {
	t.Helper()
	for _, path := range []string{dir, filepath.Dir(binary)} {
		for ; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, info.Mode()|0o055); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAReaderThatGoesAwayEndsItQuietly(t *testing.T) {
	h := newHome(t)
	l, err := journal.Create(h.journal(), journal.Begin{ID: journal.NewID().String(), Major: journal.Major}, 1, journal.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		var batch []journal.Event
		for i := range 100 {
			batch = append(batch, journal.Event{Index: l.Last() + 1 + uint64(i), Time: 1, Kind: journal.KindDrop, Body: &journal.Drop{Due: 1, Reason: strings.Repeat("x", 50)}})
		}
		if err := l.Append(batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"replay"}, {"replay", "--json"}, {"audit", "--csv"}, {"audit", "--json"}} {
		cmd := h.command(args...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
			t.Errorf("%v: %v: %s", args, err, stderr.String())
		}
	}
}
