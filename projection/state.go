// Package projection owns the state that a journal stands for: the fold of its events, the decisions that make new
// events out of what people and agents ask for, and the bytes of the two JSON views.
//
// Start with [State] and its method [State.Apply]. Everything here is pure: no file, no clock, no RPC. The same journal
// gives the same state and the same view bytes on every machine (SPEC 9.3); a caller passes the time where one is needed.
// A State is owned by one goroutine.
package projection

import (
	"iter"
	"maps"
	"slices"
	"sort"

	"github.com/tidwall/btree"

	"heartbeat-mcpl/journal"
)

// Modes of delivery (SPEC 2.1).
const (
	ModeMessage = "message"
	ModeSilent  = "silent"
)

// DefaultMessage is what a heartbeat says until somebody sets another text (SPEC 2.1).
const DefaultMessage = "[heartbeat] A periodic wake-up. Look at what is open: anything waiting for you, anything promised, " +
	"anything due soon. Act on what needs you now; if nothing does, say so briefly and rest until the next one."

// Config is the heartbeat's settings.
type Config struct {
	IntervalMs int64
	Paused     bool
	Mode       string
	Message    string
	Standing   bool   // the message is a recurring instruction (SPEC 11.4)
	Cleared    bool   // there is no heartbeat until one is set again (SPEC 11.2); then Paused is set, too
	Active     string // "08:00-22:30": outside of them no heartbeat comes; empty: always
	Extra      []byte // JSON object: members of the config view that are not ours, kept as they are; nil for none
}

// DefaultConfig is the state of an empty journal (SPEC 2.1).
func DefaultConfig() Config {
	return Config{IntervalMs: 14400 * 1000, Mode: ModeMessage, Message: DefaultMessage}
}

// Reminder is one promise that is still open. Times are Unix milliseconds.
type Reminder struct {
	ID        string        `msgpack:"id"`
	Message   string        `msgpack:"ms"`
	CreatedAt int64         `msgpack:"ca"`
	FireAt    int64         `msgpack:"fa"`
	EveryMs   int64         `msgpack:"ev,omitempty"` // 0: one-shot
	Fixed     bool          `msgpack:"fx,omitempty"` // FireAt is a point on the clock (see journal.Add)
	Seq       uint64        `msgpack:"sq"`           // index of the event that added it: the order in the view
	Since     uint64        `msgpack:"oc,omitempty"` // index of the event that began the current occurrence
	Attempt   *Attempt      `msgpack:"at,omitempty"`
	Asker     `msgpack:"-"` // behind the details, in snapshots

	details *journal.Details // nil for none, as of most: a reminder takes half the memory then; what it points to never changes
}

// Details are what the reminder has beside a text and a time.
func (r *Reminder) Details() journal.Details {
	if r.details == nil {
		return journal.Details{}
	}
	return *r.details
}

// SetDetails replaces them; the reminder must be in no state yet.
func (r *Reminder) SetDetails(d journal.Details) {
	r.details = nil
	if !d.Equal(&journal.Details{}) {
		kept := d // an allocation only for what is kept
		r.details = &kept
	}
}

// Told says whether the host took a message.
func (s *State) Told(message string) bool {
	_, told := s.told[message]
	return told
}

// Tried is the last push of a message that the host did not take; nil for none.
func (s *State) Tried(message string) *Attempt { return s.tried[message] }

// Failing are the open reminders whose last push was not taken, in no order.
func (s *State) Failing() iter.Seq[*Reminder] { return maps.Values(s.failing) }

// FailingMessages are the last pushes of messages that the host did not take, by message, in no order.
func (s *State) FailingMessages() iter.Seq2[string, *Attempt] { return maps.All(s.tried) }

// Recurring says whether the reminder falls due again once it is taken.
func (r *Reminder) Recurring() bool { return r.EveryMs > 0 || r.OnCalendar() }

// OnCalendar says whether it comes again by the clock on the wall, not after an elapsed length.
func (r *Reminder) OnCalendar() bool {
	return r.details != nil && (r.details.Cron != "" || r.details.Repeats != "")
}

// State is the fold of a journal. Make one with [New] or [LoadSnapshot]; read its fields freely, change it by Apply alone.
type State struct {
	Config      Config
	AnchorMs    int64  // the heartbeat's phase: it falls due one interval later (SPEC 6.8)
	AnchorIndex uint64 // of the event that set it
	Beats       Beats
	Beat        *Beat  // nil: the host took the newest one, or there was none since the heartbeat was configured
	Missed      Missed // before Beat
	Asked       Asked
	BeatAsker   Asker         // who set the heartbeat
	Agents      []Participant // that take part in the mesh, in the order of their check-ins
	Index       uint64        // of the last event applied
	TimeMs      int64         // of the last event applied

	told      map[string]int64         // messages of the mesh that the host took, and when; until they are read
	tried     map[string]*Attempt      // the last push of those that it did not take
	failing   map[string]*Reminder     // those whose last push was not taken
	calls     []Done                   // the last calls that may be made again, oldest first
	acked     map[string]int64         // alerts about the files that were acknowledged, and until when
	reminders map[string]*Reminder     // each is replaced, never changed, but for its Attempt: a view may be made of them meanwhile
	byTime    *btree.BTreeG[*Reminder] // soonest first
	bySeq     *btree.BTreeG[*Reminder] // in the order of the view
	texts     int64                    // weight of all reminders, see weight
	since     int64                    // weight of the events since the last snapshot
	digest    Digest                   // of all reminders
}

// New is the state of an empty journal.
func New() *State { return withRoom(0) }

// Begun is the state of a journal that was made now, in Unix milliseconds.
func Begun(now int64) *State {
	s := New()
	s.Apply(journal.Event{Index: 1, Time: now, Kind: journal.KindBegin, Body: &journal.Begin{}})
	return s
}

// withRoom is [New] for so many reminders.
func withRoom(reminders int) *State {
	return &State{Config: DefaultConfig(), acked: map[string]int64{}, told: map[string]int64{}, tried: map[string]*Attempt{}, failing: map[string]*Reminder{}, reminders: make(map[string]*Reminder, reminders),
		byTime: newIndex(func(a, b *Reminder) bool { return a.FireAt < b.FireAt || a.FireAt == b.FireAt && a.before(b) }),
		bySeq:  newIndex((*Reminder).before)}
}

// newIndex is an index that one goroutine uses.
func newIndex(less func(a, b *Reminder) bool) *btree.BTreeG[*Reminder] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// before is the order of the view.
func (r *Reminder) before(o *Reminder) bool { return r.Seq < o.Seq || r.Seq == o.Seq && r.ID < o.ID }

// Reminder is the open reminder with that id. The pointer is the state's own: do not change it, do not keep it over an
// Apply.
func (s *State) Reminder(id string) (*Reminder, bool) {
	r, ok := s.reminders[id]
	return r, ok
}

// Len is the number of open reminders.
func (s *State) Len() int { return len(s.reminders) }

// Reminders are all open reminders in the order in which they were added. What the view shows of them does not change later.
func (s *State) Reminders() []*Reminder { return s.bySeq.Items() }

// Soonest calls f for the open reminders, the soonest first, beginning behind after (nil: with the first), until f returns
// false.
func (s *State) Soonest(after *Reminder, f func(*Reminder) bool) {
	if after == nil {
		s.byTime.Scan(f)
		return
	}
	s.byTime.Ascend(after, func(r *Reminder) bool { return r == after || f(r) })
}

// Behind is how many open reminders come behind after (nil: all) in the order of [State.Soonest].
func (s *State) Behind(after *Reminder) int {
	if after == nil {
		return s.byTime.Len()
	}
	return s.byTime.Len() - sort.Search(s.byTime.Len(), func(i int) bool {
		r, _ := s.byTime.GetAt(i)
		return s.byTime.Less(after, r)
	})
}

// Same says whether two states hold the same, whatever index they stand at.
func (s *State) Same(o *State) bool {
	return s.AnchorMs == o.AnchorMs && s.BeatAsker == o.BeatAsker && slices.Equal(s.Agents, o.Agents) && slices.Equal(s.calls, o.calls) && s.Beats == o.Beats && s.AnchorIndex == o.AnchorIndex && maps.Equal(s.acked, o.acked) && maps.Equal(s.told, o.told) &&
		maps.EqualFunc(s.tried, o.tried, (*Attempt).same) && s.Config.Digest() == o.Config.Digest() && s.digest == o.digest &&
		maps.EqualFunc(s.reminders, o.reminders, func(a, b *Reminder) bool {
			return a.Seq == b.Seq && a.Since == b.Since && a.Asker == b.Asker && a.Fixed == b.Fixed && a.Attempt.same(b.Attempt)
		})
}

// Rewind gives the next event the index after last, when events that were applied were never appended and never will be.
func (s *State) Rewind(last uint64) { s.Index = last }

// Apply folds one event into the state. It never fails: what a version does not know, and what no longer fits (an
// answer to a reminder that was cancelled), changes nothing but the index (SPEC 9.2, 9.3).
func (s *State) Apply(e journal.Event) {
	s.Index, s.TimeMs = e.Index, e.Time
	s.since += weightOf(e.Body)
	s.remember(e)
	switch b := e.Body.(type) {
	case *journal.Begin:
		s.anchor(e)
	case *journal.Configure:
		s.applyConfigure(b, e)
	case *journal.Add:
		s.applyAdd(b, e.Index)
	case *journal.Cancel:
		s.remove(b.ID)
	case *journal.Fire:
		s.applyFire(b, e)
	case *journal.Ack:
		s.applyAck(b, e)
	case *journal.Refuse:
		s.applyRefuse(b, e.Time)
	case *journal.Drop:
		s.beatDropped(b, e)
	case *journal.Ask:
		s.Asked = Asked{e.Index, e.Time}
	case *journal.Clock:
		s.applyClock(b)
	case *journal.CheckIn:
		s.checkIn(Participant{b.Agent, b.Pane, b.Session})
	case *journal.Tell:
		if !s.Told(b.Message) {
			s.tried[b.Message] = s.tried[b.Message].next(b.EventID, b.To, e.Time)
		}
	case *journal.Told:
		s.told[b.Message] = e.Time
		delete(s.tried, b.Message)
		s.forgetLetters(e.Time)
	case *journal.Read:
		for _, id := range b.IDs {
			delete(s.told, id)
			delete(s.tried, id)
		}
	case *journal.Snapshot:
		if b.Part+1 == b.Parts {
			s.since = 0
		}
	}
}

// forgetLetters drops messages that no inbox holds any more, now and then: most are dropped when they are read.
func (s *State) forgetLetters(now int64) {
	if len(s.told)%MostInbox != 0 {
		return
	}
	const grace = messageLife / 7 // clocks of machines differ
	gone := func(at int64) bool { return now-at > messageLife+grace }
	maps.DeleteFunc(s.told, func(_ string, at int64) bool { return gone(at) })
	maps.DeleteFunc(s.tried, func(_ string, a *Attempt) bool { return gone(a.At) })
}

func (s *State) applyConfigure(b *journal.Configure, e journal.Event) {
	c := &s.Config
	override(&c.IntervalMs, b.IntervalMs)
	override(&c.Paused, b.Paused)
	override(&c.Mode, b.Mode)
	override(&c.Message, b.Message)
	override(&c.Standing, b.Standing)
	override(&c.Cleared, b.Cleared)
	override(&c.Active, b.Active)
	if b.Reanchor {
		s.beatReplaced(false)
	}
	if b.Command == CommandEvery || c.Cleared {
		s.Beats, s.Missed, s.Asked = Beats{}, Missed{}, Asked{}
	}
	if b.ClearExtra {
		c.Extra = nil
	}
	if len(b.Extra) > 0 {
		c.Extra = b.Extra
	}
	if b.Reanchor {
		s.anchor(e)
	}
	if b.Session != "" {
		s.BeatAsker = Asker{b.Session, b.Conversation}
	}
}

func (s *State) applyAdd(b *journal.Add, index uint64) {
	seq := index
	if old, ok := s.reminders[b.ID]; ok {
		seq = old.Seq
		s.remove(b.ID)
	}
	r := &Reminder{
		ID: b.ID, Message: b.Message, CreatedAt: b.CreatedAt, FireAt: b.FireAt, EveryMs: b.EveryMs, Fixed: b.Fixed, Seq: seq, Since: index, Asker: Asker{b.Session, b.Conversation},
	}
	r.SetDetails(b.Details)
	s.insert(r)
}

func (s *State) applyFire(b *journal.Fire, e journal.Event) {
	if b.ID == "" {
		s.beatFired(b, e)
		return
	}
	if r, ok := s.reminders[b.ID]; ok {
		s.attempted(r, r.Attempt.next(b.EventID, b.To, e.Time))
	}
}

func (s *State) applyAck(b *journal.Ack, e journal.Event) {
	if b.By == journal.ByTool && b.ID == "" {
		s.applyPolled(b, e)
		return
	}
	if b.ID == "" {
		s.beatTaken(b, e)
		return
	}
	r, ok := s.reminders[b.ID]
	pushed := ok && r.Attempt != nil && r.Attempt.EventID == b.EventID
	if !pushed && !(ok && b.By == journal.ByTool && r.OccurrenceID() == b.EventID) {
		return
	}
	if b.Next == 0 {
		s.remove(b.ID)
		return
	}
	next, d := *r, r.Details()
	next.FireAt, next.Fixed, next.Attempt, next.Since = b.Next, r.OnCalendar(), nil, e.Index
	d.Left = max(0, d.Left-1)
	next.SetDetails(d)
	s.remove(b.ID)
	s.insert(&next)
}

func (s *State) applyRefuse(b *journal.Refuse, now int64) {
	if r, ok := s.reminders[b.ID]; ok {
		s.attempted(r, r.Attempt.refused(b, now))
	} else if a := s.tried[b.Message]; a != nil {
		s.tried[b.Message] = a.refused(b, now)
	} else if b.ID == "" && b.Message == "" {
		s.beatRefused(b, now)
	}
}

func (s *State) applyClock(b *journal.Clock) {
	s.AnchorMs -= b.ShiftMs
	for _, r := range s.Reminders() {
		if r.EveryMs > 0 && !r.Fixed {
			moved := *r
			moved.FireAt -= b.ShiftMs
			s.remove(r.ID)
			s.insert(&moved)
		}
	}
}

// attempted sets what came of the reminder's last push.
func (s *State) attempted(r *Reminder, a *Attempt) {
	r.Attempt = a
	if how, _, _ := a.Failed(); how != 0 {
		s.failing[r.ID] = r
	}
}

func (s *State) insert(r *Reminder) {
	s.reminders[r.ID] = r
	s.attempted(r, r.Attempt)
	s.byTime.Load(r) // quicker than Set for what comes last, and the same for others
	s.bySeq.Load(r)
	s.digest.toggle(r)
	s.texts += r.weight()
}

func (s *State) remove(id string) {
	r, ok := s.reminders[id]
	if !ok {
		return
	}
	delete(s.reminders, id)
	delete(s.failing, id)
	s.byTime.Delete(r)
	s.bySeq.Delete(r)
	s.digest.toggle(r)
	s.texts -= r.weight()
}
