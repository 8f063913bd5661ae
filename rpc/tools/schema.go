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
		s.Type, s.MinLength, s.MaxLength = "string", 2, projection.MostTimeText
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
	return prop("saved", boolean("false: in memory only, see notes"))
}

func notes() property {
	return prop("notes", array(str("")))
}

// reminderSchema is one reminder, with more that is always said of it; what does not apply to it is left out.
func reminderSchema(more ...property) *schema {
	always := []property{prop("id", str("")), prop("message", str("its text")), prop("fireAt", str("when it comes next")), prop("weekday", str("")),
		prop("inWords", str("how far away that is"))}
	return object(append(always, more...)...).may(
		prop("createdAt", str("")),
		prop("everySeconds", number("its interval, of elapsed time")),
		prop("repeats", str("its rule")),
		prop("cron", str("")),
		prop("until", str("")),
		prop("remaining", integer("how often it still comes")))
}

// may is the schema with properties that may be there.
func (s *schema) may(props ...property) *schema {
	s.Properties = append(s.Properties, props...)
	return s
}

func statusSchema(more ...property) *schema {
	props := []property{
		prop("status", &schema{Type: "string", Enum: []string{"active", "paused", "not set"}}),
		prop("deliveryMode", &schema{Type: "string", Enum: []string{projection.ModeMessage, projection.ModeSilent}}),
		prop("intervalSeconds", number("")),
		prop("nextInSeconds", nullable(number("null while paused"))),
		prop("nextAt", nullable(str("RFC 3339 in UTC"))),
		prop("reminders", integer("how many are set")),
		prop("delivery", &schema{Type: "string", Enum: []string{"ok", "blocked", "polled", "pollable"}}),
		prop("blockedReason", nullable(str(""))),
		prop("notTaken", nullable(&schema{Type: "object", Description: "what the host did not take, and when it is tried again"})),
		prop("message", str("")),
		prop("activeHours", nullable(str(""))),
		prop("taken", integer("how many the host took")),
		prop("lastTakenAt", nullable(str(""))),
	}
	return object(append(append(props, more...), notes())...)
}
