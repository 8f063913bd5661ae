package command

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"heartbeat-mcpl/rpc/text"
	"heartbeat-mcpl/rpc/tools"
)

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		text string
		want Command
	}{
		{"", Command{Verb: Status}},
		{"  status ", Command{Verb: Status}},
		{"/heartbeat", Command{Verb: Status}},
		{"/hb pause", Command{Verb: Pause}},
		{"PAUSE", Command{Verb: Pause}},
		{"resume", Command{Verb: Resume}},
		{"clear", Command{Verb: Clear}},
		{"every 90s look", Command{Verb: Every, IntervalMs: 90_000, Prompt: "look"}},
		{"every 10m Check the deployment and report meaningful changes", Command{Verb: Every, IntervalMs: 600_000, Prompt: "Check the deployment and report meaningful changes"}},
		{"/heartbeat every 2h look", Command{Verb: Every, IntervalMs: 7_200_000, Prompt: "look"}},
		{"every 1d look", Command{Verb: Every, IntervalMs: 86_400_000, Prompt: "look"}},
		{"every 1.5h look", Command{Verb: Every, IntervalMs: 5_400_000, Prompt: "look"}},
		{"every 10 min look", Command{Verb: Every, IntervalMs: 600_000, Prompt: "look"}},
		{"every 2 hours look", Command{Verb: Every, IntervalMs: 7_200_000, Prompt: "look"}},
		{"every 1 day look", Command{Verb: Every, IntervalMs: 86_400_000, Prompt: "look"}},
		{"every 1h30m look", Command{Verb: Every, IntervalMs: 5_400_000, Prompt: "look"}},
		{"every 1 hour and 30 minutes look", Command{Verb: Every, IntervalMs: 5_400_000, Prompt: "look"}},
		{"every 10m\nlook\nand tell", Command{Verb: Every, IntervalMs: 600_000, Prompt: "look\nand tell"}},
		{"every 10m 3 builds are red?", Command{Verb: Every, IntervalMs: 600_000, Prompt: "3 builds are red?"}},
		{"every 60s x", Command{Verb: Every, IntervalMs: 60_000, Prompt: "x"}},
	} {
		if got, err := Parse(c.text); err != nil || got != c.want {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
	}
}

func TestErrorsSayWhatWouldBeRight(t *testing.T) {
	for text, want := range map[string]string{
		"every 45s look":     "45s is shorter than the least, 60s",
		"every 0m look":      "0s is shorter than the least, 60s",
		"every 10m":          "every 10m needs a prompt behind it",
		"every":              "every needs an interval and a prompt",
		"every soon look":    "does not begin with an interval: give a number with its unit, such as 90s, 10m, 2h, 1d",
		"every 10 look":      `"look" is no unit of time`,
		"every 10x look":     `"x" is no unit of time`,
		"every -10m look":    "give a number with its unit",
		"every 40000d look":  "100 years (36525 days) are the most",
		"every 10m30 look":   "give a number with its unit",
		"every 10m: look":    "give a number with its unit",
		"pause now":          `pause takes nothing behind it, and was given "now"`,
		"evry 10m look":      `"evry" is no command; did you mean every?`,
		"please wake me up":  "is no command; did you mean",
		"/heartbeatx status": "is no command",
	} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, got, err, want)
		}
	}
}

// TestLengthsReadBack: what is written as a length reads as the same.
func TestLengthsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(1, 400*86_400_000).Draw(t, "ms")
		written := text.Length(ms)
		if got, err := tools.ParseLength(written); err != nil || got != ms {
			t.Fatalf("%d is %s, which reads as %d, %v", ms, written, got, err)
		}
	})
}
