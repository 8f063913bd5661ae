package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzEach holds what is taken apart against encoding/json.
func FuzzEach(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { "a" : 1 , "b":[1,{"c":"}"}], "d":"x\"y\\" } `, `{"a":null,"a":true}`, `{"\u0061\n":-1.5e3}`, `[1]`, `7`, `"x"`, "{\"k\":{\"\":{}}}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || !utf8.Valid(text) {
			t.Skip()
		}
		got := map[string]json.RawMessage{}
		isObject := Each(text, func(name []byte, value json.RawMessage) { got[string(name)] = value })
		var want map[string]json.RawMessage
		if err := json.Unmarshal(text, &want); (err == nil && want != nil) != isObject {
			t.Fatalf("%s is an object: %v", text, isObject)
		}
		if isObject && len(got) != len(want) {
			t.Fatalf("%s: %d members, want %d", text, len(got), len(want))
		}
		for name, value := range got {
			if !bytes.Equal(bytes.TrimSpace(want[name]), value) || !bytes.Equal(Get(text, name), value) {
				t.Fatalf("%s: %q is %s, want %s", text, name, value, want[name])
			}
		}
	})
}

func TestAppendIsWhatEncodingJSONSays(t *testing.T) {
	for _, v := range []any{
		nil, true, "plain", "a\"b\\c\n\u2028<é>", 7, int64(-7), 0.0, 1.5, -1e20, 1e21, 1e-7, 14399.001, map[string]any{"b": 1, "a": []string{"x"}, "c": map[string]any{}},
		[]map[string]any{{"x": nil}, nil}, []any{1, "2", []any{}}, json.RawMessage(`{"raw":1}`), []string(nil), map[string]any(nil),
		struct {
			A int `json:"a"`
		}{7},
	} {
		got, err := Append(nil, v)
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err != nil || enc.Encode(v) != nil || string(got) != strings.TrimSuffix(want.String(), "\n") {
			t.Errorf("%#v: %s, %v; want %s", v, got, err, want.String())
		}
	}
}

// FuzzAppendText holds texts against encoding/json, bytes that are not UTF-8 included.
func FuzzAppendText(f *testing.F) {
	for _, text := range []string{"", "plain", "a\"b\\c\n\r\t\b\f\x00\x1f\x7f", "\u2028\u2029\u2027é😀\ufffd", "\xff\xe2\x80", "<&>"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(text); err != nil {
			t.Fatal(err)
		}
		if got := AppendText([]byte("x"), text); string(got)+"\n" != "x"+want.String() {
			t.Errorf("%q: %s, want %s", text, got[1:], want.String())
		}
	})
}
