package tools

import (
	"slices"
	"strings"
)

// fewEdits is how many edits make a slip (SPEC 4.3), and leastPart how many letters a part of a name must have.
const (
	fewEdits  = 2
	leastPart = 3
)

// slipOf are the tool's arguments that a name it does not take is a slip of: each is judged on its own (SPEC 4.3).
func (c *call) slipOf(name string) []string {
	var meant []string
	for _, a := range c.tool.Args {
		if isSlip(name, a.Name, c.has(a.Name)) {
			meant = append(meant, a.Name)
		}
	}
	return meant
}

// Meant are the names of which a word may be a slip (SPEC 4.3), the likest first.
func Meant(word string, names []string) []string {
	return slices.DeleteFunc(NearestOf(word, names, len(names)), func(name string) bool { return !isSlip(word, name, false) })
}

// isSlip says whether name is a slip of the argument; sent: the argument itself was given, too.
func isSlip(name, argument string, sent bool) bool {
	n, a := bare(name), bare(argument)
	if n == "" {
		return false
	}
	return n == a ||
		fewEditsAway(n, a) ||
		len(n) >= leastPart && strings.Contains(a, n) ||
		len(a) >= leastPart && !sent && strings.Contains(n, a)
}

func fewEditsAway(n, a string) bool {
	if diff := len(n) - len(a); diff > fewEdits || diff < -fewEdits {
		return false
	}
	d := distance(n, a)
	return d <= fewEdits && 2*d < min(len(n), len(a))
}

// bare is a name without case and separators.
func bare(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(name))
}
