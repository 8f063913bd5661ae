package projection

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"heartbeat-mcpl/journal"
)

// A snapshot stands in the journal itself, as one or more consecutive records, wherever the events since the last one
// weigh more than the larger of snapshotEvery and the state. The place follows from the journal alone, start-up reads
// at most that much beside the snapshot (SPEC 9.4), and snapshots at most double the size of the journal.
const (
	snapshotEvery  = 512 << 10
	snapshotPart   = 256 << 10 // weight of one part
	recordOverhead = 64
)

// errSnapshot says that the parts given are no whole snapshot.
var errSnapshot = errors.New("the snapshot is not whole")

type snapshotHead struct {
	Version    int    `msgpack:"v"`
	IntervalMs int64  `msgpack:"iv"`
	Paused     bool   `msgpack:"pa"`
	Mode       string `msgpack:"mo"`
	Message    string `msgpack:"ms"`
	Extra      []byte `msgpack:"xt,omitempty"`
	AnchorMs   int64  `msgpack:"an"`

	AnchorIndex uint64          `msgpack:"ai,omitempty"`
	Standing    bool            `msgpack:"st,omitempty"`
	Cleared     bool            `msgpack:"cl,omitempty"`
	Active      string          `msgpack:"ah,omitempty"`
	Beats       *Beats          `msgpack:"be,omitempty"`
	Agent       string          `msgpack:"ag,omitempty"` // of an older version, which knew one
	Pane        string          `msgpack:"pn,omitempty"`
	BeatAsker   *Asker          `msgpack:"ba,omitempty"`
	Agents      []Participant   `msgpack:"ps,omitempty"`
	Calls       []Done          `msgpack:"cs,omitempty"`
	ToldOnce    map[string]bool `msgpack:"to,omitempty"` // of an older version, which did not say when
	Acked       ordered[int64]  `msgpack:"ak,omitempty"`

	Told  ordered[int64]    `msgpack:"tt,omitempty"`
	Tried ordered[*Attempt] `msgpack:"tr,omitempty"`

	Beat   *Beat   `msgpack:"bt,omitempty"`
	Missed *Missed `msgpack:"mi,omitempty"`
	Asked  *Asked  `msgpack:"as,omitempty"`
}

type snapshotData struct {
	Head      *snapshotHead      `msgpack:"h,omitempty"` // in part 0
	Reminders []snapshotReminder `msgpack:"r"`
}

// snapshotReminder is an array of its fields in the order in which they are declared. It is read in half the time of a map, which it is
// in older journals; what a later version adds at the end is passed over.
type snapshotReminder struct {
	Reminder
	journal.Details
	Asker
}

// kept is the reminder as a state holds it.
func (r *snapshotReminder) kept() *Reminder {
	kept := r.Reminder
	kept.SetDetails(r.Details)
	kept.Asker = r.Asker
	return &kept
}

// EncodeMsgpack implements [msgpack.CustomEncoder].
func (r *snapshotReminder) EncodeMsgpack(enc *msgpack.Encoder) error {
	const fields = 21
	d := &r.Details
	return errors.Join(enc.EncodeArrayLen(fields), enc.EncodeString(r.ID), enc.EncodeString(r.Message), enc.EncodeInt(r.CreatedAt),
		enc.EncodeInt(r.FireAt), enc.EncodeInt(r.EveryMs), enc.EncodeBool(r.Fixed), enc.EncodeUint(r.Seq), enc.EncodeUint(r.Since),
		enc.Encode(r.Attempt), enc.EncodeString(d.Title), enc.EncodeString(d.Severity), enc.EncodeString(d.URL),
		enc.EncodeString(d.Cron), enc.EncodeString(d.Zone), enc.EncodeInt(d.Until), enc.EncodeInt(int64(d.Left)), enc.EncodeBytes(d.Extra),
		enc.EncodeString(d.Repeats), enc.EncodeString(d.From), enc.EncodeString(r.Session), enc.EncodeString(r.Conversation))
}

// DecodeMsgpack implements [msgpack.CustomDecoder].
func (r *snapshotReminder) DecodeMsgpack(dec *msgpack.Decoder) error {
	code, err := dec.PeekCode()
	if err != nil {
		return err
	}
	if msgpcode.IsFixedMap(code) || code == msgpcode.Map16 {
		type named snapshotReminder
		return dec.Decode((*named)(r))
	}
	fields, err := dec.DecodeArrayLen()
	for i := 0; i < fields && err == nil; i++ {
		err = r.decodeField(dec, i)
	}
	return err
}

func (r *snapshotReminder) decodeField(dec *msgpack.Decoder, i int) (err error) {
	d := &r.Details
	switch i {
	case 0:
		r.ID, err = dec.DecodeString()
	case 1:
		r.Message, err = dec.DecodeString()
	case 2:
		r.CreatedAt, err = dec.DecodeInt64()
	case 3:
		r.FireAt, err = dec.DecodeInt64()
	case 4:
		r.EveryMs, err = dec.DecodeInt64()
	case 5:
		r.Fixed, err = dec.DecodeBool()
	case 6:
		r.Seq, err = dec.DecodeUint64()
	case 7:
		r.Since, err = dec.DecodeUint64()
	case 8:
		if code, _ := dec.PeekCode(); code == msgpcode.Nil {
			return dec.DecodeNil() // as most are: the other way is by reflection
		}
		err = dec.Decode(&r.Attempt)
	case 9:
		d.Title, err = dec.DecodeString()
	case 10:
		d.Severity, err = dec.DecodeString()
	case 11:
		d.URL, err = dec.DecodeString()
	case 12:
		d.Cron, err = dec.DecodeString()
	case 13:
		d.Zone, err = dec.DecodeString()
	case 14:
		d.Until, err = dec.DecodeInt64()
	case 15:
		d.Left, err = dec.DecodeInt()
	case 16:
		d.Extra, err = dec.DecodeBytes()
	case 17:
		d.Repeats, err = dec.DecodeString()
	case 18:
		d.From, err = dec.DecodeString()
	case 19:
		r.Session, err = dec.DecodeString()
	case 20:
		r.Conversation, err = dec.DecodeString()
	default:
		err = dec.Skip()
	}
	return err
}

// SnapshotDue says whether a snapshot should be appended now.
func (s *State) SnapshotDue() bool { return s.since >= max(snapshotEvery, s.texts) }

// Snapshot is the whole state as the bodies of consecutive records. Appending them changes no state.
func (s *State) Snapshot() ([]journal.Body, error) {
	parts := []snapshotData{{Head: &snapshotHead{
		Version: 1, IntervalMs: s.Config.IntervalMs, Paused: s.Config.Paused, Mode: s.Config.Mode,
		Message: s.Config.Message, Extra: s.Config.Extra, AnchorMs: s.AnchorMs, AnchorIndex: s.AnchorIndex, Acked: s.acked,
		Standing: s.Config.Standing, Cleared: s.Config.Cleared, Active: s.Config.Active, Beats: &s.Beats, BeatAsker: given(s.BeatAsker), Agents: s.Agents, Calls: s.calls, Told: s.told, Tried: s.tried,
		Beat: s.Beat, Missed: given(s.Missed), Asked: given(s.Asked),
	}}}
	var weight int64
	needs := 0
	for _, r := range s.Reminders() {
		if weight > 0 && weight+r.weight() > snapshotPart {
			parts, weight = append(parts, snapshotData{}), 0
		}
		last := &parts[len(parts)-1]
		d := r.Details()
		if need := d.Needs(); need > journal.FirstMajor {
			needs = need
		}
		last.Reminders = append(last.Reminders, snapshotReminder{*r, d, r.Asker})
		weight += r.weight()
	}
	bodies := make([]journal.Body, len(parts))
	for i, part := range parts {
		data, err := marshal(part)
		if err != nil {
			return nil, fmt.Errorf("encode snapshot part %d: %w", i, err)
		}
		bodies[i] = &journal.Snapshot{Part: uint32(i), Parts: uint32(len(parts)), Data: data, Needs: needs}
	}
	return bodies, nil
}

// ordered is a map that is written in the order of its keys: the same state is the same bytes. The library sorts few kinds of maps.
type ordered[V any] map[string]V

// EncodeMsgpack implements [msgpack.CustomEncoder].
func (m ordered[V]) EncodeMsgpack(enc *msgpack.Encoder) error {
	err := enc.EncodeMapLen(len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		err = errors.Join(err, enc.EncodeString(key), enc.Encode(m[key]))
	}
	return err
}

func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	enc.UseCompactInts(true)
	err := enc.Encode(v)
	return buf.Bytes(), err
}

// takeHead makes s what the head says, but for the reminders.
func (s *State) takeHead(h *snapshotHead) {
	s.Config = Config{
		IntervalMs: h.IntervalMs, Paused: h.Paused, Mode: h.Mode, Message: h.Message, Extra: h.Extra,
		Standing: h.Standing, Cleared: h.Cleared, Active: h.Active,
	}
	s.AnchorMs, s.AnchorIndex, s.Agents, s.calls = h.AnchorMs, h.AnchorIndex, h.Agents, h.Calls
	if h.Agent != "" {
		s.Agents = []Participant{{Agent: h.Agent, Pane: h.Pane}}
	}
	override(&s.BeatAsker, h.BeatAsker)
	if h.Beats != nil {
		s.Beats = *h.Beats
	}
	maps.Copy(s.acked, h.Acked)
	for message := range h.ToldOnce {
		s.told[message] = h.AnchorMs // about then
	}
	maps.Copy(s.told, h.Told)
	maps.Copy(s.tried, h.Tried)
	s.Beat = h.Beat
	override(&s.Missed, h.Missed)
	override(&s.Asked, h.Asked)
}

// given is a value that is left out where it is zero.
func given[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Salvage takes in what one part of a snapshot says of the state before it, for a journal that lost others of its events: the
// reminders that it holds were open then, and no others that stand between them. before is the last reminder of the part
// before, nil where that is not known; what is returned is that for the next one. A part that cannot be decoded says nothing.
func (s *State) Salvage(b *journal.Snapshot, before *Reminder) (last *Reminder) {
	var data snapshotData
	if msgpack.Unmarshal(b.Data, &data) != nil {
		return nil
	}
	if h := data.Head; h != nil {
		s.takeHead(h)
	}
	first := before // of what the part says something about
	if n := len(data.Reminders); n > 0 {
		last = &data.Reminders[n-1].Reminder
		if first == nil {
			first = &data.Reminders[0].Reminder
		}
	}
	if b.Part == 0 {
		first = &Reminder{}
	}
	if first != nil {
		s.removeBetween(first, last, b.Part+1 == b.Parts)
	}
	for i := range data.Reminders {
		r := data.Reminders[i].kept()
		s.remove(r.ID)
		s.insert(r)
	}
	return last
}

// removeBetween removes the reminders behind first, up to last or to the end, in the order of the view.
func (s *State) removeBetween(first, last *Reminder, toEnd bool) {
	var between []string
	s.bySeq.Ascend(first, func(r *Reminder) bool {
		if r.Seq == first.Seq && r.ID == first.ID { // it was there, or comes again
			return true
		}
		if !toEnd && (last == nil || last.before(r)) {
			return false
		}
		between = append(between, r.ID)
		return true
	})
	for _, id := range between {
		s.remove(id)
	}
}

// LoadSnapshot is the state that the events, the parts of one snapshot in order, hold.
func LoadSnapshot(parts []journal.Event) (*State, error) {
	var s *State
	var reminders []snapshotReminder // of one part
	for i, e := range parts {
		b, ok := e.Body.(*journal.Snapshot)
		if !ok || int(b.Part) != i || int(b.Parts) != len(parts) {
			return nil, fmt.Errorf("event %d: %w", e.Index, errSnapshot)
		}
		clear(reminders)
		data := snapshotData{Reminders: reminders[:0]}
		if err := msgpack.Unmarshal(b.Data, &data); err != nil {
			return nil, fmt.Errorf("event %d: decode the snapshot: %w", e.Index, err)
		}
		if (i == 0) != (data.Head != nil) {
			return nil, fmt.Errorf("event %d: %w", e.Index, errSnapshot)
		}
		if h := data.Head; h != nil {
			s = withRoom(len(parts) * len(data.Reminders))
			s.takeHead(h)
		}
		reminders = data.Reminders[:cap(data.Reminders)]
		for i := range data.Reminders {
			s.insert(data.Reminders[i].kept())
		}
		s.Index, s.TimeMs = e.Index, e.Time
	}
	if s == nil {
		return nil, errSnapshot
	}
	return s, nil
}

func (r *Reminder) weight() int64 {
	d := r.Details()
	return recordOverhead + int64(len(r.ID)+len(r.Message)+len(d.Title)+len(d.URL)+len(d.Extra))
}

// weightOf is about the size of a body on disk, counted from its content so that it is the same before it was encoded.
func weightOf(b journal.Body) int64 {
	w := int64(recordOverhead)
	switch b := b.(type) {
	case *journal.Snapshot:
		return 0
	case *journal.Add:
		w += int64(len(b.ID) + len(b.Message) + len(b.Title) + len(b.URL) + len(b.Extra))
	case *journal.Configure:
		if b.Message != nil {
			w += int64(len(*b.Message))
		}
		w += int64(len(b.Extra))
	case *journal.Refuse:
		w += int64(len(b.Reason))
	case *journal.Read:
		for _, id := range b.IDs {
			w += int64(len(id))
		}
	}
	return w
}
