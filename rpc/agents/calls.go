package agents

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/projection/rawjson"
	"heartbeat-mcpl/rpc/text"
	"heartbeat-mcpl/rpc/tools"
)

// mostSent is how many messages an agent may send in a minute.
const mostSent = 60

func refused(err error) tools.Reply { return tools.Reply{Text: err.Error(), IsError: true} }

// failed is what a call says that the mesh refuses, or that does not reach it.
func failed(err error) tools.Reply {
	if errors.As(err, new(refusal)) {
		return refused(err)
	}
	return tools.Reply{Text: "The mesh did not answer (" + err.Error() + "). Nothing was changed; everything else works.", IsError: true}
}

// Caller is who calls a tool: a session, and the key of its call, under which the call may come again (SPEC 13.2).
type Caller struct{ Session, Key string }

// Call runs one of the mesh's tools.
func (s *Service) Call(caller Caller, tool string, arguments json.RawMessage) tools.Reply {
	switch tool {
	case "agent_checkin":
		return s.checkIn(caller, arguments)
	case "agents_list":
		return s.list(arguments)
	case "agent_send":
		return s.send(caller, arguments)
	case "agent_inbox":
		return s.inbox(arguments)
	}
	return s.acknowledge(arguments)
}

func (s *Service) checkIn(caller Caller, arguments json.RawMessage) tools.Reply {
	args, notes, err := tools.ParseCheckIn(arguments)
	if err != nil {
		return refused(err)
	}
	a := projection.Agent{ID: args.Agent, Role: args.Role, Repo: args.Repo, Caps: args.Caps, Status: args.Status, TTLMs: args.TTL.Milliseconds(), Home: s.o.Home}
	data := rawjson.Object{}.PutText("agent_id", a.ID).Put("confirmed", args.Confirm).Put("ttl_seconds", a.TTLMs/1000)
	if !args.Confirm {
		return answered("Preview, nothing was announced: "+describe(a)+" would be announced to the mesh, and be stale after "+text.Seconds(a.TTLMs)+
			" s without a mesh call. Call again with confirm true to check in.", notes, data.Put("stale_at", nil))
	}
	s.renews(&a)
	if all, err := s.o.Mesh.Agents(); err == nil {
		for _, other := range all {
			if other.ID == a.ID && other.Home != a.Home {
				notes = append(notes, "Another session was here as "+a.ID+": both have that name now, and one inbox. Take a name of your own if that is not you.")
			}
		}
	}
	here, err := s.o.Mesh.CheckIn(a)
	if err != nil {
		return failed(err)
	}
	s.o.Host.Remember(caller.Session, a.ID, args.Pane) // first: what becomes of its messages is recorded as that agent's
	s.follow(here, args.Pane)
	return answered("Checked in: "+describe(here)+". Stale at "+text.Agent(here.StaleMs(), s.o.Zone)+" unless a mesh call renews it.", notes,
		data.Put("stale_at", projection.Instant(here.StaleMs())))
}

// renews keeps what an agent that checks in again does not say anew.
func (s *Service) renews(a *projection.Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.presence.ID != a.ID {
		return
	}
	a.Role, a.Repo, a.Status = cmp.Or(a.Role, s.presence.Role), cmp.Or(a.Repo, s.presence.Repo), cmp.Or(a.Status, s.presence.Status)
	if a.Caps == nil {
		a.Caps = s.presence.Caps
	}
}

// answered is a reply that carries the notes, below its text and in its data.
func answered(said string, notes []string, data rawjson.Object) tools.Reply {
	data = data.PutTexts("notes", notes)
	return tools.Reply{Text: strings.Join(append([]string{said}, notes...), "\n"), Structured: data.JSON()}
}

// describe is an agent in one line.
func describe(a projection.Agent) string {
	line := a.ID
	for _, part := range []struct{ name, value string }{{"role", a.Role}, {"repo", a.Repo}, {"caps", strings.Join(a.Caps, ", ")}} {
		if part.value != "" {
			line += fmt.Sprintf(" | %s %s", part.name, strings.ReplaceAll(text.OneLine(part.value), "|", "¦"))
		}
	}
	if a.Status != "" {
		line += " | status " + text.Quote(a.Status)
	}
	return line
}

// whole is a length in whole seconds, as people read it.
func whole(ms int64) string { return text.About(max(0, ms) / 1000 * 1000) }

func (s *Service) list(arguments json.RawMessage) tools.Reply {
	notes, err := tools.ParseNone("agents_list", arguments)
	if err != nil {
		return refused(err)
	}
	_, touched := s.me() // one that has not checked in may look, too
	all, err := s.o.Mesh.Agents()
	if err != nil {
		return failed(err)
	}
	if touched != nil && touched != errNobody {
		notes = append(notes, "Your own presence could not be renewed ("+touched.Error()+").")
	}
	now := time.Now().UnixMilli()
	lines := []string{fmt.Sprintf("%d agent(s):", len(all))}
	entries := []rawjson.Object{}
	for _, a := range all {
		line := describe(a)
		if a.Status != "" {
			line += " (for " + whole(now-a.StatusMs) + ")"
		}
		line += fmt.Sprintf(" | seen %s ago | stale %s", whole(now-a.LastMs), text.Agent(a.StaleMs(), s.o.Zone))
		ended, endedMs := s.o.Mesh.Ended(a.ID)
		switch {
		case endedMs > 0:
			line += " | its server ended " + whole(now-endedMs) + " ago"
		case ended:
			line += " | its server ended"
		}
		lines = append(lines, line)
		entries = append(entries, rawjson.Object{}.PutText("agent_id", a.ID).PutText("role", a.Role).PutText("repo", a.Repo).PutTexts("caps", a.Caps).
			PutText("status", a.Status).Put("statusAgeSeconds", max(0, now-a.StatusMs)/1000).Put("checkedInAt", projection.Instant(a.SinceMs)).
			Put("lastSeen", projection.Instant(a.LastMs)).Put("staleAt", projection.Instant(a.StaleMs())).
			Put("serverEnded", ended).Put("serverEndedAt", projection.Instant(endedMs)))
	}
	if len(all) == 0 {
		lines = []string{"No agents are here."}
	}
	return answered(strings.Join(lines, "\n"), notes, rawjson.Object{}.Put("count", len(all)).Put("agents", entries))
}

func (s *Service) send(caller Caller, arguments json.RawMessage) tools.Reply {
	args, notes, err := tools.ParseSend(arguments)
	if err != nil {
		return refused(err)
	}
	me, err := s.me()
	if err != nil {
		return failed(err)
	}
	all, err := s.o.Mesh.Agents()
	if err != nil {
		return failed(err)
	}
	to := recipients(args.To, me, all)
	if len(to) == 0 {
		return refused(fmt.Errorf("nobody was written to: no agent %s is here. %s", text.Quote(args.To), nearest(args.To, all)))
	}
	data := rawjson.Object{}.Put("to", to).Put("confirmed", args.Confirm)
	if !args.Confirm {
		return answered(fmt.Sprintf("Preview, nothing was sent: %s would get %s. Call again with confirm true to send it.", strings.Join(to, ", "), text.Quote(text.Cut(args.Message, 200))), notes, data.Put("id", nil))
	}
	if err := s.allow(); err != nil {
		return refused(err)
	}
	letter := projection.Letter{ID: messageID(caller.Key), From: me, Text: args.Message}
	if err := s.o.Mesh.Send(letter, to); errors.Is(err, errUnknown) {
		return tools.Reply{Text: "The mesh did not answer (" + err.Error() + "). The message may have been sent: ask its receiver before you send it again.", IsError: true}
	} else if err != nil {
		return failed(err)
	}
	return answered(fmt.Sprintf("Sent %s to %s.", letter.ID, strings.Join(to, ", ")), notes, data.PutText("id", letter.ID))
}

// messageID is a new message's id: a call that is made again after a take-over is the same message.
func messageID(key string) string {
	if key == "" {
		key = rand.Text()
	}
	return "msg_" + journal.HashBytes([]byte(key))[:12]
}

// addresses are those of an agent that are of the same kind as to: its name, or role:NAME, or cap:NAME for each capability.
func addresses(to string, a projection.Agent) []string {
	switch {
	case strings.HasPrefix(to, "role:"):
		return []string{"role:" + a.Role}
	case strings.HasPrefix(to, "cap:"):
		all := make([]string, len(a.Caps))
		for i, capability := range a.Caps {
			all[i] = "cap:" + capability
		}
		return all
	}
	return []string{a.ID}
}

// recipients are the agents that an address means: one by its name, or all with a role or a capability, but the sender.
func recipients(to, me string, all []projection.Agent) []string {
	names := []string{}
	for _, a := range all {
		if slices.Contains(addresses(to, a), to) && (a.ID == to || a.ID != me) {
			names = append(names, a.ID)
		}
	}
	return names
}

// nearest are the addresses of its kind that are most like one that nobody has.
func nearest(to string, all []projection.Agent) string {
	var names []string
	for _, a := range all {
		names = append(names, addresses(to, a)...)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "role:" }) // of an agent without one
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return "agents_list shows who is here."
	}
	return "The nearest: " + strings.Join(tools.NearestOf(to, names, 3), ", ") + "; agents_list shows all."
}

// allow bounds how much an agent sends.
func (s *Service) allow() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.sent = slices.DeleteFunc(s.sent, func(t time.Time) bool { return now.Sub(t) > time.Minute })
	if len(s.sent) >= mostSent {
		return fmt.Errorf("nothing was sent: %d messages in a minute are the most; wait %d seconds", mostSent, int((time.Minute-now.Sub(s.sent[0])).Seconds())+1)
	}
	s.sent = append(s.sent, now)
	return nil
}

func (s *Service) inbox(arguments json.RawMessage) tools.Reply {
	limit, notes, err := tools.ParseInbox(arguments)
	if err != nil {
		return refused(err)
	}
	me, err := s.me()
	if err != nil {
		return failed(err)
	}
	unread, err := s.o.Mesh.Inbox(me)
	if err != nil {
		return failed(err)
	}
	now := time.Now().UnixMilli()
	lines := []string{fmt.Sprintf("%d message(s) wait:", len(unread))}
	messages := []rawjson.Object{}
	for _, l := range unread[:min(limit, len(unread))] {
		lines = append(lines, text.Letter(l, now, s.o.Zone))
		messages = append(messages, rawjson.Object{}.PutText("id", l.ID).PutText("from", l.From).PutText("text", l.Text).Put("sentAt", projection.Instant(l.SentMs)))
	}
	switch {
	case len(unread) == 0:
		lines = []string{"No messages."}
	case len(unread) > limit:
		lines = append(lines, fmt.Sprintf("And %d more: acknowledge these with agent_ack, and ask again.", len(unread)-limit))
	default:
		lines = append(lines, "Acknowledge them with agent_ack.")
	}
	return answered(strings.Join(lines, "\n"), notes, rawjson.Object{}.Put("messages", messages).Put("waiting", len(unread)))
}

func (s *Service) acknowledge(arguments json.RawMessage) tools.Reply {
	ids, notes, err := tools.ParseAgentAck(arguments)
	if err != nil {
		return refused(err)
	}
	me, err := s.me()
	if err != nil {
		return failed(err)
	}
	read, err := s.o.Mesh.Acknowledge(me, ids)
	s.o.Host.LettersRead(me, read)
	if err != nil {
		return failed(err)
	}
	s.look()
	n := len(read)
	if n < len(ids) {
		notes = append(notes, "The others do not wait: they were acknowledged before, or never came.")
	}
	return answered(fmt.Sprintf("Acknowledged %d of %d.", n, len(ids)), notes, rawjson.Object{}.Put("acknowledged", n))
}
