package tools

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"

	"heartbeat-mcpl/projection/rawjson"
)

var decimalForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-?\d+(\.\d+)?$`) })

// mended is a value as the argument's type has it, where a host or model that sends every value as a text gave it as one
// (SPEC 4.5): a plain decimal number, true or false, an array in a text, or one bare text for a list. Nothing else is guessed.
func (a *Arg) mended(raw json.RawMessage) json.RawMessage {
	text, isText := rawjson.Text(raw)
	if !isText {
		return raw
	}
	switch a.Kind {
	case aLength, aCount, aHours:
		if decimalForm().MatchString(text) {
			return json.RawMessage(text)
		}
	case aBool:
		if text == "true" || text == "false" {
			return json.RawMessage(text)
		}
	case aTexts:
		inner := json.RawMessage(strings.TrimSpace(text))
		switch {
		case len(inner) == 0:
		case inner[0] == '[' && json.Valid(inner):
			return inner
		default:
			return append(append(json.RawMessage("["), raw...), ']')
		}
	}
	return raw
}
