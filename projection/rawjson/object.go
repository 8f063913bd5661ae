package rawjson

import (
	"encoding/json"
	"fmt"
)

// Object is a JSON object in the making, its members in the order of Put. The zero value has none.
type Object struct{ text []byte }

// firstSize holds most results without growing, in bytes.
const firstSize = 640

// Put adds a member, and returns o. The names of one object must differ, and need no escapes. It panics when the value has no
// JSON, as only a mistake in this program can have it.
func (o *Object) Put(name string, value any) *Object {
	text, err := Append(o.begin(name), value)
	if err != nil {
		panic(fmt.Sprintf("rawjson: member %q: %v", name, err))
	}
	o.text = text
	return o
}

// PutJSON is Put of a value that appendJSON adds.
func (o *Object) PutJSON(name string, appendJSON func(dst []byte) []byte) *Object {
	o.text = appendJSON(o.begin(name))
	return o
}

// PutText is Put of a text, without an allocation.
func (o *Object) PutText(name, value string) *Object {
	o.text = AppendText(o.begin(name), value)
	return o
}

// PutTextOrNull is PutText, with null for an empty text.
func (o *Object) PutTextOrNull(name, value string) *Object {
	if value == "" {
		return o.Put(name, nil)
	}
	return o.PutText(name, value)
}

// PutTexts is Put of a list of texts; none of them is an empty list.
func (o *Object) PutTexts(name string, texts []string) *Object {
	o.text = append(o.begin(name), '[')
	for i, text := range texts {
		if i > 0 {
			o.text = append(o.text, ',')
		}
		o.text = AppendText(o.text, text)
	}
	o.text = append(o.text, ']')
	return o
}

// begin is the object up to a member's value.
func (o *Object) begin(name string) []byte {
	if o.text == nil {
		o.text = append(make([]byte, 0, firstSize), '{')
	} else {
		o.text = append(o.text, ',')
	}
	return append(append(append(o.text, '"'), name...), `":`...)
}

// JSON ends the object: nothing can be put into it any more.
func (o *Object) JSON() json.RawMessage {
	if o.text == nil {
		return json.RawMessage("{}")
	}
	return append(o.text, '}')
}

// AppendJSON adds the object as it stands.
func (o *Object) AppendJSON(dst []byte) []byte { return append(dst, o.JSON()...) }
