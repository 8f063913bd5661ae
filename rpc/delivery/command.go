// Package delivery owns the ways to an agent that need no session: a program that is started for each wake (SPEC 14.4).
//
// Start with [Command]. Nothing here knows of the journal: what came of a wake is returned, and the engine writes it down.
package delivery

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/kballard/go-shellquote"
)

// Wake is what a program is told of a wake.
type Wake struct {
	EventID    string
	Kind       string // heartbeat, reminder or message
	ReminderID string // empty: it is no reminder's
	Text       string // as the agent reads it
	Due        string // RFC 3339 in UTC
	Session    string // the conversation that asked for it, as its host calls it; empty: nobody knows
	Title      string
	Severity   string
	URL        string
}

// Command starts a program for wakes, never through a shell.
type Command struct {
	Args    []string      // of which each may hold the placeholders of [Parse]
	Timeout time.Duration // after which it is ended, with its whole process group
}

// Result is what came of a start.
type Result struct {
	Taken  bool
	NotNow bool   // it asks to be started again later (status 75)
	Ended  bool   // it was ended because the server ends: nobody knows what became of the wakes
	Reason string // why it was not taken
}

const (
	notNow     = 75               // EX_TEMPFAIL of sysexits.h
	killAfter  = 5 * time.Second  // between SIGTERM and SIGKILL
	mostArg    = 100 << 10        // bytes of a text in an argument or a variable: systems take little more
	mostStderr = 4 << 10          // bytes of its last words that are kept
	Timeout    = 15 * time.Minute // of a start where nothing else is said: a turn may be long
)

var placeholders = []string{"{text}", "{session}", "{kind}", "{event_id}", "{reminder_id}"}

// Parse reads a command: a JSON array of arguments, or one text that is split as a shell splits words. Arguments may hold {text},
// {session}, {kind}, {event_id} and {reminder_id}.
func Parse(command string) ([]string, error) {
	var args []string
	if strings.HasPrefix(strings.TrimSpace(command), "[") {
		if err := json.Unmarshal([]byte(command), &args); err != nil {
			return nil, fmt.Errorf("it begins like a JSON array of texts and is none: %w", err)
		}
	} else {
		var err error
		if args, err = shellquote.Split(command); err != nil {
			return nil, fmt.Errorf("its quotes cannot be understood: %w", err)
		}
	}
	if len(args) == 0 || args[0] == "" {
		return nil, errors.New("it names no program")
	}
	return args, nil
}

// Fits says whether all that the arguments want is known of a wake.
func (c *Command) Fits(w Wake) bool {
	for p, value := range w.values() {
		if value == "" && p != "{text}" && slices.ContainsFunc(c.Args, func(arg string) bool { return strings.Contains(arg, p) }) {
			return false
		}
	}
	return true
}

// Wants says whether the arguments hold a placeholder.
func (c *Command) Wants(placeholder string) bool {
	return slices.ContainsFunc(c.Args, func(arg string) bool { return strings.Contains(arg, placeholder) })
}

func (w Wake) values() map[string]string {
	return map[string]string{"{text}": w.Text, "{session}": w.Session, "{kind}": w.Kind, "{event_id}": w.EventID, "{reminder_id}": w.ReminderID}
}

// together is several wakes as one.
func together(wakes []Wake) Wake {
	one := wakes[0]
	list := func(of func(Wake) string, between string) string {
		var all []string
		for _, w := range wakes {
			if v := of(w); v != "" && !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
		return strings.Join(all, between)
	}
	one.Text = list(func(w Wake) string { return w.Text }, "\n\n")
	one.EventID = list(func(w Wake) string { return w.EventID }, ",")
	one.Kind = list(func(w Wake) string { return w.Kind }, ",")
	one.ReminderID = list(func(w Wake) string { return w.ReminderID }, ",")
	return one
}

// Run starts the program once for all the wakes, whose texts are on its stdin, and waits for its end. It is ended when ctx is done.
func (c *Command) Run(ctx context.Context, wakes []Wake) Result {
	w := together(wakes)
	args := slices.Clone(c.Args)
	for i, arg := range args {
		var pairs []string
		values := w.values()
		for _, p := range placeholders {
			pairs = append(pairs, p, passable(values[p]))
		}
		args[i] = strings.NewReplacer(pairs...).Replace(arg)
	}
	limited, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, Timeout))
	defer cancel()
	cmd := exec.CommandContext(limited, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), environment(w)...)
	cmd.Stdin, cmd.Stdout = strings.NewReader(w.Text), io.Discard
	said := new(lastWords)
	cmd.Stderr = said
	group(cmd)
	err := cmd.Run()
	switch {
	case err == nil:
		return Result{Taken: true}
	case ctx.Err() != nil:
		return Result{Ended: true, Reason: "the server ended while the program ran"}
	case limited.Err() != nil:
		return Result{Reason: fmt.Sprintf("the program ran longer than %v and was ended", cmp.Or(c.Timeout, Timeout))}
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		reason := cmp.Or(said.line(), fmt.Sprintf("the program ended with %v", exit))
		return Result{NotNow: exit.ExitCode() == notNow, Reason: reason}
	}
	return Result{Reason: fmt.Sprintf("the program cannot be started: %v", err)}
}

// environment is what the program finds in its variables.
func environment(w Wake) []string {
	var env []string
	for _, v := range []struct{ name, value string }{
		{"EVENT_ID", w.EventID}, {"KIND", w.Kind}, {"REMINDER_ID", w.ReminderID}, {"TEXT", w.Text}, {"DUE", w.Due}, {"SESSION", w.Session},
		{"TITLE", w.Title}, {"SEVERITY", w.Severity}, {"URL", w.URL},
	} {
		env = append(env, "HEARTBEAT_WAKE_"+v.name+"="+passable(v.value))
	}
	return env
}

// passable is a text as an argument or a variable can carry it: without NUL, and not too long. Its stdin carries all of it.
func passable(text string) string {
	text = strings.ReplaceAll(text, "\x00", "\ufffd")
	if len(text) > mostArg {
		text = strings.ToValidUTF8(text[:mostArg], "") + " … (cut: stdin has all of it)"
	}
	return text
}

// lastWords keeps the end of what is written.
type lastWords struct{ tail []byte }

func (l *lastWords) Write(p []byte) (int, error) {
	l.tail = append(l.tail, p...)
	if n := len(l.tail) - mostStderr; n > 0 {
		l.tail = append(l.tail[:0], l.tail[n:]...)
	}
	return len(p), nil
}

// line is the last line that is not blank.
func (l *lastWords) line() string {
	lines := bytes.Split(bytes.TrimSpace(l.tail), []byte("\n"))
	return strings.ToValidUTF8(string(bytes.TrimSpace(lines[len(lines)-1])), "\ufffd")
}
