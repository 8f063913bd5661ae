// Package slip owns the rules by which a name counts as a misspelt form of another one (SPEC 4.3): an argument of a tool, or a
// member of a view. It is pure. Start with [Of].
package slip

import (
	"strings"

	"github.com/hbollon/go-edlib"
)

// fewEdits is how many edits make a slip, and leastPart how many letters a part of a name must have.
const (
	fewEdits  = 2
	leastPart = 3
)

// Of are the names that name is a slip of. sent says whether one of them was given, too: each is judged on its own.
func Of(name string, names []string, sent func(string) bool) []string {
	var meant []string
	for _, n := range names {
		if Is(name, n, sent(n)) {
			meant = append(meant, n)
		}
	}
	return meant
}

// Is says whether name is a slip of meant; sent: that was given, too.
func Is(name, meant string, sent bool) bool {
	n, m := Bare(name), Bare(meant)
	if n == "" {
		return false
	}
	return n == m ||
		fewEditsAway(n, m) ||
		len(n) >= leastPart && strings.Contains(m, n) ||
		len(m) >= leastPart && !sent && strings.Contains(n, m)
}

func fewEditsAway(n, m string) bool {
	if diff := len(n) - len(m); diff > fewEdits || diff < -fewEdits {
		return false
	}
	d := Distance(n, m)
	return d <= fewEdits && 2*d < min(len(n), len(m))
}

// Distance is the Damerau-Levenshtein distance, in which letters that changed places may have others between them.
func Distance(a, b string) int { return edlib.DamerauLevenshteinDistance(a, b) }

// Bare is a name without case and separators.
func Bare(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(name))
}
