package rawjson

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Appender is a value that knows its own JSON.
type Appender interface {
	// AppendJSON adds the value, as its MarshalJSON has it.
	AppendJSON(dst []byte) []byte
}

// Append adds v as JSON, without the escapes that only HTML needs, object members in the order of their names. What replies
// are made of (maps, slices of maps, texts, numbers) goes without reflection; anything else as encoding/json has it.
func Append(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return AppendText(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case float64:
		if size := math.Abs(v); size == 0 || size >= 1e-6 && size < 1e21 { // others have an exponent, or are none in JSON
			return strconv.AppendFloat(dst, v, 'f', -1, 64), nil
		}
	case json.RawMessage:
		if v == nil {
			return append(dst, "null"...), nil
		}
		return append(dst, v...), nil
	case map[string]any:
		return appendMap(dst, v)
	case []map[string]any:
		return appendList(dst, v)
	case []any:
		return appendList(dst, v)
	case []*Object:
		return appendList(dst, v)
	case []string:
		return appendList(dst, v)
	case Appender:
		return v.AppendJSON(dst), nil
	}
	return appendOther(dst, v)
}

func appendMap(dst []byte, m map[string]any) ([]byte, error) {
	if m == nil {
		return append(dst, "null"...), nil
	}
	var names [24]string
	dst = append(dst, '{')
	sorted := slices.AppendSeq(names[:0], maps.Keys(m))
	slices.Sort(sorted)
	var err error
	for i, name := range sorted {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendText(dst, name), ':')
		if dst, err = Append(dst, m[name]); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func appendList[T any](dst []byte, list []T) ([]byte, error) {
	if list == nil {
		return append(dst, "null"...), nil
	}
	dst = append(dst, '[')
	var err error
	for i, one := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = Append(dst, one); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// stands are the bytes that stand for themselves in a JSON string.
var stands = func() (table [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// AppendText adds a JSON string, as encoding/json has it without the escapes that only HTML needs.
func AppendText(dst []byte, text string) []byte {
	dst = append(dst, '"')
	begun := 0 // of what is not added yet
	for i := 0; i < len(text); {
		if stands[text[i]] {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if escape := escapeOf(r, size); escape != "" {
			dst = append(append(dst, text[begun:i]...), escape...)
			begun = i + size
		}
		i += size
	}
	return append(append(dst, text[begun:]...), '"')
}

// escapeOf is how a character must be written in a JSON string, empty where it stands as it is.
func escapeOf(r rune, size int) string {
	switch {
	case r == '"':
		return `\"`
	case r == '\\':
		return `\\`
	case r == '\n':
		return `\n`
	case r == utf8.RuneError && size == 1: // no UTF-8
		return `\ufffd`
	case r < ' ' || r == '\u2028' || r == '\u2029':
		escaped, _ := json.Marshal(string(r)) // a string always encodes
		return string(escaped[1 : len(escaped)-1])
	}
	return ""
}

func appendOther(dst []byte, v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return dst, err
	}
	return append(dst, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...), nil
}
