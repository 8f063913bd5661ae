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
	case []Object:
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

// AppendText adds a JSON string, as encoding/json has it without the escapes that only HTML needs.
func AppendText(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for {
		n := Plain(text)
		dst, text = append(dst, text[:n]...), text[n:]
		if text == "" {
			return append(dst, '"')
		}
		r, size := utf8.DecodeRuneInString(text)
		if escape := escapeOf(r, size); escape != "" {
			dst = append(dst, escape...)
		} else {
			dst = append(dst, text[:size]...)
		}
		text = text[size:]
	}
}

// Plain is how many bytes at a text's beginning stand for themselves in a JSON string. It looks at eight of them at once: a
// byte's top bit is set by what is no ASCII, by what a subtraction takes below zero, and by what was made zero before it.
func Plain(text string) int {
	const each, top = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(text); i += 8 {
		t := text[i : i+8]
		w := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 | uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		if (w|(w-each*' ')|((w^each*'"')-each)|((w^each*'\\')-each))&top != 0 {
			break
		}
	}
	for i < len(text) && plain[text[i]] {
		i++
	}
	return i
}

// plain is which bytes stand for themselves in a JSON string.
var plain = func() (is [256]bool) {
	for b := ' '; b < utf8.RuneSelf; b++ {
		is[b] = b != '"' && b != '\\'
	}
	return is
}()

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
