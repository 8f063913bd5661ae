// Package command owns the small language of the /heartbeat command (SPEC 11.1). It is the same wherever it is spoken: as an
// MCP prompt, as the tool heartbeat_command, and as `heartbeat-mcpl ctl`.
//
// Start with [Parse]. The package is pure.
package command

import (
	"fmt"
	"strings"

	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/text"
	"heartbeat-mcpl/rpc/tools"
)

// Verb is what a command does.
type Verb string

// The verbs. Their names are part of the journal's format.
const (
	Status Verb = "status"
	Every  Verb = projection.CommandEvery
	Pause  Verb = "pause"
	Resume Verb = "resume"
	Clear  Verb = "clear"
)

// Usage says what may be said.
const Usage = "every <interval> <prompt> (such as: every 10m Check the deployment), status, pause, resume, or clear"

// Command is one command.
type Command struct {
	Verb       Verb
	IntervalMs int64  // of Every
	Prompt     string // of Every
}

// Parse reads a command. Nothing is Status. An error says what would be right.
func Parse(text string) (Command, error) {
	text = strings.TrimSpace(text)
	for _, slash := range []string{"/heartbeat", "/hb"} { // as a person types it
		if rest, ok := cutWord(text, slash); ok {
			text = rest
		}
	}
	word, rest, _ := strings.Cut(text, " ")
	if i := strings.IndexAny(text, " \t\r\n"); i >= 0 {
		word, rest = text[:i], strings.TrimSpace(text[i:])
	}
	verb := Verb(strings.ToLower(word))
	switch verb {
	case "":
		return Command{Verb: Status}, nil
	case Every:
		return parseEvery(rest)
	case Status, Pause, Resume, Clear:
		if rest != "" {
			return Command{}, fmt.Errorf("%s takes nothing behind it, and was given %q; say: %s", verb, short(rest), Usage)
		}
		return Command{Verb: verb}, nil
	}
	if near := tools.NearestOf(string(verb), []string{"every", "status", "pause", "resume", "clear"}, 1); len(word) <= 12 && len(near) == 1 {
		return Command{}, fmt.Errorf("%q is no command; did you mean %s? Say: %s", short(word), near[0], Usage)
	}
	return Command{}, fmt.Errorf("%q is no command; say: %s", short(word), Usage)
}

func cutWord(text, word string) (string, bool) {
	rest, ok := strings.CutPrefix(text, word)
	if !ok || rest != "" && !strings.ContainsAny(rest[:1], " \t\r\n") {
		return text, false
	}
	return strings.TrimSpace(rest), true
}

func parseEvery(rest string) (Command, error) {
	if rest == "" {
		return Command{}, fmt.Errorf("every needs an interval and a prompt; say: %s", Usage)
	}
	ms, prompt, err := tools.CutLength(rest)
	prompt = strings.TrimSpace(prompt)
	switch {
	case err != nil:
		return Command{}, fmt.Errorf("%q does not begin with an interval: %w", short(rest), err)
	case ms < projection.LeastIntervalMs:
		return Command{}, fmt.Errorf("%s is shorter than the least, %ds", text.Length(ms), projection.LeastIntervalMs/1000)
	case prompt == "":
		return Command{}, fmt.Errorf("every %s needs a prompt behind it: what to do each time, such as: every %s Check the deployment", text.Length(ms), text.Length(ms))
	case len(prompt) > projection.MostTextBytes:
		return Command{}, fmt.Errorf("the prompt may have %d bytes at most, and has %d", projection.MostTextBytes, len(prompt))
	}
	return Command{Verb: Every, IntervalMs: ms, Prompt: prompt}, nil
}

func short(text string) string {
	const most = 40
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "..."
}
