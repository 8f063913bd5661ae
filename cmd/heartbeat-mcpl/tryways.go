package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// tryWays are the ways to wake an agent on hosts that do not speak MCPL, as try shows them.
type tryWays struct {
	wait    bool
	channel bool
	command string
}

// plain says whether the host of the trial speaks MCP alone.
func (w tryWays) plain() bool { return w.wait || w.channel || w.command != "" }

// steps are those that take the place of a push.
func (w tryWays) steps(t *trial) []func(context.Context) error {
	steps := []func(context.Context) error{t.handshake}
	switch {
	case w.wait:
		steps = append(steps, t.waits)
	case w.channel:
		steps = append(steps, t.channels)
	case w.command != "":
		steps = append(steps, t.commands)
	}
	return append(steps, t.end)
}

// args are the server's flags.
func (w tryWays) args() []string {
	switch {
	case w.channel:
		return []string{"--channel"}
	case w.command != "":
		return []string{"--wake-command", w.command}
	}
	return nil
}

// set sets the trial's reminder, and returns when it is due.
func (t *trial) set(ctx context.Context) (time.Time, error) {
	t.title(fmt.Sprintf("The agent sets a reminder, %d seconds from now", tryDelay))
	call, cancel := context.WithTimeout(ctx, tryStep)
	defer cancel()
	r, err := t.host.Call(call, "reminder_add", map[string]any{"message": "Look at the build: is it green?", "inSeconds": tryDelay})
	if err != nil {
		return time.Time{}, fmt.Errorf("reminder_add failed: %w", err)
	}
	if r.IsError {
		return time.Time{}, fmt.Errorf("reminder_add was refused: %s", r.Text)
	}
	t.done("reminder_add")
	t.detail("%s", r.Text)
	return time.Now().Add(tryDelay * time.Second), nil
}

// waits shows a call that waits for the wake (SPEC 14.2).
func (t *trial) waits(ctx context.Context) error {
	if _, err := t.set(ctx); err != nil {
		return err
	}
	t.line("   wait_for_wake ...")
	call, cancel := context.WithTimeout(ctx, (tryDelay+5)*time.Second)
	defer cancel()
	r, err := t.host.Call(call, "wait_for_wake", map[string]any{"maxSeconds": tryDelay + 4})
	if err != nil {
		return fmt.Errorf("wait_for_wake failed: %w", err)
	}
	var data struct{ Wakes []json.RawMessage }
	if err := json.Unmarshal(r.Structured, &data); err != nil || len(data.Wakes) == 0 {
		return fmt.Errorf("wait_for_wake brought no wake: %s", r.Text)
	}
	t.done("the call that waited returned with the wake")
	t.detail("%s", r.Text)
	return t.list(ctx)
}

// channels shows a message of a Claude Code channel (SPEC 14.3).
func (t *trial) channels(ctx context.Context) error {
	if _, err := t.set(ctx); err != nil {
		return err
	}
	t.line("   waiting for a message of the channel ...")
	limited, cancel := context.WithTimeout(ctx, (tryDelay+5)*time.Second)
	defer cancel()
	raw, err := t.host.Notification(limited, "notifications/claude/channel")
	if err != nil {
		return fmt.Errorf("the message did not come: %w", err)
	}
	var p struct {
		Content string
		Meta    map[string]string
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	t.done("the message came")
	t.detail("%s", p.Content)
	call, cancel := context.WithTimeout(ctx, tryStep)
	defer cancel()
	r, err := t.host.Call(call, "acknowledge_events", map[string]any{"event_ids": []string{p.Meta["event_id"]}})
	if err != nil || r.IsError {
		return fmt.Errorf("acknowledge_events failed: %s, %w", r.Text, err)
	}
	t.done("acknowledge_events: from now on messages need none")
	return t.list(ctx)
}

// commands shows a program that is started for the wake (SPEC 14.4).
func (t *trial) commands(ctx context.Context) error {
	due, err := t.set(ctx)
	if err != nil {
		return err
	}
	t.line("   waiting for the command's start ...")
	for limit := due.Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		call, cancel := context.WithTimeout(ctx, tryStep)
		r, err := t.host.Call(call, "wake_history", map[string]any{})
		cancel()
		switch {
		case err != nil:
			return err
		case historyHas(r.Structured, "taken"):
			t.done("the command ran and ended with status 0: the wake is taken")
			return t.list(ctx)
		case historyHas(r.Structured, "refused"):
			return errors.New("the command did not take it: " + r.Text)
		case time.Now().After(limit):
			return errors.New("the command did not take it: " + r.Text)
		}
	}
}

func historyHas(data json.RawMessage, result string) bool {
	var history struct{ Wakes []struct{ Result string } }
	if json.Unmarshal(data, &history) != nil {
		return false
	}
	for _, w := range history.Wakes {
		if w.Result == result {
			return true
		}
	}
	return false
}
