package engine

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/projection/rawjson"
	"heartbeat-mcpl/rpc/command"
	"heartbeat-mcpl/rpc/text"
	"heartbeat-mcpl/rpc/tools"
)

// reply is a [tools.Reply] in the making.
type reply struct {
	text     string
	data     rawjson.Object
	document any      // in place of text, data and notes: one JSON document, for hosts that poll
	notes    []string // sentences below the text
	isError  bool
	beside   func() // what has to be done, beside the loop, before the answer; nil: nothing
	changed  bool   // something was recorded that should be saved
	saves    bool   // data says whether it was
}

func refusal(err error) reply { return reply{text: err.Error(), isError: true} }

// shows says which views a tool's reply shows or counts (SPEC 3.6).
type shows struct{ config, reminders bool }

type toolCall struct {
	shows shows
	reads bool // call records nothing
	call  func(*Engine, json.RawMessage) reply
	// parse takes the place of call: it reads the arguments beside the loop, and returns what is left to be done in it.
	parse func(*Engine, json.RawMessage) func() reply
	// read answers in place of call, from the journal on disk and beside the loop.
	read func(*Engine, json.RawMessage, func(reply))
}

var toolCalls = map[string]toolCall{
	"heartbeat_status":    {shows: shows{true, true}, reads: true, call: (*Engine).status},
	"heartbeat_configure": {shows: shows{true, true}, call: (*Engine).configure},
	"heartbeat_trigger":   {shows: shows{true, true}, call: (*Engine).trigger},
	"reminder_add":        {shows: shows{false, true}, parse: (*Engine).parseAdd},
	"reminder_list":       {shows: shows{false, true}, reads: true, call: (*Engine).listReminders},
	"reminder_cancel":     {shows: shows{false, true}, call: (*Engine).cancelReminder},
	"heartbeat_command":   {shows: shows{true, true}, call: (*Engine).command},
	"wake_history":        {shows: shows{false, true}, read: (*Engine).wakeHistory},

	"get_proactive_events": {shows: shows{true, true}, call: (*Engine).proactiveEvents},
	"acknowledge_events":   {shows: shows{true, true}, call: (*Engine).acknowledge},
	"get_context":          {shows: shows{true, true}, call: (*Engine).context},
	"poll_feeds":           {shows: shows{true, true}, call: (*Engine).pollFeeds},
}

// Call is one call of a tool.
type Call struct {
	By        journal.Source
	Tool      string // one of package tools
	Arguments json.RawMessage
	Key       string // tells it from all others over a take-over (SPEC 13.2); empty: it does not come again

	Conversation string // of the host, where the call says it (SPEC 14.5)
	Cancel       string // by which a waiting call is called off; empty: it cannot be
	Patient      bool   // the host is told of progress while it waits
}

// Call runs a tool for a session, nil for a command; answer is called once its events are on disk, or could not be put there. False:
// the engine has ended, answer is never called.
func (e *Engine) Call(s *Session, c Call, answer func(tools.Reply)) bool {
	if c.Tool == "wait_for_wake" {
		return e.wait(s, c, answer)
	}
	t, ours := toolCalls[c.Tool]
	if !ours {
		return e.callMesh(s, c, answer)
	}
	if c.Tool == "get_proactive_events" && e.mesh != nil && s != nil {
		go func() { // what waits must be known first
			e.mesh.Refresh(s.name)
			e.hand(s, t, c, answer)
		}()
		return true
	}
	if c.By == journal.ByTool && t.reads {
		if r, done := e.readBeside(s, t, c.Arguments); done {
			answer(r)
			return true
		}
	}
	return e.hand(s, t, c, answer)
}

// callMesh runs one of the mesh's tools, beside the loop.
func (e *Engine) callMesh(s *Session, c Call, answer func(tools.Reply)) bool {
	if e.mesh == nil || s == nil {
		answer(tools.Reply{IsError: true, Text: c.Tool + " is not served here: it is the agent's own; heartbeat-mcpl mesh shows who is here"})
		return true
	}
	return e.do(func() {
		e.speaks(s)
		name := s.name
		go func() { answer(e.mesh.Call(name, c.Key, c.Tool, c.Arguments)) }()
	})
}

// speaks notes that a session called.
func (e *Engine) speaks(s *Session) {
	if s != nil {
		e.spoken++
		s.turn, s.called = e.spoken, e.now()
	}
}

// hand has the loop make a call.
func (e *Engine) hand(s *Session, t toolCall, c Call, answer func(tools.Reply)) bool {
	call := func() reply { return t.call(e, c.Arguments) }
	if t.parse != nil {
		call = t.parse(e, c.Arguments)
	}
	return e.do(func() {
		e.speaks(s)
		e.call = caller{by: c.By, session: s, key: c.Key}
		defer func() { e.call = caller{} }()
		if t.read != nil {
			t.read(e, c.Arguments, func(r reply) {
				answer(finish(r, append(r.notes, e.store.Notes(t.shows.config, t.shows.reminders)...), nil, true))
			})
			return
		}
		if e.mustLook() {
			if e.store.EditedMeanwhile() {
				e.endFlush()
			}
			e.lookAtFiles()
		}
		r := e.once(c, call)
		if r.document != nil {
			e.then(func(saved error) {
				if r.beside == nil {
					answer(documented(r, saved))
					return
				}
				go func() {
					r.beside()
					answer(documented(r, saved))
				}()
			})
			return
		}
		notes := e.notes(t, r)
		e.then(func(saved error) { answer(finish(r, notes, saved, e.store.Journalled())) })
	})
}

// readBeside answers a tool that only reads, on the caller's goroutine. False: the loop is at work, has been handed something that
// comes first, or must wait for a writing of the views, whose end it alone takes in.
func (e *Engine) readBeside(s *Session, t toolCall, arguments json.RawMessage) (answer tools.Reply, done bool) {
	if !e.working.TryLock() {
		return tools.Reply{}, false
	}
	defer e.working.Unlock()
	if e.handed.Load() > 0 {
		return tools.Reply{}, false
	}
	e.speaks(s)
	e.call = caller{by: journal.ByTool, session: s}
	defer func() { e.call = caller{} }()
	look := e.mustLook()
	if look && e.store.EditedMeanwhile() {
		return tools.Reply{}, false
	}
	saved, behind := e.store.NotSaved(), e.store.Behind()
	if look && e.lookAtFiles() {
		saved = e.commit()
	}
	if !behind && e.store.Behind() {
		e.do(func() {}) // the loop does not know yet that there are views to write, and maybe other times to wake at
	}
	r := t.call(e, arguments)
	return finish(r, e.notes(t, r), saved, e.store.Journalled()), true
}

// notes are all the sentences that go below a reply.
func (e *Engine) notes(t toolCall, r reply) []string {
	return append(slices.Clone(r.notes), e.store.Notes(t.shows.config, t.shows.reminders)...)
}

// finish says beside the reply what the files make it say, and whether what changed is saved (SPEC 3.6, 3.7).
func finish(r reply, notes []string, saved error, journalled bool) tools.Reply {
	if saved != nil && r.changed {
		notes = append(notes, fmt.Sprintf("This change is not saved (%v): it is in force in memory, and is saved as soon as the journal can be written again.", saved))
	} else if saved != nil {
		notes = append(notes, fmt.Sprintf("Earlier changes are not saved (%v): they are in force in memory, and are saved as soon as the journal can be written again.", saved))
	}
	reply := tools.Reply{Text: r.text, IsError: r.isError}
	for _, note := range notes {
		reply.Text += "\n" + note
	}
	if r.data != nil {
		if r.saves {
			r.data = r.data.Put("saved", saved == nil && (journalled || !r.changed))
		}
		reply.Structured = r.data.PutTexts("notes", notes).JSON()
	}
	return reply
}

func (e *Engine) status(arguments json.RawMessage) reply {
	notes, err := tools.ParseNone("heartbeat_status", arguments)
	if err != nil {
		return refusal(err)
	}
	return e.statusReply("", notes)
}

func (e *Engine) configure(arguments json.RawMessage) reply {
	args, notes, err := tools.ParseConfigure(arguments)
	if err != nil {
		return refusal(err)
	}
	change := projection.Change{IntervalMs: args.IntervalMs, Paused: args.Paused, Mode: args.Mode, Message: args.Message, Active: args.Active}
	if args.Message != nil {
		standing := false
		change.Standing = &standing
	}
	return e.change(change, notes)
}

// change brings the settings to what is asked for, and says so.
func (e *Engine) change(change projection.Change, notes []string) reply {
	event := e.state().Configure(e.call.by, change)
	said := "No changes. "
	if event != nil {
		said = "Updated. "
		e.record(event)
	}
	return e.configured(said, event != nil, notes)
}

func (e *Engine) configured(said string, changed bool, notes []string) reply {
	r := e.statusReply(said, notes)
	r.data = r.data.Put("changed", changed)
	r.changed, r.saves = changed, true
	return r
}

// command answers heartbeat_command (SPEC 11.1).
func (e *Engine) command(arguments json.RawMessage) reply {
	line, notes, err := tools.ParseCommand(arguments)
	if err != nil {
		return refusal(err)
	}
	c, err := command.Parse(line)
	if err != nil {
		return reply{isError: true, text: "Nothing was changed: " + err.Error() + "."}
	}
	yes, no := true, false
	change := projection.Change{Command: string(c.Verb)}
	switch c.Verb {
	case command.Status:
		r := e.statusReply("", notes)
		r.data = r.data.Put("changed", false)
		r.saves = true
		return r
	case command.Every:
		change.IntervalMs, change.Message, change.Standing, change.Paused, change.Cleared = &c.IntervalMs, &c.Prompt, &yes, &no, &no
	case command.Pause, command.Resume:
		if e.state().Config.Cleared {
			return reply{isError: true, text: "Nothing was changed: no heartbeat is set. Set one with: every <interval> <prompt>."}
		}
		paused := c.Verb == command.Pause
		change.Paused = &paused
	case command.Clear:
		change.Paused, change.Cleared = &yes, &yes
	}
	return e.change(change, notes)
}

func (e *Engine) trigger(arguments json.RawMessage) reply {
	notes, err := tools.ParseNone("heartbeat_trigger", arguments)
	if err != nil {
		return refusal(err)
	}
	if e.state().Config.Cleared {
		return reply{isError: true, text: "The heartbeat was not sent: none is set. Set one with heartbeat_configure, or with the command: every <interval> <prompt>."}
	}
	if e.o.Offline != "" {
		return reply{isError: true, text: "The heartbeat was not sent: " + e.o.Offline + "."}
	}
	if blocked := e.blocked(); blocked != "" {
		return reply{isError: true, text: "The heartbeat was not sent: " + blocked + ". " + e.remedy()}
	}
	if waiting := e.unread(); waiting >= mostUnread {
		return reply{isError: true, text: fmt.Sprintf("The heartbeat was not sent: the host has not read what this server wrote (%d bytes wait). Try again when it reads.", waiting)}
	}
	e.fireBeat(e.now(), e.now(), true)
	r := e.statusReply("Heartbeat fired. ", notes)
	r.data = r.data.Put("fired", true)
	r.changed = true
	return r
}

// once makes a call, unless it is one that was done before and could not be answered: that is answered from what it did.
func (e *Engine) once(c Call, call func() reply) reply {
	done, was := projection.Done{}, false
	if c.Key != "" {
		done, was = e.state().Done(c.Key)
	}
	if !was {
		return call()
	}
	e.o.Log.Info("a call that was done before its process ended is answered", "tool", c.Tool)
	r := reply{changed: true, saves: true}
	switch done.Kind {
	case journal.KindAdd:
		if reminder, open := e.state().Reminder(done.ID); open {
			return e.reminderSet(reminder, nil)
		}
		r.text, r.data = "Reminder "+done.ID+" was set, and is over by now.", rawjson.Object{}.PutText("id", done.ID)
	case journal.KindCancel:
		return e.cancelled(done.ID, nil)
	case journal.KindFire:
		r = e.statusReply("Heartbeat fired. ", nil)
		r.data = r.data.Put("fired", true)
	case journal.KindAck:
		return reply{document: ackReply{OK: true, Acked: done.Count, Unknown: []string{}}, changed: true}
	default:
		return e.configured("Updated. ", true, nil)
	}
	return r
}

func (e *Engine) parseAdd(arguments json.RawMessage) func() reply {
	args, notes, err := tools.ParseAdd(arguments, e.o.Zone)
	if err != nil {
		return func() reply { return refusal(err) }
	}
	return func() reply { return e.addReminder(args, notes) }
}

func (e *Engine) addReminder(args tools.AddArgs, notes []string) reply {
	now := e.now()
	event := &journal.Add{
		By: e.call.by, ID: e.newReminderID(), Message: args.Message, CreatedAt: now, FireAt: now,
		Details: journal.Details{Title: args.Title, Severity: args.Severity, URL: args.URL, Cron: args.Cron, Zone: args.Zone, Left: args.Count},
	}
	if args.Until != nil {
		event.Until = max(0, args.Until.UnixMilli())
	}
	if args.EveryMs != nil {
		event.EveryMs = *args.EveryMs
		event.FireAt = now + event.EveryMs
	}
	switch {
	case args.At != nil:
		event.FireAt, event.Fixed = max(1, args.At.UnixMilli()), true // views hold no time before 1970
	case args.DelayMs != nil:
		event.FireAt = now + *args.DelayMs
	case args.Cron != "":
		var err error
		if event.FireAt, err = projection.NextCron(args.Cron, args.Zone, now); err != nil {
			return refusal(fmt.Errorf("reminder_add was refused, and nothing was changed: cron %q: %w", args.Cron, err))
		}
		event.Fixed = true
	}
	if event.Until > 0 && event.FireAt > event.Until {
		return refusal(fmt.Errorf("reminder_add was refused, and nothing was changed: it would first come at %s, which is after until", text.Agent(event.FireAt, e.o.Zone)))
	}
	e.record(event)
	e.retry()
	e.logWaiting()
	r, _ := e.state().Reminder(event.ID)
	return e.reminderSet(r, notes)
}

// reminderSet is the reply to reminder_add.
func (e *Engine) reminderSet(r *projection.Reminder, notes []string) reply {
	now := e.now()
	return reply{
		text: text.ReminderSet(r, now, e.o.Zone), data: reminderData(r).PutJSON("inSeconds", projection.Length(max(0, r.FireAt-now)).AppendJSON),
		notes: append(notes, e.unpushable()...), changed: true, saves: true,
	}
}

func (e *Engine) newReminderID() string {
	for {
		id := "rem_" + e.o.NewID()
		if _, taken := e.state().Reminder(id); !taken {
			return id
		}
	}
}

// mostListed is how much text reminder_list answers at most, in bytes: longer lists are paged.
const mostListed = 3 << 20

func (e *Engine) listReminders(arguments json.RawMessage) reply {
	args, notes, err := tools.ParseList(arguments)
	if err != nil {
		return refusal(err)
	}
	state, now := e.state(), e.now()
	var after *projection.Reminder
	if args.After != "" {
		var open bool
		if after, open = state.Reminder(args.After); !open {
			return reply{isError: true, text: "There is no reminder " + text.Quote(args.After) + " to list from." + e.nearest(args.After) + " Call reminder_list without after."}
		}
	}
	if state.Len() == 0 {
		return reply{text: "No reminders set.", data: listData(0, 0, nil, ""), notes: notes}
	}
	var said strings.Builder
	fmt.Fprintf(&said, "%d reminder(s):", state.Len())
	var entries []rawjson.Object
	last := after
	state.Soonest(after, func(r *projection.Reminder) bool {
		if len(entries) == args.Limit || said.Len() > mostListed {
			return false
		}
		said.WriteString("\n" + text.ReminderLine(r, now, e.due.when(r.ID), e.o.Zone))
		entries, last = append(entries, reminderData(r).Put("overdue", r.FireAt <= now).Put("lastRefusal", e.refusalData(r))), r
		return true
	})
	more := state.Behind(last)
	if more > 0 {
		fmt.Fprintf(&said, "\nAnd %d more: call reminder_list again with after %s.", more, text.Quote(last.ID))
	}
	why := e.whyWaiting(now)
	if why != "" {
		said.WriteString("\n" + why)
	}
	return reply{text: said.String(), data: listData(state.Len(), more, entries, why), notes: append(notes, e.unpushable()...)}
}

func listData(count, more int, entries []rawjson.Object, waiting string) rawjson.Object {
	data := rawjson.Object{}.Put("count", count).Put("more", more)
	return data.Put("reminders", append([]rawjson.Object{}, entries...)).PutTextOrNull("waiting", waiting)
}

// whyWaiting is why due reminders wait, empty where none does.
func (e *Engine) whyWaiting(now int64) string {
	overdue := false
	e.state().Soonest(nil, func(r *projection.Reminder) bool {
		overdue = r.FireAt <= now
		return false
	})
	blocked := e.blocked()
	switch {
	case !overdue:
		return ""
	case blocked != "":
		return "Reminders that are due wait: " + blocked + "."
	case e.allBusy():
		return "Reminders that are due wait until the turn that runs has ended."
	case len(e.waiting) > 0:
		return "A reminder that the host did not take is tried again by itself, after a pause that grows up to an hour, and at once at the host's next policy update, the next reminder_add or reminder_cancel, or a restart."
	}
	return ""
}

// unpushable says that this connection will never carry a reminder (SPEC 6.7).
func (e *Engine) unpushable() []string {
	if e.o.Offline != "" {
		return []string{"No reminder is sent now: " + e.o.Offline + "."}
	}
	if slices.ContainsFunc(e.sessions, func(s *Session) bool { return s.policy.Pushable() }) {
		return nil
	}
	polled := " Reminders are kept until then."
	if e.pollable() {
		polled = " Until then a host can poll them with get_proactive_events."
	}
	return []string{"No reminder will be pushed on this connection: " + e.blocked() + ". " + e.remedy() + polled}
}

func (e *Engine) cancelReminder(arguments json.RawMessage) reply {
	id, notes, err := tools.ParseCancel(arguments)
	if err != nil {
		return refusal(err)
	}
	if _, ok := e.state().Reminder(id); !ok {
		return reply{isError: true, text: "There is no reminder " + text.Quote(id) + "." + e.nearest(id) + " Call reminder_list to see the ids."}
	}
	e.record(&journal.Cancel{By: e.call.by, ID: id})
	e.retry()
	e.logWaiting()
	return e.cancelled(id, notes)
}

// cancelled is the reply to reminder_cancel.
func (e *Engine) cancelled(id string, notes []string) reply {
	remaining := e.state().Len()
	return reply{
		text:    fmt.Sprintf("Cancelled %s. %d reminder(s) remain.", text.OneLine(id), remaining),
		data:    rawjson.Object{}.PutText("id", id).Put("cancelled", true).Put("remaining", remaining),
		notes:   notes,
		changed: true,
		saves:   true,
	}
}

// nearest names the open reminders whose ids are most like id.
func (e *Engine) nearest(id string) string {
	var ids []string
	e.state().Soonest(nil, func(r *projection.Reminder) bool {
		ids = append(ids, r.ID)
		return true
	})
	near := tools.NearestOf(id, ids, 3)
	if len(near) == 0 {
		return ""
	}
	return " The nearest: " + strings.Join(near, ", ") + "."
}

// remedy is what has to happen so that wakes can be sent, as far as the caller's host, or else the one that called last, can see to it.
func (e *Engine) remedy() string {
	s := e.call.session
	if all := e.bySpoken(); s == nil && len(all) > 0 {
		s = all[0]
	}
	if s == nil {
		return "Open a session on a host that speaks MCPL."
	}
	return s.policy.Remedy()
}

// unread is how many bytes wait for the session that reads best, of those that let wakes through.
func (e *Engine) unread() int64 {
	least := int64(-1)
	for _, s := range e.sessions {
		if n := s.host.Backlog(); s.policy.Blocked() == "" && (least < 0 || n < least) {
			least = n
		}
	}
	return least
}

// statusReply says where the heartbeat stands, in words behind others and as data.
func (e *Engine) statusReply(before string, notes []string) reply {
	c := e.state().Config
	next, active := e.nextBeat()
	s := text.Status{
		Config: c, Mode: c.Mode, NextMs: next, NowMs: e.now(), Reminders: e.state().Len(), Blocked: e.blocked(),
		Beats: e.state().Beats, NotTaken: e.notTakenYet(e.now()), Zone: e.o.Zone,
	}
	if c.Mode == projection.ModeSilent && e.refusedSilent() {
		s.Mode += " (the host refused a silent wake, so each goes out with its text)"
	}
	return reply{text: before + s.String(), data: statusData(s, active), notes: notes}
}

func statusData(s text.Status, active bool) rawjson.Object {
	status, delivery := "active", "ok"
	nextIn, nextAt := null, null
	if active {
		nextIn, nextAt = projection.Length(max(0, s.NextMs-s.NowMs)).AppendJSON, projection.Moment(s.NextMs).AppendJSON
	} else {
		status = "paused"
	}
	if s.Config.Cleared {
		status = "not set"
	}
	if s.Blocked != "" {
		delivery = "blocked"
	}
	return rawjson.Object{}.PutText("status", status).PutText("deliveryMode", s.Config.Mode).
		PutJSON("intervalSeconds", projection.Length(s.Config.IntervalMs).AppendJSON).PutJSON("nextInSeconds", nextIn).PutJSON("nextAt", nextAt).
		PutTextOrNull("activeHours", s.Config.Active).PutText("message", s.Config.Message).Put("reminders", s.Reminders).
		PutText("delivery", delivery).PutTextOrNull("blockedReason", s.Blocked).PutTextOrNull("notTaken", s.NotTaken).
		Put("taken", s.Beats.Taken).PutJSON("lastTakenAt", projection.Instant(s.Beats.LastMs).AppendJSON)
}

func null(dst []byte) []byte { return append(dst, "null"...) }

func reminderData(r *projection.Reminder) rawjson.Object {
	every := null
	if r.EveryMs > 0 {
		every = projection.Length(r.EveryMs).AppendJSON
	}
	var left any
	d := r.Details()
	if d.Left > 0 {
		left = d.Left
	}
	return rawjson.Object{}.PutText("id", r.ID).PutText("message", r.Message).PutJSON("createdAt", projection.Moment(r.CreatedAt).AppendJSON).
		PutJSON("fireAt", projection.Moment(r.FireAt).AppendJSON).PutJSON("everySeconds", every).PutTextOrNull("cron", d.Cron).
		PutJSON("until", projection.Instant(d.Until).AppendJSON).Put("remaining", left)
}

func (e *Engine) refusalData(r *projection.Reminder) any {
	how, at, reason := r.Attempt.LastFailure()
	if how == 0 {
		return nil
	}
	data := rawjson.Object{}.PutText("reason", reason).Put("at", projection.Moment(at)).Put("tries", r.Attempt.Failed)
	if next := e.due.when(r.ID); next > e.now() {
		return data.Put("nextTryAt", projection.Moment(next))
	}
	return data.Put("nextTryAt", nil)
}

// randomID is 12 random characters, lower-case letters and digits.
func randomID() string { return strings.ToLower(rand.Text()[:12]) }
