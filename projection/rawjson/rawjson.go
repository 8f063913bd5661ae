// Package rawjson takes JSON objects and arrays apart without decoding what is in them: one pass, no reflection, exact names. It is
// pure. Its input must be valid JSON and UTF-8; the members share its memory.
package rawjson

import (
	"bytes"
	"encoding/json"
)

// Each gives an object's members to f in their order, names given twice included; false where the text is no object. name is
// f's until it returns.
func Each(text []byte, f func(name []byte, value json.RawMessage)) (isObject bool) {
	if !IsObject(text) {
		return false
	}
	for i := space(text, space(text, 0)+1); i < len(text) && text[i] != '}'; i = space(text, i) {
		if text[i] == ',' {
			i = space(text, i+1)
		}
		end := skip(text, i)
		name := text[i:end]
		i = space(text, space(text, end)+1) // behind the colon
		end = skip(text, i)
		f(unquote(name), text[i:end:end])
		i = end
	}
	return true
}

// Items gives an array's values to f in their order; false where the text is no array.
func Items(text []byte, f func(value json.RawMessage)) (isArray bool) {
	i := space(text, 0)
	if i >= len(text) || text[i] != '[' {
		return false
	}
	for i = space(text, i+1); i < len(text) && text[i] != ']'; i = space(text, i) {
		if text[i] == ',' {
			i = space(text, i+1)
		}
		end := skip(text, i)
		f(text[i:end:end])
		i = end
	}
	return true
}

// IsObject says whether a text is an object.
func IsObject(text []byte) bool {
	i := space(text, 0)
	return i < len(text) && text[i] == '{'
}

// Get is the last value of that name in an object, nil where there is none.
func Get(text []byte, name string) (last json.RawMessage) {
	Each(text, func(have []byte, value json.RawMessage) {
		if string(have) == name {
			last = value
		}
	})
	return last
}

// Text is a JSON string's text; false where the value is none.
func Text(value []byte) (string, bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	return string(unquote(value)), true
}

// unquote is a JSON string's text; it shares memory with the string where that holds no escapes.
func unquote(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return inner // valid JSON has no such string
	}
	return []byte(text)
}

func space(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

// skip is the end of the value that begins at i.
func skip(text []byte, i int) int {
	if i >= len(text) {
		return len(text)
	}
	switch text[i] {
	case '"':
		return skipString(text, i)
	case '{', '[':
		for depth := 0; i < len(text); i++ {
			switch text[i] {
			case '"':
				i = skipString(text, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return i
	}
	for ; i < len(text); i++ {
		switch text[i] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			return i
		}
	}
	return i
}

func skipString(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
