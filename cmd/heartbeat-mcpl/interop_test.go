package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"heartbeat-mcpl/rpc/tools"
)

// nodeClients is a folder with the official TypeScript clients and the MCP Inspector, installed once for a machine; a skip
// that says why where there is no Node.
func nodeClients(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("there is no %s on this machine: the TypeScript clients are not tried", name)
		}
	}
	source := filepath.Join("testdata", "node")
	manifest, err := os.ReadFile(filepath.Join(source, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("heartbeat-mcpl-interop-%x", sha256.Sum256(manifest))[:60])
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		install(t, source, dir)
	}
	script, err := os.ReadFile(filepath.Join(source, "session.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "session.mjs"), script, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// install fills a folder of another name and renames it, so that one that is there is whole.
func install(t *testing.T, source, dir string) {
	t.Helper()
	temp, err := os.MkdirTemp(filepath.Dir(dir), "heartbeat-mcpl-install-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	if err := os.CopyFS(temp, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	npm := exec.Command("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
	npm.Dir = temp
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v: %s", err, out)
	}
	if err := os.Rename(temp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
}

func TestTypeScriptClients(t *testing.T) {
	dir := nodeClients(t)
	for _, client := range []string{"sdk", "client"} { // the line of version 1, and that of version 2
		t.Run(client, func(t *testing.T) {
			h := newHome(t)
			cmd := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "session.mjs"), client, binary, "--stdio")
			cmd.Dir, cmd.Env = h.dir, append(os.Environ(), h.env...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			var seen map[string]any
			if err := json.Unmarshal(out, &seen); err != nil {
				t.Fatalf("%s: %v", out, err)
			}
			for what, want := range map[string]any{
				"server": "heartbeat-mcpl", "instructions": true, "added": "from TypeScript", "acked": 1.0, "configured": 7200.0, "refused": true,
				"list": 1.0, "history": 1.0, "context": 1.0, "feeds": "ok", "triggered": true, "cancelled": true, "config": 7200.0,
			} {
				if seen[what] != want {
					t.Errorf("%s: %v, want %v", what, seen[what], want)
				}
			}
			if got := fmt.Sprint(seen["polled"], len(seen["tools"].([]any)), len(seen["resources"].([]any))); got != fmt.Sprintf("[content] %d 3", len(tools.All())) {
				t.Errorf("polled, tools, resources: %s", got)
			}
			contains(t, seen["status"].(string), "Heartbeat ACTIVE", "delivery=polled (this host polls: get_proactive_events)")
		})
	}
}

func TestMCPInspector(t *testing.T) {
	dir := nodeClients(t)
	h := newHome(t)
	inspect := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules", ".bin", "mcp-inspector"),
			append([]string{"--cli", binary, "--stdio"}, args...)...)
		cmd.Dir, cmd.Env = h.dir, append(os.Environ(), h.env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	contains(t, inspect("--method", "tools/list"), `"name": "reminder_add"`, `"outputSchema"`)
	contains(t, inspect("--method", "tools/call", "--tool-name", "reminder_add", "--tool-arg", "message=inspected", "--tool-arg", "inHours=1"), "Reminder rem_", `\"inspected\"`)
	contains(t, inspect("--method", "resources/list"), "heartbeat://history")
	if out := inspect("--method", "resources/read", "--uri", "heartbeat://reminders"); !strings.Contains(out, "inspected") {
		t.Errorf("%s", out)
	}
}
