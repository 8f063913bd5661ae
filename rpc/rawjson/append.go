package rawjson

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Append adds v as JSON, without the escapes that only HTML needs, object members in the order of their names. What replies
// are made of (maps, slices of maps, texts, numbers) goes without reflection; anything else as encoding/json has it.
func Append(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendText(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
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
	case []string:
		return appendList(dst, v)
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
		if dst, err = appendText(dst, name); err != nil {
			return dst, err
		}
		if dst, err = Append(append(dst, ':'), m[name]); err != nil {
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

func appendText(dst []byte, text string) ([]byte, error) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return appendOther(dst, text)
		}
	}
	return append(append(append(dst, '"'), text...), '"'), nil
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
