package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"heartbeat-mcpl/cmd/internal/host"
	"heartbeat-mcpl/journal"
)

// The tests of this package drive the real binary over stdio, as a host would.

var binary string // built once

func TestMain(m *testing.M) {
	// Nobody sets it: the call makes the test's own binary hold the whole program, so that results of before a change do not
	// count as cached.
	if os.Getenv("HEARTBEAT_TEST_AS_PROGRAM") != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(withBinary(m))
}

func withBinary(m *testing.M) int {
	dir, err := os.MkdirTemp("", "heartbeat-mcpl-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "heartbeat-mcpl")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the binary: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// home is a folder with a server's files.
type home struct {
	t   *testing.T
	dir string
	env []string
}

func newHome(t *testing.T) *home {
	t.Helper()
	dir := t.TempDir()
	return &home{t: t, dir: dir, env: []string{"AGENT_TIMEZONE=America/Los_Angeles", "HEARTBEAT_MESH_DIR=" + filepath.Join(dir, "mesh")}}
}

func (h *home) path(name string) string { return filepath.Join(h.dir, name) }
func (h *home) config() string          { return h.path("heartbeat-config.json") }
func (h *home) reminders() string       { return h.path("heartbeat-reminders.json") }
func (h *home) journal() string         { return h.path("heartbeat-journal") }

func (h *home) write(path, text string) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *home) read(path string) string {
	h.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(data)
}

// shows waits until the reminders view holds the text: views follow the journal with a short delay.
func (h *home) shows(text string) string {
	h.t.Helper()
	return h.viewShows(h.reminders(), text)
}

// viewShows is the same for the view at path.
func (h *home) viewShows(path, text string) string {
	h.t.Helper()
	for limit := time.Now().Add(time.Minute); ; {
		data, err := os.ReadFile(path)
		view := string(data)
		if err == nil && strings.Contains(view, text) {
			return view
		}
		if time.Now().After(limit) {
			h.t.Fatalf("%s never showed %q: %s", path, text, view)
		}
	}
}

// saveInPlace begins to write the reminders view as an editor does; what it returns writes the rest.
func (h *home) saveInPlace(text string) (finish func()) {
	h.t.Helper()
	const half = 30
	f, err := os.OpenFile(h.reminders(), os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = f.WriteString(text[:half])
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return func() {
		h.t.Helper()
		_, err := f.WriteString(text[half:])
		if err := errors.Join(err, f.Close()); err != nil {
			h.t.Fatal(err)
		}
	}
}

// events are the journal's, by kind.
func (h *home) events() map[journal.Kind][]journal.Event {
	h.t.Helper()
	s, err := journal.NewScanner(h.journal())
	if err != nil {
		h.t.Fatal(err)
	}
	all := map[journal.Kind][]journal.Event{}
	for s.Next() {
		all[s.Event().Kind] = append(all[s.Event().Kind], s.Event())
	}
	if s.Err() != nil || len(s.Damage()) > 0 {
		h.t.Fatalf("the journal: %v, damage %+v", s.Err(), s.Damage())
	}
	return all
}

// session is a server process and a host that talks to it.
type session struct {
	*host.Host
	t *testing.T
}

// start starts a server in the home; it is ended with the test at the latest.
func (h *home) start(args ...string) *session {
	h.t.Helper()
	hs, err := host.Start(host.Options{Command: append([]string{binary, "--stdio"}, args...), Env: h.env, Dir: h.dir})
	if err != nil {
		h.t.Fatal(err)
	}
	s := &session{hs, h.t}
	h.t.Cleanup(func() {
		hs.Kill()
		if v := hs.Violations(); len(v) > 0 {
			h.t.Errorf("on stdout, where only protocol belongs: %q", v)
		}
		if h.t.Failed() {
			h.t.Logf("stderr:\n%s", strings.Join(hs.Stderr(), "\n"))
		}
	})
	return s
}

// open starts a server and does the handshake and the policy of an MCPL host.
func (h *home) open() *session {
	h.t.Helper()
	s := h.start()
	s.initialize(true)
	s.policy(host.Grant)
	return s
}

// patience bounds every wait of these tests: it says that something never came, not how fast it has to be.
func (s *session) patience() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	s.t.Cleanup(cancel)
	return ctx
}

func (s *session) initialize(withMCPL bool) {
	s.t.Helper()
	if _, err := s.Initialize(s.patience(), withMCPL, ""); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) policy(params any) string {
	s.t.Helper()
	receipt, err := s.Policy(s.patience(), params)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(receipt)
}

// call calls a tool that must not fail.
func (s *session) call(tool string, arguments any) string {
	s.t.Helper()
	r := s.result(tool, arguments)
	if r.IsError {
		s.t.Fatalf("%s: %s", tool, r.Text)
	}
	return r.Text
}

// until calls a tool until its reply holds the text, and returns the reply.
func (s *session) until(tool, text string) string {
	s.t.Helper()
	for ctx := s.patience(); ; {
		reply := s.call(tool, nil)
		if strings.Contains(reply, text) {
			return reply
		}
		if ctx.Err() != nil {
			s.t.Fatalf("%s never said %q but %q", tool, text, reply)
		}
	}
}

// fail calls a tool that must fail.
func (s *session) fail(tool string, arguments any) string {
	s.t.Helper()
	r := s.result(tool, arguments)
	if !r.IsError {
		s.t.Fatalf("%s did not fail: %s", tool, r.Text)
	}
	return r.Text
}

func (s *session) result(tool string, arguments any) host.ToolResult {
	s.t.Helper()
	r, err := s.Call(s.patience(), tool, arguments)
	if err != nil {
		s.t.Fatalf("%s: %v", tool, err)
	}
	return r
}

// add sets a reminder and returns its id.
func (s *session) add(arguments map[string]any) string {
	s.t.Helper()
	if arguments["message"] == nil {
		arguments["message"] = "m"
	}
	return reminderID(s.t, s.call("reminder_add", arguments))
}

func reminderID(t *testing.T, text string) string {
	t.Helper()
	m := regexp.MustCompile(`rem_[0-9a-z]+`).FindString(text)
	if m == "" {
		t.Fatalf("no reminder's id in %q", text)
	}
	return m
}

func (s *session) push() *host.Push {
	s.t.Helper()
	p, err := s.Push(s.patience())
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *session) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// end closes stdin and expects exit status 0.
func (s *session) end() {
	s.t.Helper()
	s.ok(s.Stop(s.patience()))
}

func (s *session) logged(text string) {
	s.t.Helper()
	if _, err := s.WaitStderr(s.patience(), text); err != nil {
		s.t.Fatal(err)
	}
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in %q", p, text)
		}
	}
}

func TestHandshakeOfEveryVersion(t *testing.T) {
	for _, c := range []struct{ asked, want string }{
		{"2024-11-05", "2024-11-05"}, {"2025-03-26", "2025-03-26"}, {"2025-06-18", "2025-06-18"}, {"2025-11-25", "2025-11-25"},
		{"2099-01-01", "2025-11-25"}, {"2026-07-28", "2025-11-25"},
	} {
		t.Run(c.asked, func(t *testing.T) {
			s := newHome(t).start()
			raw, err := s.Initialize(s.patience(), c.asked != "2025-03-26", c.asked)
			s.ok(err)
			var r struct {
				ProtocolVersion string
				Instructions    string
				ServerInfo      struct{ Name, Version, Title string }
				Capabilities    map[string]json.RawMessage
			}
			s.ok(json.Unmarshal(raw, &r))
			if r.ProtocolVersion != c.want || r.ServerInfo.Name != "heartbeat-mcpl" || r.ServerInfo.Version == "" || r.Instructions == "" {
				t.Errorf("got %s", raw)
			}
			if _, offered := r.Capabilities["experimental"]; offered != (c.asked != "2025-03-26") {
				t.Errorf("MCPL offered: %v", offered)
			}
			tools, err := s.Request(s.patience(), "tools/list", nil)
			s.ok(err)
			if has := strings.Contains(string(tools), "outputSchema"); has != (c.want >= "2025-06-18") {
				t.Errorf("output schemas for %s: %v", c.want, has)
			}
			if r := s.result("heartbeat_status", nil); (r.Structured != nil) != (c.want >= "2025-06-18") {
				t.Errorf("structured content for %s: %s", c.want, r.Structured)
			}
			s.end()
		})
	}
}

func TestStatelessClientNeedsNoHandshake(t *testing.T) {
	s := newHome(t).start()
	meta := func(version string) map[string]any {
		return map[string]any{
			"io.modelcontextprotocol/protocolVersion":    version,
			"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		}
	}
	raw, err := s.Request(s.patience(), "server/discover", map[string]any{"_meta": meta("2026-07-28")})
	s.ok(err)
	contains(t, string(raw), `"supportedVersions":["2026-07-28"]`, `"resultType":"complete"`, `"ttlMs":`, `"cacheScope":`, `"io.modelcontextprotocol/serverInfo"`)
	raw, err = s.Request(s.patience(), "tools/call", map[string]any{"name": "reminder_list", "_meta": meta("2026-07-28")})
	s.ok(err)
	contains(t, string(raw), `"resultType":"complete"`, `"structuredContent"`)
	raw, err = s.Request(s.patience(), "tools/call", map[string]any{"name": "heartbeat_status", "arguments": map[string]any{}, "_meta": meta("2026-07-28")})
	s.ok(err)
	contains(t, string(raw), "delivery=pollable (host is MCP-only")
	_, err = s.Request(s.patience(), "tools/list", map[string]any{"_meta": meta("2031-01-01")})
	if err == nil || !strings.Contains(err.Error(), "-32022") {
		t.Errorf("an unknown version: %v", err)
	}
	_, err = s.Request(s.patience(), "tools/list", map[string]any{"_meta": map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28"}})
	if err == nil || !strings.Contains(err.Error(), "-32602") {
		t.Errorf("without client capabilities: %v", err)
	}
	contains(t, s.call("heartbeat_status", nil), "delivery=pollable")
	s.end()
}

func TestManifestIsTheOneOfInitialize(t *testing.T) {
	s := newHome(t).start()
	raw, err := s.Initialize(s.patience(), true, "")
	s.ok(err)
	manifest, err := s.Request(s.patience(), "mcpl/manifest", nil)
	s.ok(err)
	contains(t, string(raw), string(manifest))
	contains(t, string(manifest), `"version":"0.5"`, `"pushEvents":true`, `"name":"heartbeat"`, `"rollback":false`, `"revision":"sha256:`)
	s.end()
}

func TestUnknownMethodsAndToolsAreAnswered(t *testing.T) {
	s := newHome(t).start()
	s.initialize(true)
	for _, c := range []struct {
		method string
		params any
		want   string
	}{
		{"nonsense", nil, "-32601"},
		{"tools/call", map[string]any{"name": "reminder_ad", "arguments": map[string]any{}}, "-32602: unknown tool \"reminder_ad\"; did you mean reminder_add?"},
		{"tools/call", map[string]any{"arguments": map[string]any{}}, "-32602"},
		{"tools/call", map[string]any{"name": "reminder_add", "arguments": []int{1}}, "-32602: arguments of reminder_add must be an object"},
		{"tools/call", map[string]any{"name": "reminder_add", "arguments": "x"}, "-32602"},
		{"featureSets/update", map[string]any{"effectiveCapabilities": "tools"}, "-32602"},
	} {
		_, err := s.Request(s.patience(), c.method, c.params)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: got %v, want %s", c.method, c.params, err, c.want)
		}
	}
	s.ok(s.Notify("notifications/unheard/of\x1b[2J\u009b\u202e\n", map[string]any{}))
	s.logged("notifications/unheard/of\ufffd[2J\\u009b\\u202e\\n") // it does nothing to a terminal
	if _, err := s.Request(s.patience(), "ping", nil); err != nil {
		t.Error(err)
	}
	s.end()
}

func TestServerEndsWellOnEOFAndSignals(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*session)
		why  string
	}{
		{"stdin closes", func(s *session) { s.ok(s.CloseStdin()) }, "stdin closed"},
		{"SIGTERM", func(s *session) { s.ok(s.Signal(syscall.SIGTERM)) }, "signal"},
		{"SIGINT", func(s *session) { s.ok(s.Signal(os.Interrupt)) }, "signal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHome(t)
			s := h.open()
			id := s.add(map[string]any{"inHours": 1})
			c.end(s)
			s.ok(s.Wait(s.patience()))
			contains(t, h.read(h.reminders()), id)
			contains(t, h.read(h.config()), `"intervalSeconds": 14400`)
			stop := h.events()[journal.KindStop]
			if len(stop) != 1 || stop[0].Body.(*journal.Stop).Reason != c.why {
				t.Errorf("stop events: %+v", stop)
			}
		})
	}
}

// TestSignalAfterTheFirstAnswer: the signals are taken over beside the start, and before anything is answered.
func TestSignalAfterTheFirstAnswer(t *testing.T) {
	t.Setenv("GOMAXPROCS", "1") // the less there is beside each other, the later it would be
	for range 20 {
		s := newHome(t).start()
		if _, err := s.Request(s.patience(), "ping", nil); err != nil {
			t.Fatal(err)
		}
		s.ok(s.Signal(syscall.SIGTERM))
		s.ok(s.Wait(s.patience()))
	}
}

func TestUnansweredPushIsNotWaitedForAtTheEnd(t *testing.T) {
	h := newHome(t)
	s := h.open()
	s.add(map[string]any{"inSeconds": 0})
	s.push()
	begun := time.Now()
	s.end()
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("the server waited %v for an answer", took)
	}
}

func TestFilesArePrivate(t *testing.T) {
	h := newHome(t)
	s := h.open()
	s.add(map[string]any{"inHours": 1})
	s.end()
	err := filepath.Walk(h.dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && path != h.dir && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTwoNamesForOneFileAreOneJournal(t *testing.T) {
	h := newHome(t)
	real := filepath.Join(h.dir, "real")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	h.write(filepath.Join(real, "c.json"), "{}\n")
	if err := os.Symlink(filepath.Join(real, "c.json"), h.config()); err != nil {
		t.Fatal(err)
	}
	s := h.open()
	s.call("heartbeat_configure", map[string]any{"intervalHours": 1})
	s.end()
	contains(t, h.read(filepath.Join(real, "c.json")), `"intervalSeconds": 3600`)
	if _, err := os.Stat(filepath.Join(real, "heartbeat-journal")); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(h.config()); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", info, err)
	}
}

func TestWrongTimeZoneIsWarnedAboutAndNeverStops(t *testing.T) {
	h := newHome(t)
	h.env = append(h.env, "AGENT_TIMEZONE=Mars/Olympus", "HEARTBEAT_KEEP=soon", "TZ=UTC")
	s := h.open()
	s.logged(`AGENT_TIMEZONE (or --timezone) "Mars/Olympus" is no time zone`)
	s.logged(`HEARTBEAT_KEEP (or --keep) "soon" is no length`)
	contains(t, s.call("reminder_add", map[string]any{"message": "x", "inHours": 1}), "+00:00 [UTC]")
	s.end()
}
