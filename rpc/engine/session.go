package engine

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/tools"
	"heartbeat-mcpl/rpc/wire"
)

// Host is a session's client as wakes reach it.
type Host interface {
	// Offer pushes a wake. What came of it is told by [Session.Outcome]: once, and a second time for a real answer after the limit.
	// After an error it never is.
	Offer(o Offer, params any, limit time.Duration) error
	// Backlog is how many bytes wait for the client to read.
	Backlog() int64
	// Reads is how often something was read from the client: what one read brought was written before any of it was answered.
	Reads() uint64
	// Notify sends a notification. It must not block.
	Notify(method string, params any) error
	// Changed tells of resources that changed. It must not block.
	Changed(uris []string)
}

// Offer is one push of a wake to one session.
type Offer struct {
	Seq      uint64          `json:"seq"` // tells the offers of one engine apart, also those of one event id
	EventID  string          `json:"eventId"`
	Reminder string          `json:"reminder,omitempty"` // id; empty: the heartbeat, or a message
	Message  *OfferedMessage `json:"message,omitempty"`
	Silent   bool            `json:"silent,omitempty"`
	Manual   bool            `json:"manual,omitempty"`
	Due      int64           `json:"due"` // Unix milliseconds
}

// OfferedMessage is the message that a wake is for.
type OfferedMessage struct {
	ID     string `json:"id"`
	From   string `json:"from"`
	Agent  string `json:"agent"` // whom it was sent to
	SentMs int64  `json:"sentMs"`
}

// Client is what a session's client says of itself.
type Client struct {
	Name    string       `json:"name"`              // and version, as its clientInfo says
	Session string       `json:"session,omitempty"` // the session's name from now on
	Offers  mcpl.Session `json:"offers"`
	Channel bool         `json:"channel,omitempty"` // it may take wakes as messages of a channel (SPEC 14.3)
}

// Peer is what a session is to an engine. It is registered with it again after a take-over (SPEC 13.2).
type Peer struct {
	Name    string         `json:"name"` // of the session (SPEC 13.3)
	PID     int            `json:"pid"`  // of the process that serves it
	Client  Client         `json:"client"`
	Met     bool           `json:"met"`               // the client has said what it speaks
	Policy  []PolicyUpdate `json:"policy,omitempty"`  // the last request and what followed
	Running []string       `json:"running,omitempty"` // turns of the host

	Conversation string `json:"conversation,omitempty"` // as the host calls it, where it says so (SPEC 14.5)
}

// PolicyUpdate is one featureSets/update.
type PolicyUpdate struct {
	Request bool            `json:"request"`
	Params  json.RawMessage `json:"params"`
}

// Session is one client's conversation, in this process or attached to it (SPEC 13). Its methods may be called from any goroutine
// until [Session.Close].
type Session struct {
	e    *Engine
	host Host

	// What follows belongs to the loop.
	name          string
	pid           int
	client        Client
	since         int64 // when it was opened
	called        int64 // when it called last
	turn          uint64
	policy        mcpl.Policy
	turns         turns
	policyAt      time.Time // when to say that no policy came; zero: never
	refusedSilent bool      // the host refused the last silent wake as empty (SPEC 7.2)
	warnedSilent  bool      // and the log said so
	conversation  string    // as the host calls it; empty: it does not say (SPEC 14.5)
	waits         []*wait   // calls that wait for a wake
	confirmed     bool      // a message of the channel was acknowledged: they reach the agent
	handed        []handed  // wakes that a waiting call carried, until they are taken
	looked        uint64    // the host's Reads at the last look at the files
}

// Connect registers a session. underWay are wakes that an earlier engine offered to it: their outcomes are still to come, or follow at
// once.
func (e *Engine) Connect(host Host, p Peer, underWay ...Offer) *Session {
	s := &Session{e: e, host: host, name: p.Name, pid: p.PID, client: p.Client, conversation: p.Conversation}
	e.do(func() {
		s.since, s.called = e.now(), e.now()
		if p.Met {
			s.begin(p.Client, len(p.Policy) == 0)
		}
		for _, u := range p.Policy {
			if u.Request {
				_, _ = s.policy.Update(u.Params) // its sender was told what is wrong with it
			} else {
				s.policy.Notice(u.Params)
			}
		}
		for _, id := range p.Running {
			s.turnBegan(id, true)
		}
		e.sessions = append(e.sessions, s)
		e.adopt(s, underWay)
		if p.Met && len(p.Policy) == 0 {
			e.logWaiting()
		}
		if len(p.Policy) > 0 {
			e.policyInForce(s)
		}
	})
	return s
}

// Close ends the session: what was offered to it and not answered goes to another.
func (s *Session) Close() {
	s.e.do(func() {
		s.e.sessions = slices.DeleteFunc(s.e.sessions, func(o *Session) bool { return o == s })
		s.e.abandoned(s)
	})
}

// Initialized begins a conversation on the connection: the policy of an earlier one is void.
func (s *Session) Initialized(c Client) {
	s.e.do(func() {
		s.begin(c, true)
		s.e.logWaiting()
	})
}

// begin takes in what the client says of itself.
func (s *Session) begin(c Client, awaitsPolicy bool) {
	s.client, s.name = c, cmp.Or(c.Session, s.name)
	s.policy.Initialized(c.Offers)
	s.turns = turns{}
	s.policyAt = time.Time{}
	if c.Offers.MCPL && awaitsPolicy {
		s.policyAt = time.Now().Add(policyPatient)
	}
}

// Call runs a tool; see [Engine.Call].
func (s *Session) Call(c Call, answer func(tools.Reply)) bool { return s.e.Call(s, c, answer) }

// Resource reads a resource; see [Engine.Resource].
func (s *Session) Resource(uri string, answer func(text string, err error)) bool {
	return s.e.Resource(uri, answer)
}

// UpdatePolicy takes a featureSets/update request; answer is called with the receipt once the new grant is in force and
// before any push under it (SPEC 8.4). False: the engine has ended, answer is never called.
func (s *Session) UpdatePolicy(params json.RawMessage, answer func(mcpl.Receipt, error)) bool {
	e := s.e
	return e.do(func() {
		receipt, err := s.policy.Update(params)
		e.then(func(error) { answer(receipt, err) })
		s.policyChanged()
		if err == nil {
			s.policyAt = time.Time{}
			e.policyInForce(s)
		}
	})
}

// NoticePolicy takes a featureSets/update notification, which can only narrow (SPEC 8.5).
func (s *Session) NoticePolicy(params json.RawMessage) {
	s.e.do(func() {
		s.policy.Notice(params)
		s.e.o.Log.Warn("featureSets/update came as a Notification, which grants nothing: the host must send it as a Request, with an id (MCPL 0.5, section 6.7)")
		s.policyChanged()
	})
}

func (s *Session) policyChanged() {
	blocked := s.policy.Blocked()
	s.e.record(&journal.Policy{Allowed: blocked == "", Reason: blocked, Session: s.name})
	s.e.logWaiting()
}

// Outcome says what came of an offer.
func (s *Session) Outcome(o Offer, a wire.Answer) {
	s.e.do(func() { s.e.outcome(s, o, a) })
}

// String is the session's name (SPEC 13.3).
func (s *Session) String() string { return s.name }

// takes is [deliverer.takes].
func (s *Session) takes(w *wake) (now, later bool) {
	if s.waitFor(w.kind) != nil {
		return true, true
	}
	return s.canPush() || s.client.Channel, s.policy.Blocked() == "" || len(s.waits) > 0 || s.client.Channel
}

// deliver is [deliverer.deliver].
func (s *Session) deliver(o Offer, c content) {
	if w := s.waitFor(c.kind); w != nil {
		w.got = append(w.got, carried{o, c})
		return
	}
	if !s.canPush() && s.client.Channel {
		s.channel(o, c)
		return
	}
	if err := s.host.Offer(o, c.params, answerLimit); err != nil {
		s.e.failed(s, o)
	}
}

// canTake says whether some wake could go to the session now.
func (s *Session) canTake() bool { return len(s.waits) > 0 || s.canPush() || s.client.Channel }

// canPush says whether a push could go to it now.
func (s *Session) canPush() bool {
	return s.policy.Blocked() == "" && !s.busy() && s.e.out[s] < mostInFlight && s.host.Backlog() < mostUnread
}

// policyInForce lets out what waited for a session's policy: what was refused is tried again (SPEC 6.5), and the heartbeat that was
// overdue at the start goes out, or is dropped (SPEC 6.8).
func (e *Engine) policyInForce(s *Session) {
	if !s.policy.InForce() {
		return
	}
	e.retryNow()
	if !e.beat.waiting {
		return
	}
	if blocked := e.blocked(); blocked != "" {
		e.beat.waiting = false
		e.dropBeat(e.beat.due, blocked)
		return
	}
	e.fireBeat(e.beat.due, e.now(), false)
}

// adopt takes over what an earlier engine had offered to a session: it is out, and its outcome is still to come.
func (e *Engine) adopt(s *Session, underWay []Offer) {
	for _, o := range underWay {
		e.offered = max(e.offered, o.Seq)
		last := e.attempt(o)
		if last == nil || last.EventID != o.EventID || last.Outcome == projection.Refused || e.flights[o.EventID] != nil {
			continue // it is settled, or out elsewhere: its outcome is late
		}
		e.takeOff(s, o)
		e.schedule(keyOf(o))
	}
}

// abandoned gives up what was offered to a session that is gone.
func (e *Engine) abandoned(s *Session) {
	for _, f := range e.flights {
		if f.by == s {
			e.outcome(s, f.Offer, wire.Answer{NoAnswer: true})
		}
	}
	for _, tried := range e.tried {
		delete(tried, s)
	}
}

// SessionInfo is one session as people see it.
type SessionInfo struct {
	Name     string `json:"name"`
	Client   string `json:"client"`
	PID      int    `json:"pid"` // of the process that serves it
	SinceMs  int64  `json:"sinceMs"`
	CalledMs int64  `json:"calledMs"` // when it called last
	Takes    string `json:"takes"`    // how wakes reach it; empty: not at all
	Blocked  string `json:"blocked"`  // why not
	Holder   bool   `json:"holder"`   // it is in the process that holds the journal
}

// Sessions are those that are connected, the one that called last first. False: the engine has ended.
func (e *Engine) Sessions(answer func([]SessionInfo)) bool {
	return e.do(func() {
		all := []SessionInfo{}
		for _, s := range e.bySpoken() {
			info := SessionInfo{Name: s.name, Client: s.client.Name, PID: s.pid, SinceMs: s.since, CalledMs: s.called, Blocked: s.policy.Blocked(), Holder: s.pid == e.o.Store.PID}
			switch {
			case info.Blocked == "":
				info.Takes = "push/event"
			case len(s.waits) > 0:
				info.Takes = "wait_for_wake"
			case s.client.Channel:
				info.Takes = "channel"
			}
			all = append(all, info)
		}
		answer(all)
	})
}

// bySpoken are the sessions, the one that called last first.
func (e *Engine) bySpoken() []*Session {
	all := slices.Clone(e.sessions)
	slices.SortStableFunc(all, func(a, b *Session) int { return cmp.Compare(b.turn, a.turn) })
	return all
}

// connected says whether a session of that name is here.
func (e *Engine) connected(name string) bool {
	return name == "" || slices.ContainsFunc(e.sessions, func(s *Session) bool { return s.name == name })
}

// blocked is why no wake can be sent to any session, empty while one can.
func (e *Engine) blocked() string {
	if e.o.Offline != "" {
		return e.o.Offline
	}
	if e.program != nil {
		return ""
	}
	why := blockedNoSession
	for _, s := range e.bySpoken() {
		blocked := s.policy.Blocked()
		if blocked == "" || len(s.waits) > 0 || s.client.Channel {
			return ""
		}
		if why == blockedNoSession {
			why = blocked
		}
	}
	return why
}

// blockedNoSession says that no wake can be sent, as nobody is there.
const blockedNoSession = "no session is open"
