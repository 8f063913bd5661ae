package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// looks are the command lines that only look.
var looks = [][]string{
	{"ctl"}, {"ctl", "status", "--json"}, {"ctl", "list"}, {"ctl", "history"}, {"mesh"}, {"replay"}, {"replay", "--verify"}, {"audit"}, {"audit", "--json"},
	{"replay", "--at", "2", "--state"}, {"restore", "--at", "2"},
}

// listing is everything in a folder, with what it holds and when it was touched.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = fmt.Sprintf("%x", sha256.Sum256(data))
		}
		all = append(all, fmt.Sprint(path, " ", info.Mode(), " ", info.ModTime().UnixNano(), " ", content))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// settled has everything in a folder look as if nobody had touched it for a while.
func settled(t *testing.T, dir string) {
	t.Helper()
	before := time.Now().Add(-time.Hour)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, before, before)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lived is a home in which a server ran and ended, with two reminders.
func lived(t *testing.T) *home {
	t.Helper()
	h := newHome(t)
	s := h.open()
	s.add(map[string]any{"inHours": 1, "message": "tea"})
	s.add(map[string]any{"inHours": 2, "message": "call"})
	s.end()
	return h
}

func (h *home) segment() string { return filepath.Join(h.journal(), "00000000000000000001") }

// TestLookingWritesNothing, whatever stands there (SPEC 2.8): no import, no file, no folder, no lock, no view made anew.
func TestLookingWritesNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		bare  bool // no server ever ran
		make  func(h *home)
		shown []string // by ctl list
		not   string
	}{
		{name: "nothing", bare: true, shown: []string{"No reminders set."}},
		{name: "only the Node.js server's two files", bare: true, make: func(h *home) {
			h.write(h.config(), nodeConfig)
			h.write(h.reminders(), nodeReminders(inAnHour()))
		}, shown: []string{"rem_lx2k9_ab1c", "rem_lx2k9_zz9z", "No server has run on ", "the first start of a server imports it"}},
		{name: "damaged files and no journal", bare: true, make: func(h *home) {
			h.write(h.reminders(), `[{"id": "to`)
		}, shown: []string{"No reminders set.", "nothing is known of what it held"}},
		{name: "all as a server left it", shown: []string{"tea", "call"}, not: "heartbeat-"},
		{name: "edited views", make: func(h *home) {
			h.write(h.reminders(), strings.Replace(h.read(h.reminders()), `"tea"`, `"coffee"`, 1))
			h.write(h.config(), strings.Replace(h.read(h.config()), `"paused": false`, `"paused": true`, 1))
		}, shown: []string{`"coffee"`, "heartbeat-reminders.json was edited (1 change): what it says is shown, and the next start of a server imports it."}, not: `"tea"`},
		{name: "damaged views", make: func(h *home) {
			h.write(h.reminders(), h.read(h.reminders())[:40])
			h.write(h.config(), "")
		}, shown: []string{"tea", "call", "heartbeat-reminders.json cannot be used (", "the next start of a server copies the file aside"}},
		{name: "a view that is usable in part", make: func(h *home) {
			h.write(h.reminders(), strings.Replace(h.read(h.reminders()), `"fireAt": `, `"fireAt": -`, 1))
		}, shown: []string{"tea", "call", "can be used only in part (entry 1: fireAt is out of range"}},
		{name: "views that cannot be read", make: func(h *home) {
			for _, path := range []string{h.config(), h.reminders()} {
				_ = os.Remove(path)
				_ = syscall.Mkfifo(path, 0o600)
			}
		}, shown: []string{"tea", "call", "heartbeat-reminders.json cannot be read (it is no regular file): what the journal holds is shown."}},
		{name: "missing views", make: func(h *home) {
			_ = os.Remove(h.config())
			_ = os.Remove(h.reminders())
		}, shown: []string{"tea", "call"}},
		{name: "an emptied view", make: func(h *home) { h.write(h.reminders(), "[]") }, shown: []string{"tea", "taken for an old copy"}},
		{name: "views of another journal", make: func(h *home) {
			other := lived(h.t)
			h.write(h.config(), other.read(other.config()))
			h.write(h.reminders(), strings.ReplaceAll(other.read(other.reminders()), `"tea"`, `"theirs"`))
		}, shown: []string{"tea", "heartbeat-reminders.json shows another journal ("}, not: "theirs"},
		{name: "a torn journal", make: func(h *home) {
			data := h.read(h.segment())
			h.write(h.segment(), data[:len(data)-5])
		}, shown: []string{"tea", "call", "is damaged (", "the next start of a server repairs it"}},
		{name: "a journal damaged in the middle", make: func(h *home) {
			data := []byte(h.read(h.segment()))
			data[len(data)/3] ^= 0xff
			h.write(h.segment(), string(data))
		}, shown: []string{"call", "is damaged ("}},
		{name: "a repair that was cut short", make: func(h *home) { _ = os.Rename(h.journal(), h.journal()+".rewrite") }, shown: []string{"tea", "call", "was cut short"}},
		{name: "a repair that was cut short earlier", make: func(h *home) {
			_ = os.Mkdir(h.journal()+".rewrite", 0o700)
			h.write(filepath.Join(h.journal()+".rewrite", "meta.json"), "{}")
		}, shown: []string{"tea", "call"}},
		{name: "a journal's folder without a record", make: func(h *home) { _ = os.Remove(h.segment()) }, shown: []string{"tea", "call", "holds no record"}},
		{name: "a journal without its small files", make: func(h *home) {
			_ = os.Remove(filepath.Join(h.journal(), "meta.json"))
			_ = os.Remove(filepath.Join(h.journal(), "reserve"))
			_ = os.Remove(h.journal() + ".lock")
		}, shown: []string{"tea", "call"}},
		{name: "the lock and the socket of a dead process", make: func(h *home) {
			h.write(h.journal()+".lock", `{"pid": 999999, "since": "2026-01-01T00:00:00Z"}`)
			h.write(h.path(".heartbeat-config.json123456"), "half of a vi")
		}, shown: []string{"tea", "call"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHome(t)
			if !c.bare {
				h = lived(t)
			}
			temp := h.path("temp")
			if err := errors.Join(os.Mkdir(temp, 0o700), os.RemoveAll(h.path("mesh"))); err != nil {
				t.Fatal(err)
			}
			if c.make != nil {
				c.make(h)
			}
			settled(t, h.dir)
			before := listing(t, h.dir)
			for _, args := range looks {
				cmd := h.command(args...)
				cmd.Env = append(cmd.Env, "TMPDIR="+temp)
				out, _ := cmd.CombinedOutput() // some are about what is not there
				if now := listing(t, h.dir); !slices.Equal(now, before) {
					t.Fatalf("%v changed the folder: %s\nit was\n%s\nand is\n%s", args, out, strings.Join(before, "\n"), strings.Join(now, "\n"))
				}
			}
			list := h.ctl("list")
			contains(t, list, c.shown...)
			if c.not != "" && strings.Contains(list, c.not) {
				t.Errorf("it shows %s: %s", c.not, list)
			}
		})
	}
}

// TestALookNeedsNoSocketFolder: where the socket's path is too long, it is in a folder that only a server makes.
func TestALookNeedsNoSocketFolder(t *testing.T) {
	h := newHome(t)
	temp := h.dir
	h.dir = filepath.Join(h.dir, strings.Repeat("a-very-long-name-", 6))
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	before := listing(t, filepath.Dir(h.dir))
	cmd := h.command("ctl", "list")
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Error(err)
	}
	contains(t, string(out), "No reminders set.")
	if now := listing(t, filepath.Dir(h.dir)); !slices.Equal(now, before) {
		t.Errorf("it was %q and is %q", before, now)
	}
}

// TestALookFromAnotherFolder: only the config file is named, and each agent's files stay its own.
func TestALookFromAnotherFolder(t *testing.T) {
	a, b := lived(t), newHome(t)
	s := b.open()
	s.add(map[string]any{"inHours": 3, "message": "of b"})
	s.end()
	for _, byFlag := range []bool{true, false} {
		beforeA, beforeB := listing(t, a.dir), listing(t, b.dir)
		for _, args := range looks {
			cmd := exec.Command(binary, args...)
			cmd.Dir, cmd.Env = b.dir, append(os.Environ(), "HEARTBEAT_CONFIG_FILE="+a.config(), "HEARTBEAT_MESH_DIR="+a.path("mesh"))
			if byFlag && args[0] != "mesh" {
				cmd.Args = append(cmd.Args, "--config-file", a.config())
				cmd.Env = cmd.Env[:len(cmd.Env)-2]
			}
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Contains(string(out), "of b") {
				t.Errorf("%v: %v, %s", args, err, out)
			}
			if args[0] == "ctl" && len(args) > 1 && args[1] == "list" {
				contains(t, string(out), "tea", "call", "2 reminder(s)")
			}
		}
		if !slices.Equal(listing(t, a.dir), beforeA) || !slices.Equal(listing(t, b.dir), beforeB) {
			t.Error("something was written")
		}
	}
}

// TestANodeSetUpWithItsRemindersInTheWorkingFolderGoesOn: it names the config file alone.
func TestANodeSetUpWithItsRemindersInTheWorkingFolderGoesOn(t *testing.T) {
	for _, c := range []struct {
		name             string
		beside, otherOne bool
		want, not        string
	}{
		{name: "only there", want: "the reminders are in the working folder's heartbeat-reminders.json", not: "none"},
		{name: "beside the config file, too", beside: true, not: "working folder"},
		{name: "beside another config file", otherOne: true, want: "is left alone, as it stands beside another config file", not: "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHome(t)
			data := h.path("data")
			if err := os.Mkdir(data, 0o700); err != nil {
				t.Fatal(err)
			}
			h.write(filepath.Join(data, "heartbeat-config.json"), nodeConfig)
			h.write(h.reminders(), nodeReminders(inAnHour()))
			if c.beside {
				h.write(filepath.Join(data, "heartbeat-reminders.json"), "[]")
			}
			if c.otherOne {
				h.write(h.config(), nodeConfig)
			}
			cmd := exec.Command(binary, "ctl", "list", "--config-file", "data/heartbeat-config.json")
			cmd.Dir = h.dir
			out, err := cmd.CombinedOutput()
			goesOn := !c.beside && !c.otherOne
			if err != nil || strings.Contains(string(out), "rem_lx2k9_ab1c") != goesOn || !strings.Contains(string(out), c.want) || strings.Contains(string(out), c.not) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestAnotherUsersFilesAreNotShownAsEmpty: what cannot be read is an error, not an invented state.
func TestAnotherUsersFilesAreNotShownAsEmpty(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can run a program as another user")
	}
	h := lived(t)
	program := h.path("program")
	data, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(program, data, 0o755), os.Chmod(h.dir, 0o755), os.Chmod(filepath.Dir(h.dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	before := listing(t, h.dir)
	for _, args := range [][]string{{"ctl"}, {"ctl", "list"}, {"ctl", "history"}, {"replay"}, {"audit"}} {
		cmd := exec.Command(program, args...)
		cmd.Dir = h.dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "permission denied") || strings.Contains(string(out), "No reminders") {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
	if !slices.Equal(listing(t, h.dir), before) {
		t.Error("something was written")
	}
}
