package projection

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection/rawjson"
)

// ViewRef ties the config view to the journal: both views show at least what the event at Index made of the state. A
// journal that ends before it has lost answered events (DESIGN: three losses that no log can see by itself).
type ViewRef struct {
	ID    string `json:"id"`
	Index uint64 `json:"index"`
}

// ConfigView is the bytes of heartbeat-config.json (SPEC 2.1). The zero ref (no journal) leaves the member out.
func ConfigView(c Config, ref ViewRef) []byte {
	var b bytes.Buffer
	w := objectWriter{b: &b, indent: "  "}
	w.open()
	w.member("intervalSeconds", seconds(c.IntervalMs))
	w.member("paused", strconv.AppendBool(nil, c.Paused))
	w.member("deliveryMode", quote(c.Mode))
	w.member("message", quote(c.Message))
	if c.Standing {
		w.member("standing", []byte("true"))
	}
	if c.Cleared {
		w.member("cleared", []byte("true"))
	}
	if c.Active != "" {
		w.member("activeHours", quote(c.Active))
	}
	w.extra(c.Extra)
	if ref.ID != "" {
		w.member("journal", []byte(`{"id": `+string(quote(ref.ID))+`, "index": `+strconv.FormatUint(ref.Index, 10)+`}`))
	}
	w.close()
	b.WriteByte('\n')
	return b.Bytes()
}

// RemindersView is the bytes of heartbeat-reminders.json (SPEC 2.2). Each entry says as journalIndex which event's state the
// view shows (0 leaves it out): so a view that lost an entry to a person differs from one that is merely old, which has
// the same entries and another index (SPEC 2.5).
func RemindersView(all []*Reminder, index uint64) []byte {
	if len(all) == 0 {
		return []byte("[]\n")
	}
	var b bytes.Buffer
	b.WriteString("[")
	b.Grow(len(all) * 192) // of a short one
	w := objectWriter{b: &b, indent: "    "}
	for i := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  ")
		w.reminder(all[i], index)
	}
	b.WriteString("\n]\n")
	return b.Bytes()
}

func (w *objectWriter) reminder(r *Reminder, index uint64) {
	w.open()
	w.member("id", quote(r.ID))
	w.member("message", quote(r.Message))
	w.member("createdAt", strconv.AppendInt(nil, r.CreatedAt, 10))
	w.member("fireAt", strconv.AppendInt(nil, r.FireAt, 10))
	every := []byte("null")
	if r.EveryMs > 0 {
		every = seconds(r.EveryMs)
	}
	w.member("everySeconds", every)
	if r.details != nil {
		w.details(r.details)
	}
	if index > 0 {
		w.member("journalIndex", strconv.AppendUint(nil, index, 10))
	}
	w.close()
}

func (w *objectWriter) details(d *journal.Details) {
	for _, m := range []struct{ name, value string }{{"title", d.Title}, {"severity", d.Severity}, {"url", d.URL}} {
		if m.value != "" {
			w.member(m.name, quote(m.value))
		}
	}
	if d.Cron != "" {
		w.member("cron", quote(d.Cron))
		w.member("timeZone", quote(d.Zone))
	}
	if d.Until > 0 {
		w.member("until", strconv.AppendInt(nil, d.Until, 10))
	}
	if d.Left > 0 {
		w.member("remaining", strconv.AppendInt(nil, int64(d.Left), 10))
	}
	w.extra(d.Extra)
}

// objectWriter writes JSON objects as JSON.stringify(value, null, 2) does; indent is that of a member.
type objectWriter struct {
	b      *bytes.Buffer
	indent string
	some   bool
}

func (w *objectWriter) open() {
	w.some = false
	w.b.WriteByte('{')
}

func (w *objectWriter) member(name string, value []byte) {
	if w.some {
		w.b.WriteByte(',')
	}
	w.some = true
	w.b.WriteString("\n" + w.indent)
	w.b.Write(quote(name))
	w.b.WriteString(": ")
	w.b.Write(value)
}

func (w *objectWriter) extra(object []byte) {
	members := membersOf(object)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var value bytes.Buffer
		if json.Indent(&value, members[name], w.indent, "  ") == nil {
			w.member(name, value.Bytes())
		}
	}
}

func (w *objectWriter) close() {
	if w.some {
		w.b.WriteString("\n" + w.indent[2:])
	}
	w.b.WriteByte('}')
}

func membersOf(object []byte) map[string]json.RawMessage {
	if len(object) == 0 {
		return nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return nil
	}
	return members
}

// seconds is a length in milliseconds as JSON seconds, exact and without an exponent.
func seconds(ms int64) []byte {
	if ms%1000 == 0 {
		return strconv.AppendInt(nil, ms/1000, 10)
	}
	return strconv.AppendFloat(nil, float64(ms)/1000, 'f', -1, 64)
}

// quote is text as a JSON string, without the escapes that only HTML needs.
func quote(text string) []byte { return rawjson.AppendText(make([]byte, 0, len(text)+2), text) }
