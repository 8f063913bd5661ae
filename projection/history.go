package projection

import (
	"cmp"
	"strings"

	"heartbeat-mcpl/journal"
)

// Result says what became of a wake, or of one push of it.
type Result string

// The results. A wake has that of its last push; Dropped, Cancelled and Due are of wakes alone.
const (
	ResultTaken     Result = "taken"     // the host took it
	ResultRefused   Result = "refused"   // the host said no
	ResultNoAnswer  Result = "no answer" // the host did not answer, or the server ended before it could
	ResultPending   Result = "sent"      // it is out, and the answer is awaited
	ResultDropped   Result = "dropped"   // a heartbeat that fell due while wakes were blocked
	ResultCancelled Result = "cancelled" // before the host took it its reminder was cancelled or changed, or the message was read
	ResultDue       Result = "due"       // it fell due and was never sent yet
)

// PushRecord is one push of a wake.
type PushRecord struct {
	SentAt     Instant `json:"sentAt"`
	EventID    string  `json:"eventId"`
	Result     Result  `json:"result"`
	AnsweredAt Instant `json:"answeredAt"`
	Code       int64   `json:"code,omitempty"`   // JSON-RPC error code of a refusal
	Reason     string  `json:"reason,omitempty"` // of a refusal, or why nobody answered
	Silent     bool    `json:"silent,omitempty"`
	Fallback   bool    `json:"fallback,omitempty"` // a silent heartbeat that was refused, again with its text
	Late       bool    `json:"late,omitempty"`     // answered after the limit
	Duplicate  bool    `json:"duplicate,omitempty"`
}

// Wake is one occurrence: of a reminder, or a heartbeat.
type Wake struct {
	Due         Instant      `json:"due"`
	Result      Result       `json:"result"`
	Manual      bool         `json:"manual,omitempty"` // heartbeat_trigger
	Polled      bool         `json:"polled,omitempty"` // the host acknowledged it instead of taking a push
	From        string       `json:"from,omitempty"`   // of a message: who wrote it
	TakenAt     Instant      `json:"takenAt"`
	Late        *int64       `json:"lateMs"` // of a report: see LateMs
	InferenceID string       `json:"inferenceId,omitempty"`
	Reason      string       `json:"reason,omitempty"` // why it was dropped
	DroppedAt   Instant      `json:"droppedAt,omitzero"`
	Pushes      []PushRecord `json:"pushes"`
	Message     string       `json:"message,omitempty"` // what its subject said then; empty: what it says last
	EveryMs     int64        `json:"everyMs,omitempty"` // the same

	index   uint64 // of the event that said the last of it
	retried bool   // of a heartbeat that was not taken: it is tried again
}

// Newer compares two wakes by when they last did something: the newer first, within one millisecond by the journal.
func (w *Wake) Newer(o *Wake) int {
	return cmp.Or(cmp.Compare(o.At(), w.At()), cmp.Compare(o.index, w.index))
}

// At is when the wake last did something: it was taken, dropped, sent, or fell due.
func (w *Wake) At() Instant {
	switch {
	case w.TakenAt > 0:
		return w.TakenAt
	case w.DroppedAt > 0:
		return w.DroppedAt
	case len(w.Pushes) > 0:
		last := &w.Pushes[len(w.Pushes)-1]
		return max(last.SentAt, last.AnsweredAt)
	}
	return w.Due
}

// Why is the last reason why the wake was refused, not answered or dropped; empty where it never was.
func (w *Wake) Why() string {
	for i := len(w.Pushes) - 1; i >= 0; i-- {
		if reason := w.Pushes[i].Reason; reason != "" {
			return reason
		}
	}
	return w.Reason
}

// Said is what the wake's subject said then.
func (w *Wake) Said(s *Subject) string { return cmp.Or(w.Message, s.Message) }

// LateMs is how long after it fell due the host took the wake; false for one that was not taken, for one that was asked for by
// hand, and for a message, whose sender's clock may be another.
func (w *Wake) LateMs() (int64, bool) {
	return int64(max(0, w.TakenAt-w.Due)), w.Result == ResultTaken && !w.Manual && w.From == ""
}

// MeshID is the id of the subject that stands for all messages of other agents.
const MeshID = "mesh"

// Subject is what wakes: one reminder from its setting to its end, the heartbeat, or other agents' messages.
type Subject struct {
	ID          string         `json:"id"` // empty: the heartbeat
	Message     string         `json:"message"`
	State       WakeState      `json:"state,omitempty"`  // of a reminder in a report
	StateAt     Instant        `json:"stateAt,omitzero"` // when it falls or fell due, was taken or was cancelled
	SetBy       journal.Source `json:"setBy,omitempty"`  // empty: the event is no longer in the journal
	SetAt       Instant        `json:"setAt"`
	Edits       int            `json:"edits,omitempty"` // how often it was changed in the file
	EveryMs     int64          `json:"everyMs,omitempty"`
	Cron        string         `json:"cron,omitempty"`
	Repeats     string         `json:"repeats,omitempty"`
	NextAt      Instant        `json:"nextAt"` // when it falls due next; null when it is over
	CancelledAt Instant        `json:"cancelledAt"`
	CancelledBy journal.Source `json:"cancelledBy,omitempty"`
	Wakes       []*Wake        `json:"wakes"`
}

// ReminderID is the reminder's id; empty for the heartbeat and for messages.
func (s *Subject) ReminderID() string {
	if s.ID == MeshID {
		return ""
	}
	return s.ID
}

// CtlSuffix ends the version in the start event of a command that opened the journal for one change.
const CtlSuffix = " (ctl)"

// ByCommand says whether such a command started, not a server.
func ByCommand(start *journal.Start) bool { return strings.HasSuffix(start.Version, CtlSuffix) }

// Run is the time in which one server held the journal.
type Run struct {
	From    Instant `json:"from"`
	To      Instant `json:"to"` // of the stop event; after a crash of the last event before it
	Version string  `json:"version"`
	PID     int     `json:"pid"`
	End     string  `json:"end"` // "stopped: REASON", "crashed"; empty: nothing says that it ended
}

// History is the fold of a journal into what fired when (SPEC 9.6). It may be fed from any event on: what lies before is
// then not in it. Make one with [NewHistory].
type History struct {
	Heartbeat *Subject
	Messages  *Subject   // that were pushed, or taken
	Reminders []*Subject // in the order in which they were set
	Runs      []*Run
	Records   uint64  // how many were folded
	First     Instant // time of the first
	Last      Instant // time of the last

	index   uint64              // of the event that is being folded
	asked   Instant             // when somebody last asked for a heartbeat to poll
	alive   Instant             // when a server last did something
	letters map[string]*Wake    // for messages that the host did not take yet, by id
	open    map[string]*Subject // reminders that are not over, by id
	pushed  map[string]pushRef  // pushes that a late answer can still settle, by event id
	pending map[string]struct{} // those among them that no one answered yet
}

type pushRef struct {
	subject *Subject
	wake    *Wake
	push    int // in wake.Pushes
}

// NewHistory is the history of an empty journal.
func NewHistory() *History {
	return &History{Heartbeat: &Subject{}, Messages: &Subject{ID: MeshID}, open: map[string]*Subject{}, letters: map[string]*Wake{}, pushed: map[string]pushRef{}, pending: map[string]struct{}{}}
}

// Begin makes the reminders that a state holds known: those that were set before the first event that is fed.
func (h *History) Begin(s *State) {
	h.configured(s.Config)
	for _, r := range s.Reminders() {
		if h.open[r.ID] == nil {
			h.add(&Subject{ID: r.ID, Message: r.Message, SetAt: Instant(r.CreatedAt), EveryMs: r.EveryMs, Cron: r.Details().Cron, Repeats: r.Details().Repeats})
		}
	}
}

// Apply folds one event.
func (h *History) Apply(e journal.Event) {
	at := Instant(e.Time)
	h.index = e.Index
	switch b := e.Body.(type) {
	case *journal.Begin:
		if b.Replaces == "" {
			h.configured(DefaultConfig())
		}
	case *journal.Configure:
		override(&h.Heartbeat.Message, b.Message)
		override(&h.Heartbeat.EveryMs, b.IntervalMs)
	case *journal.Add:
		h.applyAdd(b, at)
	case *journal.Cancel:
		h.applyCancel(b, at)
	case *journal.Fire:
		h.applyFire(b, at)
	case *journal.Ack:
		h.applyAck(b, at)
	case *journal.Refuse:
		h.applyRefuse(b, at)
	case *journal.Drop:
		w := h.Heartbeat.wake(&Wake{Due: Instant(b.Due), Result: ResultDropped, DroppedAt: at, Reason: b.Reason})
		w.index = e.Index
	case *journal.Ask:
		h.asked = at
	case *journal.Tell:
		h.applyTell(b, at)
	case *journal.Told:
		h.applyTold(b, at)
	case *journal.Read:
		h.applyRead(b)
	case *journal.Start:
		h.applyStart(b, at)
	case *journal.Stop:
		if r := h.running(); r != nil {
			r.To, r.End = at, "stopped: "+b.Reason
		}
	}
	if h.Records++; h.First == 0 {
		h.First = at
	}
	h.Last = at
	switch e.Kind {
	case journal.KindHole, journal.KindSetAside: // made by a start that found damage, before its start event
	default:
		h.alive = at
	}
}

// Finish says what the state says at the end: when each open reminder and the heartbeat fall due next.
func (h *History) Finish(s *State, now int64) {
	for id, subject := range h.open {
		r, ok := s.Reminder(id)
		if !ok {
			continue
		}
		subject.NextAt, subject.Message, subject.EveryMs, subject.Cron = Instant(r.FireAt), r.Message, r.EveryMs, r.Details().Cron
		subject.Repeats = r.Details().Repeats
		if r.FireAt <= now && subject.unsettled(Instant(r.FireAt)) == nil {
			subject.wake(&Wake{Due: Instant(r.FireAt), Result: ResultDue})
		}
	}
	for _, w := range h.Heartbeat.Wakes {
		w.retried = s.Beat != nil && w.Due == Instant(s.Beat.Due)
	}
	h.configured(s.Config)
	if due, active := s.HeartbeatDue(); active {
		h.Heartbeat.NextAt = Instant(due)
	}
}

func (h *History) add(s *Subject) {
	h.open[s.ID] = s
	h.Reminders = append(h.Reminders, s)
}

// subject is the open reminder of that id, or the heartbeat; one of which the history has not seen the beginning is made.
func (h *History) subject(id string) *Subject {
	if id == "" {
		return h.Heartbeat
	}
	if h.open[id] == nil {
		h.add(&Subject{ID: id})
	}
	return h.open[id]
}

// wake adds a wake of the subject as it is now.
func (s *Subject) wake(w *Wake) *Wake {
	w.Message, w.EveryMs, w.Pushes = s.Message, s.EveryMs, []PushRecord{}
	s.Wakes = append(s.Wakes, w)
	return w
}

// configured has the heartbeat say what the settings say.
func (h *History) configured(c Config) {
	h.Heartbeat.Message, h.Heartbeat.EveryMs = c.Message, c.IntervalMs
}

func (h *History) applyAdd(b *journal.Add, at Instant) {
	if s := h.open[b.ID]; s != nil {
		s.Message, s.EveryMs, s.Cron, s.Repeats = b.Message, b.EveryMs, b.Cron, b.Repeats
		s.Edits++
		s.abandon()
		return
	}
	h.add(&Subject{ID: b.ID, Message: b.Message, SetBy: b.By, SetAt: at, EveryMs: b.EveryMs, Cron: b.Cron, Repeats: b.Repeats})
}

func (h *History) applyCancel(b *journal.Cancel, at Instant) {
	s := h.subject(b.ID)
	s.CancelledAt, s.CancelledBy = at, b.By
	s.abandon()
	delete(h.open, b.ID)
}

// abandon ends the wake that was not taken yet. A late answer may still say that it was.
func (s *Subject) abandon() {
	if n := len(s.Wakes); n > 0 && s.Wakes[n-1].Result != ResultTaken {
		s.Wakes[n-1].Result = ResultCancelled
	}
}

// unsettled is the last wake, if it fell due then and the host has not taken it.
func (s *Subject) unsettled(due Instant) *Wake {
	if n := len(s.Wakes); n > 0 && s.Wakes[n-1].Due == due {
		switch w := s.Wakes[n-1]; w.Result {
		case ResultRefused, ResultNoAnswer, ResultPending:
			return w
		}
	}
	return nil
}

func (h *History) applyFire(b *journal.Fire, at Instant) {
	s := h.subject(b.ID)
	w := s.unsettled(Instant(b.Due))
	if w == nil || b.ID == "" && !b.Fallback {
		w = s.wake(&Wake{Due: Instant(b.Due), Manual: b.Manual})
	}
	fallback := b.Fallback && !b.Retry
	if fallback { // it has the text of now, where the one before had none
		w.Message, w.EveryMs = s.Message, s.EveryMs
	}
	h.push(s, w, PushRecord{SentAt: at, EventID: b.EventID, Silent: b.Silent, Fallback: fallback})
}

// push adds one push to a wake.
func (h *History) push(s *Subject, w *Wake, p PushRecord) {
	p.Result, w.Result, w.index = ResultPending, ResultPending, h.index
	w.Pushes = append(w.Pushes, p)
	h.pushed[p.EventID] = pushRef{s, w, len(w.Pushes) - 1}
	h.pending[p.EventID] = struct{}{}
}

func (h *History) applyAck(b *journal.Ack, at Instant) {
	if b.By == journal.ByTool {
		h.applyPolled(b, at)
		return
	}
	ref, ok := h.settle(b.EventID)
	if !ok {
		return
	}
	current := ref.subject.unsettled(ref.wake.Due) == ref.wake && ref.push == len(ref.wake.Pushes)-1
	h.taken(ref, b, at)
	if current && b.ID != "" && b.Next == 0 && h.open[b.ID] == ref.subject { // another answer changes no reminder
		delete(h.open, b.ID)
	}
}

// taken says that the host took a push.
func (h *History) taken(ref pushRef, b *journal.Ack, at Instant) {
	delete(h.pushed, b.EventID)
	p := &ref.wake.Pushes[ref.push]
	p.Result, p.AnsweredAt, p.Late, p.Duplicate = ResultTaken, at, b.Late, b.Duplicate
	if ref.wake.Result != ResultTaken {
		ref.wake.Result, ref.wake.TakenAt = ResultTaken, at
	}
	ref.wake.InferenceID, ref.wake.index = b.InferenceID, h.index
}

// applyPolled folds an acknowledgement of what was polled. That of an alert about the files is no wake.
func (h *History) applyPolled(b *journal.Ack, at Instant) {
	if b.Due == 0 {
		return
	}
	s := h.subject(b.ID)
	w := s.unsettled(Instant(b.Due))
	if w == nil {
		w = s.wake(&Wake{Due: Instant(b.Due), Manual: b.ID == "" && Instant(b.Due) == h.asked})
	}
	w.Result, w.TakenAt, w.Polled, w.index = ResultTaken, at, true, h.index
	if b.ID != "" && b.Next == 0 {
		delete(h.open, b.ID)
	}
}

// letter is the wake for a message that the host did not take yet; it is made where there is none.
func (h *History) letter(message, from string, due Instant) *Wake {
	w := h.letters[message]
	if w == nil {
		w = h.Messages.wake(&Wake{Due: due, From: from})
		h.letters[message] = w
	}
	return w
}

func (h *History) applyTell(b *journal.Tell, at Instant) {
	h.push(h.Messages, h.letter(b.Message, b.From, Instant(b.WrittenAt)), PushRecord{SentAt: at, EventID: b.EventID})
}

func (h *History) applyTold(b *journal.Told, at Instant) {
	due, pushed := Instant(b.WrittenAt), Instant(b.PushedAt)
	if due == 0 { // an older version told pushes alone, without their times
		due, pushed = at, at
	}
	if pushed == 0 {
		w := h.letter(b.Message, b.From, due)
		delete(h.letters, b.Message)
		w.Result, w.TakenAt, w.Polled, w.index = ResultTaken, at, true, h.index
		return
	}
	ref, said := h.settle(b.EventID)
	if !said { // by an older version, or before what is read
		h.push(h.Messages, h.letter(b.Message, b.From, due), PushRecord{SentAt: pushed, EventID: b.EventID})
		ref, _ = h.settle(b.EventID)
	}
	delete(h.letters, b.Message)
	h.taken(ref, &journal.Ack{EventID: b.EventID, InferenceID: b.InferenceID, Late: b.Late, Duplicate: b.Duplicate}, at)
}

func (h *History) applyRead(b *journal.Read) {
	for _, id := range b.IDs {
		if w := h.letters[id]; w != nil {
			w.Result, w.index = ResultCancelled, h.index
			delete(h.letters, id)
		}
	}
}

func (h *History) applyRefuse(b *journal.Refuse, at Instant) {
	ref, ok := h.settle(b.EventID)
	if !ok {
		return
	}
	result := ResultRefused
	if b.NoAnswer {
		result = ResultNoAnswer
	} else {
		h.endPush(ref, b.EventID)
	}
	p := &ref.wake.Pushes[ref.push]
	p.Result, p.AnsweredAt, p.Code, p.Reason = result, at, b.Code, b.Reason
	ref.wake.index = h.index
	if ref.wake.Result == ResultPending {
		ref.wake.Result = result
	}
}

// endPush ends what a late answer can settle of a refused push, but for an earlier one under the same event id that was not
// answered.
func (h *History) endPush(ref pushRef, eventID string) {
	delete(h.pushed, eventID)
	for i := range ref.push {
		if p := &ref.wake.Pushes[i]; p.EventID == eventID && p.Result == ResultNoAnswer {
			h.pushed[eventID] = pushRef{ref.subject, ref.wake, i}
			return
		}
	}
}

func (h *History) settle(eventID string) (pushRef, bool) {
	delete(h.pending, eventID)
	ref, ok := h.pushed[eventID]
	return ref, ok
}

// applyStart begins a run. Without a stop before it, the server before it crashed, and what it had out was not answered.
func (h *History) applyStart(b *journal.Start, at Instant) {
	if r := h.running(); r != nil {
		r.To, r.End = h.alive, "crashed"
	}
	for id := range h.pending {
		ref, _ := h.settle(id)
		p := &ref.wake.Pushes[ref.push]
		p.Result, p.Reason = ResultNoAnswer, "the server ended before the host answered"
		if ref.wake.Result == ResultPending {
			ref.wake.Result = ResultNoAnswer
		}
	}
	if ByCommand(b) {
		return
	}
	h.Runs = append(h.Runs, &Run{From: at, Version: b.Version, PID: b.PID})
}

// running is the run of which no end is known.
func (h *History) running() *Run {
	if n := len(h.Runs); n > 0 && h.Runs[n-1].End == "" {
		return h.Runs[n-1]
	}
	return nil
}
