package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"heartbeat-mcpl/cmd/internal/host"
)

const (
	tryStep  = 5 * time.Second // how long one step may take
	tryDelay = 5               // seconds until the reminder that is set
)

// trial is one run of `try`.
type trial struct {
	ui
	host *host.Host
	dir  string

	plain bool // the host speaks MCP alone
}

// runTry plays an MCPL host against a server command, this program where none is given, in a temporary folder.
func runTry(ctx context.Context, out io.Writer, command []string, ways tryWays, color bool) error {
	if len(command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program's own file: %w", err)
		}
		command = append([]string{self, "--stdio"}, ways.args()...)
	}
	dir, err := os.MkdirTemp("", "heartbeat-mcpl-try-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer os.RemoveAll(dir)

	t := &trial{ui: ui{out, color}, dir: dir, plain: ways.plain()}
	t.title("A host starts the server: " + strings.Join(command, " "))
	t.host, err = host.Start(host.Options{Command: command, Env: []string{
		"HEARTBEAT_CONFIG_FILE=" + filepath.Join(dir, "heartbeat-config.json"),
		"HEARTBEAT_REMINDERS_FILE=" + filepath.Join(dir, "heartbeat-reminders.json"),
		"HEARTBEAT_JOURNAL_DIR=" + filepath.Join(dir, "heartbeat-journal"),
		"HEARTBEAT_MESH_DIR=" + filepath.Join(dir, "mesh"),
	}})
	if err != nil {
		return err
	}
	defer t.host.Kill()
	steps := []func(context.Context) error{t.handshake, t.policy, t.remind, t.trigger, t.list, t.end}
	if t.plain {
		steps = ways.steps(t)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			t.showLog()
			return err
		}
	}
	return t.showJournal()
}

func (t *trial) handshake(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tryStep)
	defer cancel()
	raw, err := t.host.Initialize(ctx, !t.plain, "")
	if err != nil {
		return fmt.Errorf("the handshake failed: %w", err)
	}
	var r struct {
		ProtocolVersion string `json:"protocolVersion"`
		ServerInfo      struct{ Name, Version string }
		Capabilities    struct {
			Experimental struct {
				MCPL json.RawMessage `json:"mcpl"`
			} `json:"experimental"`
		} `json:"capabilities"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("the answer to initialize cannot be read: %w", err)
	}
	t.done("initialize: %s %s, MCP %s", r.ServerInfo.Name, r.ServerInfo.Version, r.ProtocolVersion)
	if t.plain {
		return nil
	}
	if r.Capabilities.Experimental.MCPL == nil {
		return errors.New("the server does not offer MCPL (capabilities.experimental.mcpl): it cannot push wakes")
	}
	t.detail("it offers MCPL: %s", r.Capabilities.Experimental.MCPL)
	return nil
}

func (t *trial) policy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tryStep)
	defer cancel()
	receipt, err := t.host.Policy(ctx, host.Grant)
	if err != nil {
		return fmt.Errorf("the policy was not taken: %w", err)
	}
	t.done("featureSets/update: the host lets wakes through, and the server sends its receipt")
	t.detail("%s", receipt)
	return nil
}

func (t *trial) remind(ctx context.Context) error {
	due, err := t.set(ctx)
	if err != nil {
		return err
	}
	t.line("   waiting for it ...")
	push, err := t.wake(ctx, (tryDelay+5)*time.Second)
	if err != nil {
		return err
	}
	t.done("the wake arrived, %d ms after it was due", max(0, push.At.Sub(due).Milliseconds()))
	t.detail("%s", push.Text())
	return nil
}

// wake waits for a push and takes it.
func (t *trial) wake(ctx context.Context, limit time.Duration) (*host.Push, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	push, err := t.host.Push(ctx)
	if err != nil {
		return nil, fmt.Errorf("the wake did not arrive within %v: %w", limit, err)
	}
	return push, push.Accept()
}

func (t *trial) trigger(ctx context.Context) error {
	t.title("The agent asks for a heartbeat now")
	call, cancel := context.WithTimeout(ctx, tryStep)
	defer cancel()
	r, err := t.host.Call(call, "heartbeat_trigger", map[string]any{})
	if err != nil {
		return fmt.Errorf("heartbeat_trigger failed: %w", err)
	}
	if r.IsError {
		return fmt.Errorf("heartbeat_trigger was refused: %s", r.Text)
	}
	push, err := t.wake(ctx, tryStep)
	if err != nil {
		return err
	}
	t.done("heartbeat_trigger, and the heartbeat arrived")
	t.detail("%s", push.Text())
	return nil
}

func (t *trial) list(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, tryStep)
	defer cancel()
	r, err := t.host.Call(call, "reminder_list", map[string]any{})
	if err != nil {
		return fmt.Errorf("reminder_list failed: %w", err)
	}
	t.done("reminder_list: the reminder was taken, so it is gone")
	t.detail("%s", r.Text)
	return nil
}

func (t *trial) end(ctx context.Context) error {
	t.title("The host goes away")
	ctx, cancel := context.WithTimeout(ctx, tryStep)
	defer cancel()
	if err := t.host.Stop(ctx); err != nil {
		return fmt.Errorf("the server did not end well: %w", err)
	}
	t.done("stdin closed: the server ended with exit status 0")
	for _, line := range t.host.Violations() {
		t.odd("on stdout, where only protocol belongs: %s", line)
	}
	return nil
}

// showLog prints what the server said on stderr: it may tell why a step failed.
func (t *trial) showLog() {
	if lines := t.host.Stderr(); len(lines) > 0 {
		t.odd("the server's log:")
		t.detail("%s", strings.Join(lines, "\n"))
	}
}

func (t *trial) showJournal() error {
	dir := filepath.Join(t.dir, "heartbeat-journal")
	if _, err := os.Stat(dir); err != nil {
		t.line("\n   This server keeps no journal.")
		return nil
	}
	t.title("The events that the journal now holds")
	f := replayFlags{settings: settings{journalDir: dir}}
	p := &eventPrinter{ui: t.ui, out: bufio.NewWriter(t.out), zone: time.UTC}
	return errors.Join(f.print(context.Background(), p, span{}), p.out.Flush())
}
