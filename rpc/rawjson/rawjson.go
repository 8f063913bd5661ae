// Package rawjson takes JSON objects apart without decoding what is in them: one pass, no reflection, exact names. It is
// pure. Its input must be valid JSON and UTF-8; the members share its memory.
package rawjson

import (
	"encoding/json"
	"strings"
)

// Member is one member of an object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members are an object's members in their order, names given twice included; false where the text is no object.
func Members(text []byte) ([]Member, bool) {
	i := space(text, 0)
	if i >= len(text) || text[i] != '{' {
		return nil, false
	}
	var members []Member
	for i = space(text, i+1); i < len(text) && text[i] != '}'; i = space(text, i) {
		if text[i] == ',' {
			i = space(text, i+1)
		}
		end := skip(text, i)
		name := text[i:end]
		i = space(text, space(text, end)+1) // behind the colon
		end = skip(text, i)
		members = append(members, Member{unquote(name), text[i:end:end]})
		i = end
	}
	return members, true
}

// Get is the last value of that name in an object, nil where there is none.
func Get(text []byte, name string) json.RawMessage {
	members, _ := Members(text)
	for i := len(members) - 1; i >= 0; i-- {
		if members[i].Name == name {
			return members[i].Value
		}
	}
	return nil
}

// Text is a JSON string's text; false where the value is none.
func Text(value []byte) (string, bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	return unquote(value), true
}

func unquote(quoted []byte) string {
	inner := string(quoted[1 : len(quoted)-1])
	if !strings.Contains(inner, `\`) {
		return inner
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return inner // valid JSON has no such string
	}
	return text
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
	for i < len(text) && !strings.ContainsRune(",}] \t\r\n", rune(text[i])) {
		i++
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
