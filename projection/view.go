package projection

import (
	"bytes"
	"encoding/json"
	"io"
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
	w := objectWriter{indent: "  "}
	w.open()
	w.raw("intervalSeconds", Length(c.IntervalMs).AppendJSON(nil))
	w.raw("paused", strconv.AppendBool(nil, c.Paused))
	w.text("deliveryMode", c.Mode)
	w.text("message", c.Message)
	if c.Standing {
		w.raw("standing", []byte("true"))
	}
	if c.Cleared {
		w.raw("cleared", []byte("true"))
	}
	if c.Active != "" {
		w.text("activeHours", c.Active)
	}
	w.extra(c.Extra)
	if ref.ID != "" {
		w.raw("journal", []byte(`{"id": `+string(quote(ref.ID))+`, "index": `+strconv.FormatUint(ref.Index, 10)+`}`))
	}
	w.close()
	return append(w.b, '\n')
}

// RemindersView is the bytes of heartbeat-reminders.json (SPEC 2.2). Each entry says as journalIndex which event's state the
// view shows (0 leaves it out): so a view that lost an entry to a person differs from one that is merely old, which has
// the same entries and another index (SPEC 2.5). The first one also says as journalId the beginning of the journal's identity
// (SPEC 2.7).
func RemindersView(all []*Reminder, ref ViewRef) []byte {
	var b bytes.Buffer
	_ = WriteReminders(&b, all, ref) // a buffer takes everything
	return b.Bytes()
}

// shortID is how much of a journal's identity a reminders view says.
const shortID = 12

// Short is the reference as a reminders view says it.
func (r ViewRef) Short() ViewRef { return ViewRef{ID: r.ID[:min(len(r.ID), shortID)], Index: r.Index} }

// viewChunk is how much of a view is written at once, in bytes.
const viewChunk = 64 << 10

// WriteReminders writes the bytes of [RemindersView] to out as they are made, so that a long view is never in memory.
func WriteReminders(out io.Writer, all []*Reminder, ref ViewRef) error {
	if len(all) == 0 {
		_, err := out.Write([]byte("[]\n"))
		return err
	}
	id := ref.Short().ID
	w := objectWriter{b: append(make([]byte, 0, min(viewChunk+viewChunk/4, 64+256*len(all))), '['), indent: "    "}
	for i := range all {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, "\n  "...)
		w.reminder(all[i], ref.Index, id)
		id = "" // once is enough
		if len(w.b) >= viewChunk {
			if _, err := out.Write(w.b); err != nil {
				return err
			}
			w.b = w.b[:0]
		}
	}
	_, err := out.Write(append(w.b, "\n]\n"...))
	return err
}

func (w *objectWriter) reminder(r *Reminder, index uint64, journal string) {
	w.open()
	w.text("id", r.ID)
	w.text("message", r.Message)
	w.number("createdAt", r.CreatedAt)
	w.number("fireAt", r.FireAt)
	if r.EveryMs > 0 {
		w.raw("everySeconds", Length(r.EveryMs).AppendJSON(nil))
	} else {
		w.raw("everySeconds", []byte("null"))
	}
	if r.details != nil {
		w.details(r.details)
	}
	if index > 0 {
		w.number("journalIndex", int64(index))
	}
	if journal != "" {
		w.text("journalId", journal)
	}
	w.close()
}

func (w *objectWriter) details(d *journal.Details) {
	for _, m := range []struct{ name, value string }{{"title", d.Title}, {"severity", d.Severity}, {"url", d.URL}} {
		if m.value != "" {
			w.text(m.name, m.value)
		}
	}
	if d.Cron != "" {
		w.text("cron", d.Cron)
		w.text("timeZone", d.Zone)
	}
	if d.Repeats != "" {
		w.text("repeats", d.Repeats)
		w.text("from", d.From)
		w.text("timeZone", d.Zone)
	}
	if d.Until > 0 {
		w.number("until", d.Until)
	}
	if d.Left > 0 {
		w.number("remaining", int64(d.Left))
	}
	w.extra(d.Extra)
}

// objectWriter writes JSON objects as JSON.stringify(value, null, 2) does; indent is that of a member.
type objectWriter struct {
	b      []byte
	indent string
	some   bool
}

func (w *objectWriter) open() {
	w.some = false
	w.b = append(w.b, '{')
}

// name begins a member; its value is to be added.
func (w *objectWriter) name(name string) {
	if w.some {
		w.b = append(w.b, ',')
	}
	w.some = true
	w.b = append(append(w.b, '\n'), w.indent...)
	w.b = append(rawjson.AppendText(w.b, name), ": "...)
}

func (w *objectWriter) text(name, value string) {
	w.name(name)
	w.b = rawjson.AppendText(w.b, value)
}

func (w *objectWriter) number(name string, value int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, value, 10)
}

func (w *objectWriter) raw(name string, value []byte) {
	w.name(name)
	w.b = append(w.b, value...)
}

func (w *objectWriter) extra(object []byte) {
	if len(object) == 0 {
		return
	}
	members, err := objectMembers(object)
	if err != nil {
		return // it was an object when it was taken in
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var value bytes.Buffer
		if json.Indent(&value, members[name], w.indent, "  ") == nil {
			w.raw(name, value.Bytes())
		}
	}
}

func (w *objectWriter) close() {
	if w.some {
		w.b = append(append(w.b, '\n'), w.indent[2:]...)
	}
	w.b = append(w.b, '}')
}

// quote is text as a JSON string, without the escapes that only HTML needs.
func quote(text string) []byte { return rawjson.AppendText(make([]byte, 0, len(text)+2), text) }
