package tools

import "heartbeat-mcpl/projection/slip"

// slipOf are the tool's arguments that a name it does not take is a slip of (SPEC 4.3).
func (c *call) slipOf(name string) []string {
	names := make([]string, len(c.tool.Args))
	for i, a := range c.tool.Args {
		names[i] = a.Name
	}
	return slip.Of(name, names, c.has)
}
