package journal

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Kind says what an event records. Its number is part of the format on disk: numbers are never reused.
type Kind uint8

// The kinds of SPEC 9.1, and those that the server needs for its own books.
const (
	KindBegin     Kind = 1  // first record of a journal: its identity
	KindConfigure Kind = 2  // the heartbeat's settings changed
	KindAdd       Kind = 3  // a reminder was set, or replaced by an edit of the file
	KindCancel    Kind = 4  // a reminder was cancelled
	KindFire      Kind = 5  // a wake is about to be pushed (written before it leaves)
	KindAck       Kind = 6  // the host took a wake
	KindRefuse    Kind = 7  // the host refused a wake, or did not answer
	KindDrop      Kind = 8  // a heartbeat fell due while wakes were blocked
	KindStart     Kind = 9  // a server opened the journal
	KindStop      Kind = 10 // a server closed the journal
	KindPolicy    Kind = 11 // the host's policy changed
	KindImport    Kind = 12 // a view was read into the journal
	KindSetAside  Kind = 13 // something that could not be used was copied aside
	KindSnapshot  Kind = 14 // one part of the whole state
	KindHole      Kind = 15 // a record that was here is lost
	KindClock     Kind = 16 // the clock was set back
	KindCheckIn   Kind = 17 // the agent of this journal announced itself to the mesh
	KindPresent   Kind = 18 // in a mesh's journal: an agent announced itself
	KindTouch     Kind = 19 // in a mesh's journal: an agent was heard of
	KindMessage   Kind = 20 // in a mesh's journal: an agent sent a message
	KindRead      Kind = 21 // an agent acknowledged messages of a mesh
	KindTold      Kind = 22 // the host took a mesh's message
	KindTell      Kind = 23 // a mesh's message is about to be pushed (written before it leaves)
	KindAsk       Kind = 24 // a heartbeat was asked for where nothing is pushed: it waits to be polled
)

var kindNames = map[Kind]string{
	KindBegin: "begin", KindConfigure: "configure", KindAdd: "add", KindCancel: "cancel", KindFire: "fire",
	KindAck: "ack", KindRefuse: "refuse", KindDrop: "drop", KindStart: "start", KindStop: "stop",
	KindPolicy: "policy", KindImport: "import", KindSetAside: "setaside", KindSnapshot: "snapshot",
	KindHole: "hole", KindClock: "clock", KindCheckIn: "checkin", KindPresent: "present", KindTouch: "touch",
	KindMessage: "message", KindRead: "read", KindTold: "told", KindTell: "tell", KindAsk: "ask",
}

// String is the kind's name, or "unknown-N" for one of a newer version.
func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return "unknown-" + strconv.Itoa(int(k))
}

// Known says whether this version knows the kind.
func (k Kind) Known() bool {
	_, known := kindNames[k]
	return known
}

// Kinds are the names of all kinds, in the order of their numbers.
func Kinds() []string {
	var names []string
	for _, k := range slices.Sorted(maps.Keys(kindNames)) {
		names = append(names, kindNames[k])
	}
	return names
}

// Source says who caused an event (SPEC 9.1).
type Source string

// The sources.
const (
	ByTool   Source = "tool"   // the agent, through a tool call
	ByFile   Source = "file"   // a person who edited a view
	ByCLI    Source = "cli"    // a person at the command line
	ByImport Source = "import" // the first start on files of the Node.js server
	ByTimer  Source = "timer"  // a wake fell due
	ByHost   Source = "host"   // the host answered or sent a policy
	ByServer Source = "server" // the server's own books
)

// Event is one fact. Index and Time are set when it is appended; Body is nil for a kind that this version does not know.
type Event struct {
	Index uint64 // 1, 2, 3 ... without gaps
	Time  int64  // Unix milliseconds
	Kind  Kind
	Body  Body

	// Raw is the msgpack body as stored, so that fields and kinds of a newer version are carried through unread.
	Raw []byte
}

// When is the event's time in UTC.
func (e Event) When() time.Time { return time.UnixMilli(e.Time).UTC() }

// Reminder is the id of the reminder that the event is about, empty where it is about none.
func (e Event) Reminder() string {
	switch b := e.Body.(type) {
	case *Add:
		return b.ID
	case *Cancel:
		return b.ID
	case *Fire:
		return b.ID
	case *Ack:
		return b.ID
	case *Refuse:
		return b.ID
	}
	return ""
}

// Body is what one kind of event carries. All times are Unix milliseconds, all lengths milliseconds. The short msgpack keys
// on disk and the JSON names that `replay --json` shows are stable for ever; a new field never changes the meaning of an
// old one.
type Body interface{ Kind() Kind }

// Origin says which session an event came from, and by which call (SPEC 13.2, 13.3).
type Origin struct {
	Session string `msgpack:"se,omitempty" json:"session,omitempty"` // name; empty: from none, or in an older version
	Call    string `msgpack:"ck,omitempty" json:"-"`                 // key of a call that may be made again
}

// Attribute says in a body which session's call it came from; a kind that does not tell stays as it is.
func Attribute(b Body, session, call string) {
	o := Origin{session, call}
	switch b := b.(type) {
	case *Configure:
		b.Origin = o
	case *Add:
		b.Origin = o
	case *Cancel:
		b.Origin = o
	case *Fire:
		b.Origin = o
	case *Ask:
		b.Origin = o
	case *Ack:
		b.Origin = o
	case *CheckIn:
		b.Origin = o
	}
}

// OriginOf is what a body says of where it came from.
func OriginOf(b Body) Origin {
	switch b := b.(type) {
	case *Configure:
		return b.Origin
	case *Add:
		return b.Origin
	case *Cancel:
		return b.Origin
	case *Fire:
		return b.Origin
	case *Ask:
		return b.Origin
	case *Ack:
		return b.Origin
	case *CheckIn:
		return b.Origin
	}
	return Origin{}
}

// Begin opens a journal. It is the first record, and its CRC is not seeded, so that the identity can be read from it.
type Begin struct {
	ID       string `msgpack:"id" json:"id"`                           // 16 random bytes in lower-case hex
	Major    int    `msgpack:"v" json:"major"`                         // format version that it began with; a higher one is not opened
	Minor    int    `msgpack:"m" json:"minor"`                         // a higher one is read, unknown kinds and fields carried through
	Before   string `msgpack:"bf,omitempty" json:"before,omitempty"`   // the identity of the damaged journal whose records go on in this one, at the same indices
	Replaces string `msgpack:"rp,omitempty" json:"replaces,omitempty"` // the copy that holds the damaged journal before this one
	Instead  string `msgpack:"in,omitempty" json:"instead,omitempty"`  // the identity that the views named which were imported when it was made: of a journal that is gone
}

// Configure changes the heartbeat's settings: the fields that are not nil.
type Configure struct {
	By         Source          `msgpack:"by" json:"by"`
	IntervalMs *int64          `msgpack:"iv,omitempty" json:"intervalMs,omitempty"`
	Paused     *bool           `msgpack:"pa,omitempty" json:"paused,omitempty"`
	Mode       *string         `msgpack:"mo,omitempty" json:"deliveryMode,omitempty"` // "message" or "silent"
	Message    *string         `msgpack:"ms,omitempty" json:"message,omitempty"`
	Standing   *bool           `msgpack:"st,omitempty" json:"standing,omitempty"`    // the message is a recurring instruction (SPEC 11.4)
	Cleared    *bool           `msgpack:"cl,omitempty" json:"cleared,omitempty"`     // there is no heartbeat until one is set again (SPEC 11.2)
	Active     *string         `msgpack:"ah,omitempty" json:"activeHours,omitempty"` // "08:00-22:30": outside of them no heartbeat comes
	Command    string          `msgpack:"cm,omitempty" json:"command,omitempty"`     // every, pause, resume or clear: what was said
	Reanchor   bool            `msgpack:"ra,omitempty" json:"reanchor,omitempty"`    // the heartbeat's phase starts anew at the event's time (SPEC 5.2)
	Extra      json.RawMessage `msgpack:"xt,omitempty" json:"extra,omitempty"`       // JSON object: members of the config view that are not ours
	ClearExtra bool            `msgpack:"xc,omitempty" json:"clearExtra,omitempty"`  // such members were removed from the view
	Origin
	Conversation string `msgpack:"cv,omitempty" json:"conversation,omitempty"` // of the host, that asked for it (SPEC 14.5)
}

// Add sets a reminder. One whose ID is there already is replaced (an edit of the file) and keeps its place.
type Add struct {
	By           Source `msgpack:"by" json:"by"`
	ID           string `msgpack:"id" json:"id"`
	Message      string `msgpack:"ms" json:"message"`
	CreatedAt    int64  `msgpack:"ca" json:"createdAt"`
	FireAt       int64  `msgpack:"fa" json:"fireAt"`
	EveryMs      int64  `msgpack:"ev,omitempty" json:"everyMs,omitempty"`      // 0: one-shot
	Fixed        bool   `msgpack:"fx,omitempty" json:"fixed,omitempty"`        // FireAt is a point on the clock, not an elapsed length (SPEC 6.8)
	Conversation string `msgpack:"cv,omitempty" json:"conversation,omitempty"` // of the host, that asked for it (SPEC 14.5)
	Details
	Origin
}

// Details are what few reminders have beside a text and a time.
type Details struct {
	Title    string          `msgpack:"ti,omitempty" json:"title,omitempty"`
	Severity string          `msgpack:"sv,omitempty" json:"severity,omitempty"`  // "high"; empty: normal
	URL      string          `msgpack:"ur,omitempty" json:"url,omitempty"`       // what it is about: hosts that poll get it as content
	Cron     string          `msgpack:"cr,omitempty" json:"cron,omitempty"`      // in place of EveryMs: five fields
	Zone     string          `msgpack:"tz,omitempty" json:"timeZone,omitempty"`  // of Cron, or of Repeats
	Until    int64           `msgpack:"un,omitempty" json:"until,omitempty"`     // it does not fall due after this; 0: for ever
	Left     int             `msgpack:"lf,omitempty" json:"remaining,omitempty"` // how often it still falls due; 0: for ever
	Extra    json.RawMessage `msgpack:"xt,omitempty" json:"extra,omitempty"`     // JSON object: members of the view's entry that are not ours
	Repeats  string          `msgpack:"rp,omitempty" json:"repeats,omitempty"`   // in place of EveryMs: "2 weeks", counted on the calendar; needs format 2
	From     string          `msgpack:"fr,omitempty" json:"from,omitempty"`      // what Repeats counts from, on the clock on the wall: "2026-12-10T15:00:00"
}

// Equal says whether d and o are the same.
func (d *Details) Equal(o *Details) bool {
	return d.Title == o.Title && d.Severity == o.Severity && d.URL == o.URL && d.Cron == o.Cron && d.Zone == o.Zone &&
		d.Repeats == o.Repeats && d.From == o.From && d.Until == o.Until && d.Left == o.Left && bytes.Equal(d.Extra, o.Extra)
}

// Cancel removes a reminder.
type Cancel struct {
	By Source `msgpack:"by" json:"by"`
	ID string `msgpack:"id" json:"id"`
	Origin
}

// Fire says that a wake is about to be pushed. An empty ID is the heartbeat.
type Fire struct {
	By       Source `msgpack:"by" json:"by"`
	ID       string `msgpack:"id,omitempty" json:"id,omitempty"`
	EventID  string `msgpack:"ei" json:"eventId"`
	Due      int64  `msgpack:"du" json:"due"`
	Manual   bool   `msgpack:"mn,omitempty" json:"manual,omitempty"`   // heartbeat_trigger: the schedule does not move
	Silent   bool   `msgpack:"si,omitempty" json:"silent,omitempty"`   // pushed without text (SPEC 7.1)
	Fallback bool   `msgpack:"fb,omitempty" json:"fallback,omitempty"` // the same heartbeat again, at once: a silent one that was refused, with its text (SPEC 7.2)
	Retry    bool   `msgpack:"rt,omitempty" json:"retry,omitempty"`    // with Fallback: later, because the host did not take it (SPEC 6.5a)
	Again    bool   `msgpack:"ag,omitempty" json:"again,omitempty"`    // EventID was sent before, without an answer (SPEC 6.6)
	To       string `msgpack:"to,omitempty" json:"to,omitempty"`       // the session whom it is offered to
	Origin
}

// Ack says that the host took a wake: that it took the push of it, or, By the tool, that it acknowledged what it had
// polled. EventID is then the occurrence's; without an ID it is the heartbeat's, or that of an alert about the files.
type Ack struct {
	By          Source `msgpack:"by,omitempty" json:"by,omitempty"`    // empty: the host, by its answer to a push
	Due         int64  `msgpack:"du,omitempty" json:"due,omitempty"`   // of what was polled
	Until       int64  `msgpack:"un,omitempty" json:"until,omitempty"` // of an alert about the files: when it may be shown again; 0: never
	ID          string `msgpack:"id,omitempty" json:"id,omitempty"`
	EventID     string `msgpack:"ei" json:"eventId"`
	InferenceID string `msgpack:"in,omitempty" json:"inferenceId,omitempty"`
	Late        bool   `msgpack:"lt,omitempty" json:"late,omitempty"`        // answered after the limit
	Duplicate   bool   `msgpack:"dp,omitempty" json:"duplicate,omitempty"`   // refused as a duplicate of one that was taken before
	Unconfirmed bool   `msgpack:"uc,omitempty" json:"unconfirmed,omitempty"` // it was written, and nothing says that it was read (SPEC 14.3)
	Next        int64  `msgpack:"nx,omitempty" json:"next,omitempty"`        // a recurring reminder's next slot
	To          string `msgpack:"to,omitempty" json:"to,omitempty"`          // the session who took it
	Origin
}

// Refuse says that the host did not take a wake.
type Refuse struct {
	ID       string `msgpack:"id,omitempty" json:"id,omitempty"`
	Message  string `msgpack:"me,omitempty" json:"message,omitempty"` // of the mesh: the wake was one for it
	EventID  string `msgpack:"ei" json:"eventId"`
	Code     int64  `msgpack:"co,omitempty" json:"code,omitempty"` // JSON-RPC error code; 0 for accepted: false
	Reason   string `msgpack:"rs" json:"reason"`
	NoAnswer bool   `msgpack:"na,omitempty" json:"noAnswer,omitempty"` // nobody knows whether it arrived: the same EventID goes out again
	To       string `msgpack:"to,omitempty" json:"to,omitempty"`       // the session who did not
}

// Drop says that a heartbeat fell due while wakes were blocked (SPEC 6.4).
type Drop struct {
	Due    int64  `msgpack:"du" json:"due"`
	Reason string `msgpack:"rs" json:"reason"`
}

// Start says that a server opened the journal.
type Start struct {
	Version string `msgpack:"ve" json:"version"`
	PID     int    `msgpack:"pi" json:"pid"`
	Zone    string `msgpack:"tz" json:"zone"`
}

// Stop says that a server closed the journal.
type Stop struct {
	PID    int    `msgpack:"pi" json:"pid"`
	Reason string `msgpack:"rs" json:"reason"`
}

// Policy says what the host allows now.
type Policy struct {
	Allowed bool   `msgpack:"ok" json:"allowed"`
	Reason  string `msgpack:"rs,omitempty" json:"reason,omitempty"`  // why wakes are blocked
	Session string `msgpack:"se,omitempty" json:"session,omitempty"` // whose host says so
}

// Import says that a view was read into the journal; the events that follow from it stand behind it.
type Import struct {
	By      Source `msgpack:"by" json:"by"` // ByImport at the first start, ByFile for an edit
	File    string `msgpack:"fi" json:"file"`
	SHA256  string `msgpack:"sh" json:"sha256"`                      // of the file's bytes, lower-case hex
	Changes int    `msgpack:"n" json:"changes"`                      // how many events follow from it
	Partial bool   `msgpack:"pt,omitempty" json:"partial,omitempty"` // the file was usable in part (SPEC 3.3)
}

// SetAside says that something that could not be used was copied aside or cut off (SPEC 3).
type SetAside struct {
	File string `msgpack:"fi" json:"file"`
	Copy string `msgpack:"cp" json:"copy"`
	Why  string `msgpack:"wy" json:"why"`
	Lost uint64 `msgpack:"lo,omitempty" json:"lost,omitempty"` // records lost with it
}

// Snapshot is one of Parts consecutive records that hold the whole state after the event before part 0.
type Snapshot struct {
	Part  uint32 `msgpack:"p" json:"part"`
	Parts uint32 `msgpack:"ps" json:"parts"`
	Data  []byte `msgpack:"d" json:"-"`                          // as package projection encodes it
	Needs int    `msgpack:"nd,omitempty" json:"needs,omitempty"` // the major version that a reader must know; 0: the first
}

// Hole stands at an index whose record is lost.
type Hole struct {
	Why string `msgpack:"wy" json:"why"`
}

// Clock says that the clock was set back by ShiftMs: whatever counts elapsed time moves back with it (SPEC 6.8).
type Clock struct {
	ShiftMs int64 `msgpack:"sh" json:"shiftMs"`
}

// CheckIn says as whom this journal's agent takes part in the mesh, and which pane of its terminal is to be woken: that never
// leaves this journal (SPEC 12.5).
type CheckIn struct {
	Agent string `msgpack:"ag" json:"agent"`
	Pane  string `msgpack:"pn,omitempty" json:"herdrPane,omitempty"`
	Origin
}

// Present announces an agent to the mesh, or renews it.
type Present struct {
	Agent  string   `msgpack:"ag" json:"agent"`
	Role   string   `msgpack:"ro,omitempty" json:"role,omitempty"`
	Repo   string   `msgpack:"re,omitempty" json:"repo,omitempty"`
	Caps   []string `msgpack:"ca,omitempty" json:"caps,omitempty"`
	Status string   `msgpack:"st,omitempty" json:"status,omitempty"`
	Home   string   `msgpack:"ho,omitempty" json:"home,omitempty"` // tells the sessions of one server from those of others
	TTLMs  int64    `msgpack:"tt" json:"ttlMs"`
}

// Touch renews an agent's presence: it made a mesh call.
type Touch struct {
	Agent string `msgpack:"ag" json:"agent"`
}

// Message is sent from one agent to others, by name: who else a role or a capability means was found out when it was sent.
type Message struct {
	ID   string   `msgpack:"id" json:"id"`
	From string   `msgpack:"fr" json:"from"`
	To   []string `msgpack:"to" json:"to"`
	Text string   `msgpack:"tx" json:"text"`
}

// Tell says that a wake for a message is about to be pushed, as [Fire] does for what falls due.
type Tell struct {
	Message   string `msgpack:"me" json:"message"`
	From      string `msgpack:"fr" json:"from"`
	EventID   string `msgpack:"ei" json:"eventId"`
	WrittenAt int64  `msgpack:"wr" json:"writtenAt"`                 // by its sender's clock
	Again     bool   `msgpack:"ag,omitempty" json:"again,omitempty"` // EventID was sent before, without an answer (SPEC 6.6)
	To        string `msgpack:"to,omitempty" json:"to,omitempty"`    // the session whom it is offered to
}

// Ask says that somebody asked for a heartbeat where nothing is pushed.
type Ask struct {
	By Source `msgpack:"by" json:"by"`
	Origin
}

// Told says that the host took a message: it is not pushed again, nor offered to be polled. Times are Unix milliseconds.
type Told struct {
	Message     string `msgpack:"me" json:"message"`
	From        string `msgpack:"fr" json:"from"`
	EventID     string `msgpack:"ei" json:"eventId"`
	InferenceID string `msgpack:"in,omitempty" json:"inferenceId,omitempty"`
	WrittenAt   int64  `msgpack:"wr,omitempty" json:"writtenAt,omitempty"` // by its sender's clock
	PushedAt    int64  `msgpack:"pu,omitempty" json:"pushedAt,omitempty"`  // 0: it was polled
	Late        bool   `msgpack:"lt,omitempty" json:"late,omitempty"`      // as in [Ack]
	Duplicate   bool   `msgpack:"dp,omitempty" json:"duplicate,omitempty"` // as in [Ack]
	To          string `msgpack:"to,omitempty" json:"to,omitempty"`        // the session who took it
}

// Read says that an agent acknowledged messages: in a mesh's journal, and in the agent's own, where that knows of their wakes.
type Read struct {
	Agent string   `msgpack:"ag" json:"agent"`
	IDs   []string `msgpack:"id" json:"ids"`
}

func (*CheckIn) Kind() Kind   { return KindCheckIn }
func (*Present) Kind() Kind   { return KindPresent }
func (*Touch) Kind() Kind     { return KindTouch }
func (*Message) Kind() Kind   { return KindMessage }
func (*Read) Kind() Kind      { return KindRead }
func (*Told) Kind() Kind      { return KindTold }
func (*Tell) Kind() Kind      { return KindTell }
func (*Ask) Kind() Kind       { return KindAsk }
func (*Begin) Kind() Kind     { return KindBegin }
func (*Configure) Kind() Kind { return KindConfigure }
func (*Add) Kind() Kind       { return KindAdd }
func (*Cancel) Kind() Kind    { return KindCancel }
func (*Fire) Kind() Kind      { return KindFire }
func (*Ack) Kind() Kind       { return KindAck }
func (*Refuse) Kind() Kind    { return KindRefuse }
func (*Drop) Kind() Kind      { return KindDrop }
func (*Start) Kind() Kind     { return KindStart }
func (*Stop) Kind() Kind      { return KindStop }
func (*Policy) Kind() Kind    { return KindPolicy }
func (*Import) Kind() Kind    { return KindImport }
func (*SetAside) Kind() Kind  { return KindSetAside }
func (*Snapshot) Kind() Kind  { return KindSnapshot }
func (*Hole) Kind() Kind      { return KindHole }
func (*Clock) Kind() Kind     { return KindClock }

// newBody is an empty body of the kind, nil where this version does not know it.
func newBody(k Kind) Body {
	switch k {
	case KindBegin:
		return new(Begin)
	case KindConfigure:
		return new(Configure)
	case KindAdd:
		return new(Add)
	case KindCancel:
		return new(Cancel)
	case KindFire:
		return new(Fire)
	case KindAck:
		return new(Ack)
	case KindRefuse:
		return new(Refuse)
	case KindDrop:
		return new(Drop)
	case KindStart:
		return new(Start)
	case KindStop:
		return new(Stop)
	case KindPolicy:
		return new(Policy)
	case KindImport:
		return new(Import)
	case KindSetAside:
		return new(SetAside)
	case KindSnapshot:
		return new(Snapshot)
	case KindHole:
		return new(Hole)
	case KindClock:
		return new(Clock)
	case KindCheckIn:
		return new(CheckIn)
	case KindPresent:
		return new(Present)
	case KindTouch:
		return new(Touch)
	case KindMessage:
		return new(Message)
	case KindRead:
		return new(Read)
	case KindTold:
		return new(Told)
	case KindTell:
		return new(Tell)
	case KindAsk:
		return new(Ask)
	}
	return nil
}
