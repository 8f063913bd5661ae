package tools

import (
	"slices"

	"heartbeat-mcpl/projection/slip"
)

// slipOf are the tool's arguments that a name it does not take is a slip of (SPEC 4.3).
func (c *call) slipOf(name string) []string {
	names := make([]string, len(c.tool.Args))
	for i, a := range c.tool.Args {
		names[i] = a.Name
	}
	return slip.Of(name, names, c.has)
}

// Meant are the names of which a word may be a slip (SPEC 4.3), the likest first.
func Meant(word string, names []string) []string {
	return slices.DeleteFunc(NearestOf(word, names, len(names)), func(name string) bool { return !slip.Is(word, name, false) })
}
