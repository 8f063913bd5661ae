package rawjson

import (
	"encoding/json"
	"fmt"
)

// Object is a JSON object in the making, its members in the order of Put: the text up to the brace that ends it. The zero value
// has none. As with append, what Put returns takes the place of what it was called on.
type Object []byte

// firstSize holds most results without growing, in bytes.
const firstSize = 640

// Put adds a member. The names of one object must differ, and need no escapes. It panics when the value has no JSON, as only a
// mistake in this program can have it.
func (o Object) Put(name string, value any) Object {
	text, err := Append(o.begin(name), value)
	if err != nil {
		panic(fmt.Sprintf("rawjson: member %q: %v", name, err))
	}
	return text
}

// PutJSON is Put of a value that appendJSON adds.
func (o Object) PutJSON(name string, appendJSON func(dst []byte) []byte) Object {
	return appendJSON(o.begin(name))
}

// PutText is Put of a text, without an allocation.
func (o Object) PutText(name, value string) Object { return AppendText(o.begin(name), value) }

// PutTextOrNull is PutText, with null for an empty text.
func (o Object) PutTextOrNull(name, value string) Object {
	if value == "" {
		return append(o.begin(name), "null"...)
	}
	return o.PutText(name, value)
}

// PutTexts is Put of a list of texts; none of them is an empty list.
func (o Object) PutTexts(name string, texts []string) Object {
	o = append(o.begin(name), '[')
	for i, text := range texts {
		if i > 0 {
			o = append(o, ',')
		}
		o = AppendText(o, text)
	}
	return append(o, ']')
}

// begin is the object up to a member's value.
func (o Object) begin(name string) []byte {
	before := byte(',')
	if len(o) == 0 {
		before = '{'
		if cap(o) == 0 {
			o = make([]byte, 0, firstSize)
		}
	}
	return append(append(append(o, before, '"'), name...), '"', ':')
}

// JSON ends the object: nothing can be put into it any more.
func (o Object) JSON() json.RawMessage {
	if len(o) == 0 {
		return json.RawMessage("{}")
	}
	return json.RawMessage(append(o, '}'))
}

// AppendJSON adds the object as it stands.
func (o Object) AppendJSON(dst []byte) []byte {
	if len(o) == 0 {
		dst = append(dst, '{')
	}
	return append(append(dst, o...), '}')
}
