package journal

import (
	"encoding/json"
)

// By is who caused the event: what its body says, or what follows from its kind (SPEC 9.1).
func (e Event) By() Source {
	switch b := e.Body.(type) {
	case *Configure:
		return b.By
	case *Add:
		return b.By
	case *Cancel:
		return b.By
	case *Fire:
		return b.By
	case *Import:
		return b.By
	case *Ack:
		if b.By != "" {
			return b.By
		}
		return ByHost
	case *Refuse, *Policy, *Told:
		return ByHost
	case *Drop, *Tell:
		return ByTimer
	case *CheckIn, *Present, *Touch, *Message, *Read:
		return ByTool
	}
	return ByServer
}

// MarshalJSON is the event as `replay --json` shows it, in a shape that is stable:
//
//	{"index": 7, "time": "2026-10-10T15:02:36.123Z", "kind": "add", "by": "tool", "data": {...}}
//
// data has the members of the kind's body; in it times are Unix milliseconds, as in the views. Of a kind that this version
// does not know it is {"raw": "<the msgpack body in base64>"}, of a part of a snapshot its numbers and size.
func (e Event) MarshalJSON() ([]byte, error) {
	shown := struct {
		Index uint64 `json:"index"`
		Time  string `json:"time"`
		Kind  string `json:"kind"`
		By    Source `json:"by"`
		Data  any    `json:"data"`
	}{e.Index, e.When().Format("2006-01-02T15:04:05.000Z"), e.Kind.String(), e.By(), e.Body}
	switch b := e.Body.(type) {
	case nil:
		shown.Data = struct {
			Raw []byte `json:"raw"`
		}{e.Raw}
	case *Snapshot:
		shown.Data = struct {
			*Snapshot
			Bytes int `json:"bytes"`
		}{b, len(b.Data)}
	}
	return json.Marshal(shown)
}
