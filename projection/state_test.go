package projection

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"heartbeat-mcpl/journal"
)

// history is a journal in memory.
type history struct {
	state  *State
	events []journal.Event
}

func newHistory() *history {
	h := &history{state: New()}
	h.record(1000, &journal.Begin{ID: "0123456789abcdef0123456789abcdef", Major: 1})
	return h
}

func (h *history) record(now int64, bodies ...journal.Body) {
	for _, b := range bodies {
		e := journal.Event{Index: h.state.Index + 1, Time: now, Kind: b.Kind(), Body: b}
		h.state.Apply(e)
		h.events = append(h.events, e)
	}
}

func ptr[T any](v T) *T { return &v }

func TestEmptyJournalHasTheDefaults(t *testing.T) {
	s := New()
	want := Config{IntervalMs: 14_400_000, Mode: "message", Message: DefaultMessage}
	if s.Config.Digest() != want.Digest() || s.Len() != 0 {
		t.Fatalf("got %+v with %d reminders", s.Config, s.Len())
	}
	if !bytes.HasPrefix([]byte(DefaultMessage), []byte("[heartbeat]")) {
		t.Fatalf("the default message opens with %q", DefaultMessage[:12])
	}
}

func TestHeartbeatIsDueOneIntervalAfterItsAnchor(t *testing.T) {
	const hour = int64(3600_000)
	for _, c := range []struct {
		name string
		do   func(*history)
		want int64
		on   bool
	}{
		{"a new journal anchors at its begin", func(*history) {}, 1000 + 4*hour, true},
		{"a fire anchors", func(h *history) { h.record(5000, &journal.Fire{EventID: "e"}) }, 5000 + 4*hour, true},
		{"a manual fire does not", func(h *history) { h.record(5000, &journal.Fire{EventID: "e", Manual: true}) }, 1000 + 4*hour, true},
		{"a fallback does not", func(h *history) { h.record(5000, &journal.Fire{EventID: "e", Fallback: true}) }, 1000 + 4*hour, true},
		{"a drop anchors", func(h *history) { h.record(5000, &journal.Drop{}) }, 5000 + 4*hour, true},
		{"a new interval anchors", func(h *history) { h.record(7000, h.state.Configure(journal.ByTool, Change{IntervalMs: ptr(hour)})) }, 7000 + hour, true},
		{"a new message does not", func(h *history) { h.record(7000, h.state.Configure(journal.ByTool, Change{Message: ptr("x")})) }, 1000 + 4*hour, true},
		{"a pause stops it", func(h *history) { h.record(7000, h.state.Configure(journal.ByTool, Change{Paused: ptr(true)})) }, 7000 + 4*hour, false},
		{"a reminder's fire does not anchor", func(h *history) { h.record(5000, &journal.Fire{ID: "rem_a", EventID: "e"}) }, 1000 + 4*hour, true},
		{"a clock set back takes it along", func(h *history) { h.record(500, &journal.Clock{ShiftMs: 500}) }, 500 + 4*hour, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHistory()
			c.do(h)
			if due, on := h.state.HeartbeatDue(); due != c.want || on != c.on {
				t.Fatalf("due at %d (%v), want %d (%v)", due, on, c.want, c.on)
			}
		})
	}
}

func TestReminderChangesOnlyWhenItIsTaken(t *testing.T) {
	h := newHistory()
	h.record(1000, &journal.Add{ID: "once", Message: "m", CreatedAt: 1000, FireAt: 2000},
		&journal.Add{ID: "again", Message: "m", CreatedAt: 1000, FireAt: 2000, EveryMs: 5000, Fixed: true})
	h.record(2000, &journal.Fire{ID: "once", EventID: "e1"}, &journal.Fire{ID: "again", EventID: "e2"})
	h.record(2001, &journal.Refuse{ID: "once", EventID: "e1", Code: -1, Reason: "busy"}, &journal.Refuse{ID: "again", EventID: "e2", NoAnswer: true})
	once, _ := h.state.Reminder("once")
	again, _ := h.state.Reminder("again")
	if once.Attempt.Outcome != Refused || once.Attempt.Reason != "busy" || once.FireAt != 2000 {
		t.Fatalf("a refused one-shot became %+v", once.Attempt)
	}
	if again.Attempt.Outcome != NoAnswer || again.FireAt != 2000 {
		t.Fatalf("an unanswered recurring one became %+v", again.Attempt)
	}
	h.record(2500, &journal.Fire{ID: "again", EventID: "e2", Again: true})
	again, _ = h.state.Reminder("again")
	if again.Attempt.Sent != 2 {
		t.Fatalf("sent %d times, want 2", again.Attempt.Sent)
	}
	h.record(13_000, again.Ack(13_000))
	again, _ = h.state.Reminder("again")
	if again.FireAt != 17_000 || again.Attempt != nil || again.Fixed {
		t.Fatalf("after an ack at 13000 the next slot of 2000+n*5000 is %d", again.FireAt)
	}
	h.record(14_000, once.Ack(14_000))
	if _, open := h.state.Reminder("once"); open {
		t.Fatal("a one-shot that was taken is still open")
	}
}

func TestAnswersThatNoLongerFitChangeNothing(t *testing.T) {
	h := newHistory()
	h.record(1000, &journal.Add{ID: "r", Message: "m", FireAt: 2000})
	h.record(2000, &journal.Fire{ID: "r", EventID: "new"})
	before := h.state.RemindersDigest()
	h.record(2001, &journal.Ack{ID: "r", EventID: "old"}, &journal.Refuse{ID: "r", EventID: "old"}, &journal.Ack{ID: "gone", EventID: "new"})
	r, open := h.state.Reminder("r")
	if !open || r.Attempt.Outcome != Pending || h.state.RemindersDigest() != before {
		t.Fatalf("answers to other pushes changed the reminder: %+v", r)
	}
}

func TestNextSlotLiesInTheFutureAndKeepsThePhase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fireAt := rapid.Int64Range(0, 1e12).Draw(t, "fireAt")
		every := rapid.Int64Range(LeastEveryMs, 1e10).Draw(t, "every")
		now := fireAt + rapid.Int64Range(-1e6, 1e12).Draw(t, "late")
		next := nextSlot(fireAt, every, now)
		if next <= now || next <= fireAt || (next-fireAt)%every != 0 {
			t.Fatalf("nextSlot(%d, %d, %d) = %d", fireAt, every, now, next)
		}
		if now >= fireAt && next-every > now {
			t.Fatalf("nextSlot(%d, %d, %d) = %d skips a slot", fireAt, every, now, next)
		}
	})
}

// model is what the state must hold, kept in the plainest way.
type model struct {
	config    Config
	reminders map[string]Reminder
}

// TestFoldFollowsAPlainModel records random events and compares the state with the model, with the state that a replay
// gives, and with the one that a replay from a snapshot in the middle gives: same fold, same bytes (SPEC 9.3).
func TestFoldFollowsAPlainModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory()
		m := model{config: DefaultConfig(), reminders: map[string]Reminder{}}
		now := int64(1000)
		ids := []string{"a", "b", "c", "d"}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			now += rapid.Int64Range(0, 10_000).Draw(t, "passes")
			m.step(t, h, rapid.SampledFrom(ids).Draw(t, "id"), now)
		}
		m.check(t, h.state)

		replayed := New()
		for _, e := range h.events {
			replayed.Apply(e)
		}
		same(t, replayed, h.state)

		cut := rapid.IntRange(1, len(h.events)).Draw(t, "snapshot after")
		middle := New()
		for _, e := range h.events[:cut] {
			middle.Apply(e)
		}
		same(t, throughSnapshot(t, middle, h.events[cut:]), h.state)
	})
}

func (m *model) step(t *rapid.T, h *history, id string, now int64) {
	switch rapid.IntRange(0, 5).Draw(t, "what") {
	case 0:
		r := Reminder{ID: id, Message: rapid.StringN(1, 20, -1).Draw(t, "message"), CreatedAt: now, FireAt: now + rapid.Int64Range(0, 50_000).Draw(t, "in")}
		if rapid.Bool().Draw(t, "recurring") {
			r.EveryMs = rapid.Int64Range(LeastEveryMs, 60_000).Draw(t, "every")
		}
		h.record(now, &journal.Add{ID: id, Message: r.Message, CreatedAt: r.CreatedAt, FireAt: r.FireAt, EveryMs: r.EveryMs})
		m.reminders[id] = r
	case 1:
		h.record(now, &journal.Cancel{ID: id})
		delete(m.reminders, id)
	case 2:
		change := Change{IntervalMs: ptr(rapid.Int64Range(LeastIntervalMs, 1e9).Draw(t, "interval")), Paused: ptr(rapid.Bool().Draw(t, "paused"))}
		if e := h.state.Configure(journal.ByTool, change); e != nil {
			h.record(now, e)
		}
		m.config.IntervalMs, m.config.Paused = *change.IntervalMs, *change.Paused
	case 3:
		h.record(now, &journal.Fire{ID: id, EventID: fmt.Sprint("e", h.state.Index)})
	case 4:
		if r, ok := h.state.Reminder(id); ok && r.Attempt != nil {
			h.record(now, &journal.Refuse{ID: id, EventID: r.Attempt.EventID, Reason: "no"})
		}
	case 5:
		r, ok := h.state.Reminder(id)
		if !ok || r.Attempt == nil {
			return
		}
		want := m.reminders[id]
		h.record(now, r.Ack(now))
		if delete(m.reminders, id); want.EveryMs > 0 {
			for want.FireAt += want.EveryMs; want.FireAt <= now; want.FireAt += want.EveryMs {
			}
			m.reminders[id] = want
		}
	}
}

func (m *model) check(t *rapid.T, s *State) {
	if m.config.Digest() != s.Config.Digest() {
		t.Fatalf("config: got %+v, want %+v", s.Config, m.config)
	}
	want := slices.SortedFunc(maps.Values(m.reminders), func(a, b Reminder) int { return cmp.Compare(a.ID, b.ID) })
	if s.Len() != len(want) || s.RemindersDigest() != DigestReminders(want) {
		t.Fatalf("reminders: got %+v, want %+v", s.Reminders(), want)
	}
}

// same fails unless two states show the same views and carry on the same way.
func same(t *rapid.T, got, want *State) {
	ref := ViewRef{ID: "x", Index: want.Index}
	if g, w := ConfigView(got.Config, ref), ConfigView(want.Config, ref); !bytes.Equal(g, w) {
		t.Fatalf("config view: got %s, want %s", g, w)
	}
	if g, w := RemindersView(got.Reminders(), ViewRef{Index: 1}), RemindersView(want.Reminders(), ViewRef{Index: 1}); !bytes.Equal(g, w) {
		t.Fatalf("reminders view: got %s, want %s", g, w)
	}
	if got.AnchorMs != want.AnchorMs || got.Index != want.Index || got.RemindersDigest() != want.RemindersDigest() {
		t.Fatalf("got anchor %d at %d, want %d at %d", got.AnchorMs, got.Index, want.AnchorMs, want.Index)
	}
	for _, w := range want.Reminders() {
		g, _ := got.Reminder(w.ID)
		if (g.Attempt == nil) != (w.Attempt == nil) || w.Attempt != nil && *g.Attempt != *w.Attempt {
			t.Fatalf("attempt of %s: got %+v, want %+v", w.ID, g.Attempt, w.Attempt)
		}
	}
}

// throughSnapshot is s after a snapshot was made of it, read back, and the rest applied. The indices of the snapshot's
// records are taken off again, so that the results compare.
func throughSnapshot(t rapid.TB, s *State, rest []journal.Event) *State {
	bodies, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var parts []journal.Event
	for i, b := range bodies {
		parts = append(parts, journal.Event{Index: s.Index + uint64(i) + 1, Kind: journal.KindSnapshot, Body: b})
	}
	loaded, err := LoadSnapshot(parts)
	if err != nil {
		t.Fatal(err)
	}
	loaded.Rewind(s.Index)
	for _, e := range rest {
		loaded.Apply(e)
	}
	return loaded
}

func TestSnapshotIsSplitIntoPartsThatFitARecord(t *testing.T) {
	h := newHistory()
	big := string(bytes.Repeat([]byte("x"), 200<<10))
	for i := range 5 {
		h.record(1000, &journal.Add{ID: fmt.Sprint("r", i), Message: big, FireAt: 1})
	}
	if !h.state.SnapshotDue() {
		t.Fatal("a MiB of events and no snapshot is due")
	}
	bodies, err := h.state.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if len(bodies) < 5 {
		t.Fatalf("got %d parts for 5 reminders of 200 KiB", len(bodies))
	}
	var parts []journal.Event
	for _, b := range bodies {
		h.record(1000, b)
		parts = append(parts, h.events[len(h.events)-1])
	}
	if h.state.SnapshotDue() {
		t.Fatal("a snapshot is due right after one")
	}
	loaded, err := LoadSnapshot(parts)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.RemindersDigest() != h.state.RemindersDigest() || loaded.SnapshotDue() {
		t.Fatal("the loaded state differs")
	}
	if _, err := LoadSnapshot(parts[1:]); err == nil {
		t.Fatal("a snapshot without its first part was loaded")
	}
	if _, err := LoadSnapshot(parts[:3]); err == nil {
		t.Fatal("a snapshot without its last parts was loaded")
	}
}

// TestSalvageKnowsWhatIsGone: before the first reminder of a first part, behind the last of a last one, and between two parts that
// stand one behind the other.
func TestSalvageKnowsWhatIsGone(t *testing.T) {
	h := newHistory()
	big := string(bytes.Repeat([]byte("x"), 200<<10)) // one reminder a part
	for i := range 7 {
		h.record(1000, &journal.Add{ID: fmt.Sprint("r", i), Message: big, FireAt: 1})
	}
	lost := throughSnapshot(t, h.state, nil) // the cancels are lost
	h.record(1000, &journal.Cancel{ID: "r0"}, &journal.Cancel{ID: "r3"}, &journal.Cancel{ID: "r6"})
	parts, err := h.state.Snapshot()
	if err != nil || len(parts) != 4 {
		t.Fatal(len(parts), err)
	}
	for _, c := range []struct {
		name  string
		parts []int
		want  string
	}{
		{"all parts", []int{0, 1, 2, 3}, "r1 r2 r4 r5"},
		{"the first part", []int{0}, "r1 r2 r3 r4 r5 r6"},
		{"the last part", []int{3}, "r0 r1 r2 r3 r4 r5"},
		{"two in the middle", []int{1, 2}, "r0 r1 r2 r4 r5 r6"},
		{"two with one missing between them", []int{0, 2}, "r1 r2 r3 r4 r5 r6"},
	} {
		s := throughSnapshot(t, lost, nil)
		var last *Reminder
		for i, part := range c.parts {
			if i > 0 && c.parts[i-1]+1 != part {
				last = nil
			}
			last = s.Salvage(parts[part].(*journal.Snapshot), last)
		}
		var ids []string
		for _, r := range s.Reminders() {
			ids = append(ids, r.ID)
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%s: %s are there, want %s", c.name, got, c.want)
		}
	}
}

// TestMessagesAreRememberedUntilTheyAreRead: however many were taken since.
func TestMessagesAreRememberedUntilTheyAreRead(t *testing.T) {
	h := newHistory()
	id := func(i int) string { return fmt.Sprint("msg_", i) }
	for i := range 2 * MostInbox {
		h.record(1000, &journal.Told{Message: id(i), WrittenAt: 1})
	}
	for i := range 3 {
		h.record(1000, &journal.Tell{Message: fmt.Sprint("out_", i), EventID: fmt.Sprint("e", i)}, &journal.Refuse{Message: fmt.Sprint("out_", i), EventID: fmt.Sprint("e", i), NoAnswer: i == 1})
	}
	h.record(1000, &journal.Tell{Message: "out_1", EventID: "e1"}, &journal.Tell{Message: "out_0", EventID: "e3"}, &journal.Tell{Message: id(0), EventID: "late"})
	s := throughSnapshot(t, h.state, nil)
	if !s.Same(h.state) || !s.Told(id(0)) || !s.Told(id(2*MostInbox-1)) || s.Told("out_0") || s.Tried(id(0)) != nil {
		t.Error("what was taken is forgotten, or what was not counts as taken")
	}
	for i, want := range []Attempt{{EventID: "e3", Sent: 1, Outcome: Pending}, {EventID: "e1", Sent: 2, Outcome: Pending}, {EventID: "e2", Sent: 1, Outcome: Refused}} {
		if got := s.Tried(fmt.Sprint("out_", i)); got == nil || got.EventID != want.EventID || got.Sent != want.Sent || got.Outcome != want.Outcome {
			t.Errorf("message %d: %+v, want %+v", i, got, want)
		}
	}
	h.record(1000, &journal.Read{IDs: []string{id(1), "out_0"}})
	if h.state.Told(id(1)) || h.state.Tried("out_0") != nil || !h.state.Told(id(0)) || h.state.Tried("out_1") == nil {
		t.Error("not those that were read are forgotten, and those alone")
	}
	h.record(1000+9*24*3600_000, &journal.Told{Message: "fresh_1"}) // no inbox holds a message for so long
	if h.state.Told(id(0)) || h.state.Tried("out_1") != nil || !h.state.Told("fresh_1") {
		t.Errorf("after nine days %d are remembered", len(h.state.told))
	}
}

// TestSnapshotOfTheSameStateIsTheSameBytes: maps are written in the order of their keys.
func TestSnapshotOfTheSameStateIsTheSameBytes(t *testing.T) {
	h := newHistory()
	for i := range 20 {
		h.record(1000, &journal.Ack{By: journal.ByTool, EventID: fmt.Sprint("store-", i)}, &journal.Tell{Message: fmt.Sprint("m", i)}, &journal.Told{Message: fmt.Sprint("n", i)})
	}
	first, err := h.state.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if again, err := throughSnapshot(t, h.state, nil).Snapshot(); err != nil || !reflect.DeepEqual(again, first) {
			t.Fatal("the same state has another snapshot", err)
		}
	}
}

func TestSnapshotKeepsEveryDetail(t *testing.T) {
	h := newHistory()
	h.record(1000, &journal.Add{ID: "r", Message: "m", FireAt: 9000, Details: journal.Details{
		Title: "t", Severity: SeverityHigh, URL: "https://a.test/", Cron: "0 9 * * *", Zone: "UTC", Until: 99_000, Left: 3, Extra: []byte(`{"tag":1}`),
	}}, &journal.Add{ID: "plain", Message: "m", FireAt: 9000})
	loaded := throughSnapshot(t, h.state, nil)
	if !loaded.Same(h.state) {
		t.Error("the state differs")
	}
	for _, id := range []string{"r", "plain"} {
		was, _ := h.state.Reminder(id)
		is, _ := loaded.Reminder(id)
		if a, b := was.Details(), is.Details(); !a.Equal(&b) {
			t.Errorf("%s: got %+v, want %+v", id, b, a)
		}
	}
}

// TestSnapshotRemindersOfOtherVersions: maps, as they were once, and with fields that are not known here.
func TestSnapshotRemindersOfOtherVersions(t *testing.T) {
	r := snapshotReminder{
		Reminder{ID: "r", Message: "m", CreatedAt: 1, FireAt: -2, EveryMs: 3, Fixed: true, Seq: 4, Since: 5, Attempt: &Attempt{EventID: "e", Sent: 2}},
		journal.Details{Title: "t", Severity: SeverityHigh, URL: "u", Cron: "c", Zone: "z", Until: 6, Left: 7, Extra: []byte(`{}`), Repeats: "1 day", From: "2026-10-10T09:00:00"},
		Asker{Session: "s", Conversation: "c"},
	}
	type plain snapshotReminder
	type later struct {
		plain
		New string
	}
	for name, form := range map[string]any{"this one's": &r, "a map": (*plain)(&r), "with one more": later{plain(r), "x"}} {
		var data bytes.Buffer
		enc := msgpack.NewEncoder(&data)
		enc.UseArrayEncodedStructs(name == "with one more")
		if err := enc.EncodeMulti(form, "behind it"); err != nil {
			t.Fatal(err)
		}
		var got snapshotReminder
		var behind string
		err := msgpack.NewDecoder(&data).DecodeMulti(&got, &behind)
		if err != nil || behind != "behind it" || !reflect.DeepEqual(got, r) {
			t.Errorf("%s: got %+v, %q, %v", name, got, behind, err)
		}
	}
}
