package engine

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

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
	tools.Restore:         {shows: shows{true, true}, parse: (*Engine).parseRestore},

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
	blocked := e.blocked()
	if blocked != "" && e.pollable() {
		return e.askForBeat(blocked, notes)
	}
	if blocked != "" {
		return reply{isError: true, text: "The heartbeat was not sent: " + blocked + ". " + e.remedy()}
	}
	if waiting := e.unread(); waiting >= mostUnread {
		return reply{isError: true, text: fmt.Sprintf("The heartbeat was not sent: the host has not read what this server wrote (%d bytes wait). Try again when it reads.", waiting)}
	}
	e.fireBeat(e.now(), e.now(), true)
	r := e.statusReply("Heartbeat fired. ", notes)
	r.data = r.data.Put("fired", true).Put("toBePolled", false)
	r.changed = true
	return r
}

// askForBeat makes a heartbeat wait to be polled at once, also while it is paused.
func (e *Engine) askForBeat(blocked string, notes []string) reply {
	e.record(&journal.Ask{By: e.call.by})
	r := e.statusReply("Heartbeat due now: nothing is pushed here ("+blocked+"), and the next get_proactive_events returns it. ", notes)
	r.data = r.data.Put("fired", false).Put("toBePolled", true)
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
			return e.reminderSet(reminder, e.o.Zone, nil)
		}
		r.text, r.data = "Reminder "+done.ID+" was set, and is over by now.", rawjson.Object{}.PutText("id", done.ID)
	case journal.KindCancel:
		r.text = fmt.Sprintf("Cancelled %s. %d reminder(s) remain.", text.OneLine(done.ID), e.state().Len())
		r.data = rawjson.Object{}.PutText("id", done.ID).Put("cancelled", true).Put("remaining", e.state().Len())
	case journal.KindFire:
		r = e.statusReply("Heartbeat fired. ", nil)
		r.data = r.data.Put("fired", true).Put("toBePolled", false)
	case journal.KindAck:
		return reply{document: ackReply{OK: true, Acked: done.Count, Unknown: []string{}}, changed: true}
	default:
		return e.configured("Updated. ", true, nil)
	}
	return r
}

func (e *Engine) parseAdd(arguments json.RawMessage) func() reply {
	args, notes, err := tools.ParseAdd(arguments, e.o.Wall(), e.o.Zone)
	if err != nil {
		return func() reply { return refusal(err) }
	}
	return func() reply { return e.addReminder(args, notes) }
}

func (e *Engine) addReminder(args tools.AddArgs, notes []string) reply {
	now := e.now()
	event := &journal.Add{
		By: e.call.by, ID: e.newReminderID(), Message: args.Message, CreatedAt: now,
		Details: journal.Details{Title: args.Title, Severity: args.Severity, URL: args.URL, Cron: args.Cron, Repeats: args.Repeats, Left: args.Count},
	}
	if args.Until != nil {
		event.Until = max(0, args.Until.UnixMilli())
	}
	if args.EveryMs != nil {
		event.EveryMs = *args.EveryMs
	}
	if err := schedule(event, args, now); err != nil {
		return refusal(fmt.Errorf("reminder_add was refused, and nothing was changed: %w", err))
	}
	if event.Until > 0 && event.FireAt > event.Until {
		return refusal(fmt.Errorf("reminder_add was refused, and nothing was changed: it would first come at %s, which is after until", text.Agent(event.FireAt, args.Zone)))
	}
	e.record(event)
	e.retryNow()
	e.logWaiting()
	r, _ := e.state().Reminder(event.ID)
	return e.reminderSet(r, args.Zone, notes)
}

// reminderSet is the reply to reminder_add; times are shown in the zone that was asked for.
func (e *Engine) reminderSet(r *projection.Reminder, zone *time.Location, notes []string) reply {
	now := e.now()
	then := r.Then(text.MostThen, now)
	said := text.ReminderSet(r, now, zone) + "\n" + text.Meaning(r, then, now, zone)
	data := reminderData(r, now, zone).PutText("createdAt", text.Offset(r.CreatedAt, zone))
	if len(then) > 0 {
		data = data.PutTexts("then", text.Offsets(then, zone))
	}
	if caution := text.Caution(r); caution != "" {
		data = data.PutText("caution", caution)
	}
	return reply{
		text: said, data: data.PutText("timeZone", zone.String()),
		notes: append(notes, e.unpushable()...), changed: true, saves: true,
	}
}

// schedule says when a new reminder first comes, and from when a calendar counts (SPEC 5.4, 5.9, 5.10).
func schedule(event *journal.Add, args tools.AddArgs, now int64) (err error) {
	start, given := now, args.At != nil || args.DelayMs != nil
	switch {
	case args.At != nil:
		start = max(1, args.At.UnixMilli()) // views hold no time before 1970
	case args.DelayMs != nil:
		start = now + *args.DelayMs
	}
	event.FireAt, event.Fixed = start, args.At != nil
	switch {
	case args.Cron != "":
		event.Zone, event.Fixed = args.Zone.String(), true
		after := now
		if given {
			after = max(now, start-1) // a calendar's time at the start itself is not before it
		}
		if event.FireAt, err = projection.NextCron(args.Cron, event.Zone, after); err != nil {
			return fmt.Errorf("cron %q: %w", args.Cron, err)
		}
	case args.Repeats != "":
		event.Zone, event.Fixed = args.Zone.String(), true
		if event.From = args.Wall; event.From == "" || start == 1 {
			event.From = projection.RuleFrom(projection.WallOf(start, args.Zone))
		}
		rule, err := projection.RuleOf(&event.Details, event.Zone)
		if err != nil {
			return fmt.Errorf("every %q: %w", args.Repeats, err)
		}
		after := start
		if given {
			after-- // it first comes at the start itself, but for a weekday that this is none of
		}
		if event.FireAt, err = rule.Next(after); err != nil {
			return fmt.Errorf("every %q: %w", args.Repeats, err)
		}
	case !given:
		event.FireAt = now + event.EveryMs
	}
	return nil
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
		return reply{text: "No reminders set.", data: e.listData(0, 0, nil), notes: notes}
	}
	var said strings.Builder
	var entries []rawjson.Object
	last, matching, more := after, 0, 0
	state.Soonest(after, func(r *projection.Reminder) bool {
		switch {
		case args.Contains != "" && !holds(r, args.Contains):
		case len(entries) == args.Limit || said.Len() > mostListed:
			more++
			return args.Contains != ""
		default:
			matching++
			said.WriteString("\n" + text.ReminderLine(r, e.retries(r), now, e.o.Zone))
			entries, last = append(entries, e.listed(r, now)), r
		}
		return true
	})
	if args.Contains == "" {
		more = state.Behind(last)
	}
	head, data := fmt.Sprintf("%d reminder(s):", state.Len()), e.listData(state.Len(), more, entries)
	if args.Contains != "" {
		matching += more
		head = fmt.Sprintf("%d of %d reminder(s) with %s:", matching, state.Len(), text.Quote(args.Contains))
		data = data.Put("matching", matching)
		if matching == 0 {
			head = fmt.Sprintf("None of the %d reminder(s) has %s in its message or title.", state.Len(), text.Quote(args.Contains))
		}
	}
	answer := head + said.String()
	if more > 0 {
		answer += fmt.Sprintf("\nAnd %d more: call reminder_list again with after %s.", more, text.Quote(last.ID))
	}
	if why := e.whyWaiting(now); why != "" {
		answer += "\n" + why
		data = data.PutText("waiting", why)
	}
	return reply{text: answer, data: data, notes: append(notes, e.unpushable()...)}
}

// holds says whether the reminder's message or title has the text in it, in capitals or not.
func holds(r *projection.Reminder, part string) bool {
	part = strings.ToLower(part)
	return strings.Contains(strings.ToLower(r.Message), part) || strings.Contains(strings.ToLower(r.Details().Title), part)
}

func (e *Engine) listData(count, more int, entries []rawjson.Object) rawjson.Object {
	return rawjson.Object{}.Put("count", count).Put("more", more).Put("reminders", append([]rawjson.Object{}, entries...)).PutText("timeZone", e.o.Zone.String())
}

// listed is what reminder_list says of a reminder, as data.
func (e *Engine) listed(r *projection.Reminder, now int64) rawjson.Object {
	data := reminderData(r, now, e.o.Zone)
	if r.FireAt <= now {
		data = data.Put("overdue", true)
	}
	if zone := r.Details().Zone; zone != "" && zone != e.o.Zone.String() {
		data = data.PutText("timeZone", zone)
	}
	if how, at, reason := r.Attempt.Failed(); how != 0 {
		refusal := rawjson.Object{}.PutText("reason", reason).PutText("at", text.Offset(at, e.o.Zone))
		if how == projection.NoAnswer {
			refusal = refusal.Put("noAnswer", true)
		}
		again := e.retries(r)
		refusal = refusal.Put("tries", again.Tries)
		if !again.Out && again.When == "" {
			refusal = refusal.PutText("nextTryAt", text.Offset(max(now, again.Next), e.o.Zone))
		}
		data = data.Put("lastRefusal", refusal)
	}
	return data
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
	}
	n := e.notTakenYet(now)
	if n.Reminders == 0 {
		return ""
	}
	return "What the host did not take is tried again by itself (" + n.NextTry(now) + "), and at once at the host's next policy update, the next reminder_add or reminder_cancel, or a restart."
}

// unpushable says that this connection will never carry a reminder (SPEC 6.7).
func (e *Engine) unpushable() []string {
	if e.o.Offline != "" {
		return []string{"No reminder is sent now: " + e.o.Offline + "."}
	}
	if e.program != nil || slices.ContainsFunc(e.sessions, func(s *Session) bool { return s.policy.Pushable() || s.client.Channel }) {
		return nil
	}
	polled := " Reminders are kept until then."
	if e.pollable() {
		polled = " Until then a host can poll them with get_proactive_events."
	}
	return []string{"No reminder will be pushed on this connection: " + e.blocked() + ". " + e.remedy() + polled}
}

func (e *Engine) cancelReminder(arguments json.RawMessage) reply {
	args, notes, err := tools.ParseCancel(arguments)
	if err != nil {
		return refusal(err)
	}
	var unknown []string
	var said strings.Builder
	gone := []rawjson.Object{}
	for _, id := range args.IDs {
		r, ok := e.state().Reminder(id)
		if !ok {
			unknown = append(unknown, "There is no reminder "+text.Quote(id)+"."+e.nearest(id))
			continue
		}
		fmt.Fprintf(&said, "Cancelled %s: %s.\n", text.OneLine(id), text.Quote(r.Message))
		gone = append(gone, rawjson.Object{}.PutText("id", id).PutText("message", r.Message))
	}
	if len(unknown) > 0 {
		nothing := ""
		if len(args.IDs) > 1 {
			nothing = " Nothing was cancelled."
		}
		return reply{isError: true, text: strings.Join(unknown, " ") + nothing + " Call reminder_list to see the ids."}
	}
	for _, id := range args.IDs {
		e.record(&journal.Cancel{By: e.call.by, ID: id})
	}
	e.retryNow()
	e.logWaiting()
	remaining := e.state().Len()
	data := rawjson.Object{}.Put("reminders", gone)
	answer := said.String()
	if len(gone) == 1 {
		data, answer = gone[0], strings.TrimSuffix(answer, "\n")+" "
	}
	return reply{
		text:    answer + fmt.Sprintf("%d reminder(s) remain.", remaining),
		data:    data.Put("cancelled", true).Put("remaining", remaining),
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
		Polled: e.polled(), NotTaken: e.notTakenYet(e.now()), Beats: e.state().Beats, Zone: e.o.Zone,
	}
	if c.Mode == projection.ModeSilent && e.refusedSilent() {
		s.Mode += " (the host refused a silent wake, so each goes out with its text)"
	}
	return reply{text: before + s.String(), data: statusData(s, active), notes: notes}
}

// A host that has polled for so long does poll (SPEC 14.6).
const pollsWithin = 10 * time.Minute

// polled says how this connection gets its wakes where nothing can be pushed; empty: in no way.
func (e *Engine) polled() string {
	switch {
	case e.o.Offline != "" || e.blocked() == "" || !e.pollable():
		return ""
	case !e.polledAt.IsZero() && time.Since(e.polledAt) <= pollsWithin:
		return "polled (this host polls: get_proactive_events)"
	}
	return "pollable (" + e.blocked() + ": what is due waits for get_proactive_events)"
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
	if s.Polled != "" {
		delivery, _, _ = strings.Cut(s.Polled, " ")
	}
	return rawjson.Object{}.PutText("status", status).PutText("deliveryMode", s.Config.Mode).
		PutJSON("intervalSeconds", projection.Length(s.Config.IntervalMs).AppendJSON).PutJSON("nextInSeconds", nextIn).PutJSON("nextAt", nextAt).
		PutTextOrNull("activeHours", s.Config.Active).PutText("message", s.Config.Message).Put("reminders", s.Reminders).
		PutText("delivery", delivery).PutTextOrNull("blockedReason", s.Blocked).Put("notTaken", notTakenData(s.NotTaken, s.NowMs)).
		Put("taken", s.Beats.Taken).PutJSON("lastTakenAt", projection.Instant(s.Beats.LastMs).AppendJSON)
}

func notTakenData(n text.NotTaken, now int64) any {
	if !n.Any() {
		return nil
	}
	nextIn, nextAt := null, null
	if n.When == "" && n.Next > 0 {
		nextIn, nextAt = projection.Length(max(0, n.Next-now)).AppendJSON, projection.Moment(n.Next).AppendJSON
	}
	return rawjson.Object{}.Put("reminders", n.Reminders).Put("messages", n.Messages).Put("heartbeat", n.Heartbeat).PutText("reason", n.Reason).
		PutJSON("nextTryInSeconds", nextIn).PutJSON("nextTryAt", nextAt)
}

func null(dst []byte) []byte { return append(dst, "null"...) }

// reminderData is what replies say of a reminder, as data: times in the zone, and nothing that does not apply (SPEC 5).
func reminderData(r *projection.Reminder, now int64, zone *time.Location) rawjson.Object {
	d := r.Details()
	data := rawjson.Object{}.PutText("id", r.ID).PutText("message", r.Message).PutText("fireAt", text.Offset(r.FireAt, zone)).
		PutText("weekday", text.Weekday(r.FireAt, zone)).Put("inSeconds", max(0, r.FireAt-now)/1000).PutText("inWords", text.Away(r.FireAt, now))
	if r.EveryMs > 0 {
		data = data.PutJSON("everySeconds", projection.Length(r.EveryMs).AppendJSON)
	}
	for _, m := range []struct{ name, value string }{{"repeats", d.Repeats}, {"cron", d.Cron}} {
		if m.value != "" {
			data = data.PutText(m.name, m.value)
		}
	}
	if d.Until > 0 {
		data = data.PutText("until", text.Offset(d.Until, zone))
	}
	if d.Left > 0 {
		data = data.Put("remaining", d.Left)
	}
	return data
}

// randomID is 12 random characters, lower-case letters and digits.
func randomID() string { return strings.ToLower(rand.Text()[:12]) }
