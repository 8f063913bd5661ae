package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzMembers holds what is taken apart against encoding/json.
func FuzzMembers(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { "a" : 1 , "b":[1,{"c":"}"}], "d":"x\"y\\" } `, `{"a":null,"a":true}`, `{"\u0061\n":-1.5e3}`, `[1]`, `7`, `"x"`, "{\"k\":{\"\":{}}}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || !utf8.Valid(text) {
			t.Skip()
		}
		members, isObject := Members(text)
		var want map[string]json.RawMessage
		if err := json.Unmarshal(text, &want); (err == nil && want != nil) != isObject {
			t.Fatalf("%s is an object: %v", text, isObject)
		}
		got := map[string]json.RawMessage{}
		for _, m := range members {
			got[m.Name] = m.Value
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
		nil, true, "plain", "a\"b\\c\n\u2028<é>", 7, int64(-7), 1.5, map[string]any{"b": 1, "a": []string{"x"}, "c": map[string]any{}},
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
