package tools

import "heartbeat-mcpl/projection/slip"

// aliases are names that models use for arguments of ours, as [slip.Bare] writes them, and the argument that each means (SPEC 4.5a). They
// are refused like other slips, naming that one: a tz that is dropped is a wake at the wrong hour.
var aliases = map[string]string{
	"tz": "timeZone", "timezone": "timeZone",
	"at": "atIso", "when": "atIso", "time": "atIso", "datetime": "atIso", "from": "atIso", "start": "atIso", "startat": "atIso",
	"delay":    "in",
	"interval": "every", "repeat": "every",
	"text": "message", "content": "message", "prompt": "message", "body": "message",
	"quiethours": "activeHours",
	"reminderid": "id",
	"toagent":    "to", "agent": "to",
}

// meant are the tool's arguments that a name it does not take stands for: the one that it is an alias of, or those that it is a
// slip of.
func (c *call) meant(name string) []string {
	if argument := aliases[slip.Bare(name)]; argument != "" && c.tool.arg(argument) != nil {
		return []string{argument}
	}
	return c.slipOf(name)
}
