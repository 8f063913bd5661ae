package tools

import (
	"bytes"
	"encoding/json"
	"fmt"

	"heartbeat-mcpl/projection"
)

// schema is a JSON Schema, with its members in a fixed order.
type schema struct {
	Type        any        `json:"type"` // a name, or several
	Description string     `json:"description,omitempty"`
	Enum        []string   `json:"enum,omitempty"`
	Minimum     *float64   `json:"minimum,omitempty"`
	Maximum     *float64   `json:"maximum,omitempty"`
	MinLength   int        `json:"minLength,omitempty"`
	MaxLength   int        `json:"maxLength,omitempty"`
	Properties  properties `json:"properties,omitempty"`
	Required    []string   `json:"required,omitempty"`
	Items       *schema    `json:"items,omitempty"`
}

type property struct {
	name   string
	schema *schema
}

type properties []property

// MarshalJSON keeps the order of the table.
func (p properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, one := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		text, err := json.Marshal(one.schema)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", one.name, text)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (s *schema) json() json.RawMessage {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("the table is constant and its schemas must encode: %v", err))
	}
	return text
}

// InputSchema is the JSON Schema of the tool's arguments. Names that it does not hold are allowed: they are ignored, or
// refused with an answer that a schema could not give (SPEC 4.2).
func (t *Tool) InputSchema() json.RawMessage {
	s := &schema{Type: "object"}
	for _, a := range t.Args {
		s.Properties = append(s.Properties, property{a.Name, a.schema()})
		if a.Required {
			s.Required = append(s.Required, a.Name)
		}
	}
	if len(t.Args) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return s.json()
}

// OutputSchema is the JSON Schema of the tool's structured content.
func (t *Tool) OutputSchema() json.RawMessage { return t.Output.json() }

func (a *Arg) schema() *schema {
	s := &schema{Description: a.Description}
	switch a.Kind {
	case aText:
		s.Type, s.MinLength, s.MaxLength = "string", 1, a.mostBytes()
	case aTime:
		s.Type, s.MinLength, s.MaxLength = "string", 4, mostTimeText
	case aChoice:
		s.Type, s.Enum = "string", a.Choices
	case aBool:
		s.Type = "boolean"
	case aSpan:
		s.Type, s.MinLength, s.MaxLength = "string", 2, mostSpanBytes
	case aTexts:
		s.Type, s.Items = "array", &schema{Type: "string"}
	case aHours:
		least := 0.0
		s.Type, s.Minimum = "number", &least
	case aCount:
		least, most := float64(a.Least), float64(a.Most)
		s.Type, s.Minimum, s.Maximum = "integer", &least, &most
	case aLength:
		least, most := 0.0, float64(projection.MostLengthMs)/float64(a.UnitMs)
		s.Type, s.Minimum, s.Maximum = "number", &least, &most
	}
	return s
}

func (a *Arg) mostBytes() int {
	if a.MostBytes > 0 {
		return a.MostBytes
	}
	return projection.MostTextBytes
}

func prop(name string, s *schema) property { return property{name, s} }

// object is a schema all of whose properties are there.
func object(props ...property) *schema {
	s := &schema{Type: "object", Properties: props}
	for _, p := range props {
		s.Required = append(s.Required, p.name)
	}
	return s
}

func array(items *schema) *schema { return &schema{Type: "array", Items: items} }

func nullable(s *schema) *schema {
	s.Type = []any{s.Type, "null"}
	return s
}

func str(about string) *schema     { return &schema{Type: "string", Description: about} }
func number(about string) *schema  { return &schema{Type: "number", Description: about} }
func integer(about string) *schema { return &schema{Type: "integer", Description: about} }
func boolean(about string) *schema { return &schema{Type: "boolean", Description: about} }

func saved() property {
	return prop("saved", boolean("false: the change is in memory only, see notes"))
}

func notes() property {
	return prop("notes", array(str("")))
}

func reminderProps() []property {
	return []property{
		prop("id", str("the reminder's id")),
		prop("message", str("its text")),
		prop("createdAt", str("when it was set, RFC 3339 in UTC")),
		prop("fireAt", str("when it comes next, RFC 3339 in UTC")),
		prop("everySeconds", nullable(number("the interval of a recurring one"))),
		prop("cron", nullable(str("the calendar of one that has one"))),
		prop("until", nullable(str("it does not come after this"))),
		prop("remaining", nullable(integer("how often it still comes"))),
	}
}

func statusSchema(more ...property) *schema {
	props := []property{
		prop("status", &schema{Type: "string", Enum: []string{"active", "paused", "not set"}}),
		prop("deliveryMode", &schema{Type: "string", Enum: []string{projection.ModeMessage, projection.ModeSilent}}),
		prop("intervalSeconds", number("time between two heartbeats")),
		prop("nextInSeconds", nullable(number("until the next one; null while paused"))),
		prop("nextAt", nullable(str("when it comes, RFC 3339 in UTC"))),
		prop("reminders", integer("how many reminders are set")),
		prop("delivery", &schema{Type: "string", Enum: []string{"ok", "blocked"}}),
		prop("blockedReason", nullable(str("why no wake can be sent"))),
		prop("notTaken", nullable(str("what was not taken, why, when it is tried again"))),
		prop("message", str("the heartbeat's text")),
		prop("activeHours", nullable(str("it comes in these hours alone"))),
		prop("taken", integer("how many heartbeats the host took since it was set")),
		prop("lastTakenAt", nullable(str("when the last one was taken"))),
	}
	return object(append(append(props, more...), notes())...)
}
