// Package tools owns the table of our tools and their arguments. Everything that has to agree about them comes from it: the
// schemas, the validation of SPEC 4, the hints about what a tool takes, and the README's reference. All tools answer with a [Reply].
//
// Start with [All] and the Parse functions. The package is pure: no clock, no file, no state.
package tools

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/projection/slip"
)

// Tool is one row of the table.
type Tool struct {
	Name        string
	Title       string
	Description string // for a model
	Args        []Arg
	Sums        []Sum
	Polling     bool // for hosts that cannot be pushed to: listed for them alone (SPEC 10)
	Mesh        bool // of package agents (SPEC 12)
	NeedsArgs   bool // with nothing but names that it does not take, it is refused (SPEC 4.2)
	Output      *schema

	ReadOnly    bool
	Destructive bool
	Idempotent  bool
}

// Reply is what a tool answers: a text for models and the same for programs.
type Reply struct {
	Text       string          `json:"text"`
	Structured json.RawMessage `json:"structured,omitempty"` // an object
	IsError    bool            `json:"isError,omitempty"`
}

// Arg is one argument of a tool.
type Arg struct {
	Name        string
	Kind        argKind
	Description string
	Required    bool
	Choices     []string // of a choice
	UnitMs      int64    // of a length
	Sum         string   // the sum that a length is part of
	Least, Most int      // of a count
	MostBytes   int      // of a text; 0: as much as any text may have
}

type argKind int

const (
	aText argKind = iota
	aChoice
	aBool
	aLength // a number of units of time, at least 0
	aTime   // as [ParseWhen] and [ParseSince] read it
	aCount  // a whole number within Least and Most
	aTexts  // an array of texts
	aHours  // a number of hours, at least 0
	aSpan   // a length of time as people write it
)

// Sum is a length of time that several arguments add up to (SPEC 4.5).
type Sum struct {
	Name    string
	LeastMs int64
}

// All is the table, in the order in which hosts list it.
func All() []*Tool { return table() }

// Find is the tool of that name, nil where there is none.
func Find(name string) *Tool {
	i := slices.IndexFunc(table(), func(t *Tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return table()[i]
}

// Nearest is the tool whose name is most like name (SPEC 4.6).
func Nearest(name string) string {
	var names []string
	for _, t := range table() {
		names = append(names, t.Name)
	}
	return NearestOf(name, names, 1)[0]
}

// mostCompared bounds the names that are compared letter by letter.
const mostCompared = 100

// NearestOf are the n names that are most like name, the likest first.
func NearestOf(name string, names []string, n int) []string {
	near := slices.Clone(names)
	name = cut(name, mostCompared)
	far := make(map[string]int, len(names))
	for _, other := range names {
		far[other] = slip.Distance(name, other)
	}
	slices.SortFunc(near, func(a, b string) int {
		if far[a] != far[b] {
			return far[a] - far[b]
		}
		return strings.Compare(a, b)
	})
	return near[:min(n, len(near))]
}

func (t *Tool) arg(name string) *Arg {
	i := slices.IndexFunc(t.Args, func(a Arg) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return &t.Args[i]
}

// takes is the sentence about what a tool takes.
func (t *Tool) takes() string {
	if len(t.Args) == 0 {
		return t.Name + " takes no arguments"
	}
	var names []string
	for _, a := range t.Args {
		names = append(names, a.Name)
	}
	return t.Name + " takes " + strings.Join(names, ", ")
}

// owner is another tool that takes an argument of that name.
func (t *Tool) owner(name string) *Tool {
	for _, other := range table() {
		if other != t && other.arg(name) != nil {
			return other
		}
	}
	return nil
}

const (
	second = 1000
	minute = 60 * second
	hour   = 60 * minute
)

func lengths(sum, prefix, what string) []Arg {
	return []Arg{
		{Name: prefix + "Seconds", Kind: aLength, UnitMs: second, Sum: sum, Description: what + " in seconds; fractions are fine. The three " + prefix + "... values are added up."},
		{Name: prefix + "Minutes", Kind: aLength, UnitMs: minute, Sum: sum, Description: "Minutes, added to " + prefix + "Seconds and " + prefix + "Hours."},
		{Name: prefix + "Hours", Kind: aLength, UnitMs: hour, Sum: sum, Description: "Hours, added to " + prefix + "Seconds and " + prefix + "Minutes."},
	}
}

// table is made when it is first needed: a host waits for the start.
var table = sync.OnceValue(func() []*Tool {
	return []*Tool{
		{
			Name:  "heartbeat_status",
			Title: "Heartbeat status",
			Description: "Shows the heartbeat, the periodic wake-up that this server sends you: whether it is active or paused, its interval, when the " +
				"next one comes, its text, how many reminders are set, and whether wakes can be delivered at all (delivery=ok, or BLOCKED and why); what you were not given yet and when it is tried again. " +
				"Use it before you change the schedule, or when you wonder why nothing woke you.",
			ReadOnly: true, Idempotent: true,
			Output: statusSchema(),
		},
		{
			Name:  "heartbeat_configure",
			Title: "Configure the heartbeat",
			Description: "Changes the heartbeat: its interval (60 seconds or more), its text, its mode, or whether it is paused. Give only what should " +
				"change; the rest stays. A new interval, a pause and its end start the timer anew from now. The change is kept across restarts. " +
				"Example: {\"intervalHours\": 1, \"intervalMinutes\": 30} wakes you every 90 minutes. For something at a certain time use reminder_add.",
			Args: append(append(lengths("interval", "interval", "Time between two heartbeats,"),
				Arg{Name: "every", Kind: aSpan, Sum: "interval", Description: "The same as one text: 10m, 1h30m, 2 hours. Not together with interval..."}),
				Arg{Name: "paused", Kind: aBool, Description: "true stops the heartbeat until it is set to false. Reminders go on."},
				Arg{Name: "deliveryMode", Kind: aChoice, Choices: []string{projection.ModeMessage, projection.ModeSilent},
					Description: "message: each heartbeat carries the text. silent: it comes without text, for hosts that know silent heartbeats."},
				Arg{Name: "message", Kind: aText, Description: "The text that each heartbeat brings you: write it as an instruction to yourself."},
				Arg{Name: "activeHours", Kind: aText, MostBytes: 20, Description: "No heartbeat outside of these hours, such as 08:00-22:30 in your time zone; they may pass midnight. always: at any hour."},
			),
			Sums:       []Sum{{"interval", projection.LeastIntervalMs}},
			NeedsArgs:  true,
			Idempotent: true,
			Output:     statusSchema(prop("changed", boolean("whether anything changed")), saved()),
		},
		{
			Name:  "heartbeat_trigger",
			Title: "Send a heartbeat now",
			Description: "Sends one heartbeat at once, also while it is paused, without moving the schedule. Use it to test that wakes arrive. Where wakes " +
				"cannot be sent it says why and what has to be done; where they can be polled it is due at once.",
			Output: statusSchema(prop("fired", boolean("the heartbeat was sent")), prop("toBePolled", boolean("it waits for get_proactive_events"))),
		},
		{
			Name:  "reminder_add",
			Title: "Set a reminder",
			Description: "Sets a reminder: you are woken with its message at a time, after a delay, or again and again. Say when in one way: a delay (in), " +
				"or atIso, or every for a recurring one, or cron for a calendar. A recurring one first comes after one interval, or at the delay or atIso that " +
				"you also give. The reply names the weekday and the next times: check them. It is kept across restarts, and delivered late rather than never. " +
				"Examples: {\"message\": \"Check the build\", \"in\": \"20m\"}; {\"message\": \"Stand-up\", \"atIso\": \"09:00\", \"every\": \"weekday\"}; " +
				"{\"message\": \"Send the invoices\", \"cron\": \"0 18 L * *\"}.",
			Args: slices.Concat(
				[]Arg{{Name: "message", Kind: aText, Required: true, Description: "What you want to be told. You will read it without this conversation: name what it is about and what to do."}},
				lengths("delay", "in", "Delay from now,"),
				[]Arg{{Name: "atIso", Kind: aTime, Description: "When: 15:00, thu 15:00 or tomorrow 08:15 (the next one to come), or ISO 8601 (2026-10-10T08:30, or with an offset). An ISO time that is past comes at once. Not together with a delay."}},
				lengths("every", "every", "Repeats after this much elapsed time,"),
				[]Arg{
					{Name: "in", Kind: aSpan, Sum: "delay", Description: "The delay as one text: 90s, 10m, 1h30m, 2 days. Not together with inSeconds..."},
					{Name: "every", Kind: aSpan, Sum: "every", Description: "Repeats: 30m, 2h; or by the calendar, which keeps the time of day: 1 day, 2 weeks, 1 month, 1 year, weekday (Monday to Friday). Every second Thursday: 2 weeks, with atIso thu 15:00. Not together with everySeconds..."},
					{Name: "cron", Kind: aText, MostBytes: 200, Description: "Repeats on a calendar: minute, hour, day, month, weekday. 0 9 * * 1-5; 0 18 L * * (last day of the month); 0 10 * * 1#1 (first Monday), 5L (last Friday); @hourly, @daily, @weekly, @monthly, @yearly. With atIso or a delay: not before then. Not together with every."},
					{Name: "timeZone", Kind: aText, MostBytes: 60, Description: "IANA name such as Asia/Tokyo: of all times here without an offset, of every and cron; yours where it is left out."},
					{Name: "until", Kind: aTime, Description: "A recurring one ends: it does not come after this time."},
					{Name: "count", Kind: aCount, Least: 1, Most: projection.MostCount, Description: "A recurring one ends: it comes so many times."},
					{Name: "title", Kind: aText, MostBytes: projection.MostTitleBytes, Description: "A short heading, for hosts that show one."},
					{Name: "severity", Kind: aChoice, Choices: []string{"normal", projection.SeverityHigh}, Description: "high: hosts that rank wakes tell it at once."},
					{Name: "url", Kind: aText, MostBytes: projection.MostURLBytes, Description: "A web page that it is about, an absolute http or https URL."},
				},
			),
			Sums:      []Sum{{"delay", 0}, {"every", projection.LeastEveryMs}},
			NeedsArgs: true,
			Output: reminderSchema(prop("inSeconds", integer("seconds from now to the first firing")), prop("timeZone", str("of all times here")), saved(), notes()).
				may(prop("then", array(str("its next times after that"))), prop("caution", str("what it may not mean"))),
		},
		{
			Name:  "reminder_list",
			Title: "List reminders",
			Description: "Lists all reminders that are set, the soonest first, with ids, times and messages; which are overdue and wait, which the host " +
				"refused and why. Use it to find the id for reminder_cancel.",
			Args: []Arg{
				{Name: "limit", Kind: aCount, Least: 1, Most: 10_000, Description: "How many at most; 1000 where it is left out."},
				{Name: "after", Kind: aText, Description: "Only those behind the reminder with this id: the last one of the list before."},
				{Name: "contains", Kind: aText, Description: "Only those whose message or title has this text in it."},
			},
			ReadOnly: true, Idempotent: true,
			Output: object(
				prop("count", integer("how many reminders are set")),
				prop("more", integer("how many come behind those that are listed")),
				prop("reminders", array(reminderSchema(prop("inSeconds", integer("0: it is due"))).may(
					prop("overdue", boolean("it is due and waits")),
					prop("timeZone", str("of its calendar, where it is another")),
					prop("lastRefusal", object(prop("reason", str("why the host did not take it")), prop("at", str("")), prop("tries", integer("how many in a row were not taken"))).may(prop("noAnswer", boolean("it did not answer")), prop("nextTryAt", str(""))))))),
				notes(),
			).may(prop("timeZone", str("of all times here")), prop("matching", integer("how many have the text in them")), prop("waiting", str("why those that are due wait"))),
		},
		{
			Name:  "reminder_cancel",
			Title: "Cancel a reminder",
			Description: "Takes reminders back for good, a recurring one with all its further firings. Needs the id that reminder_add answered; " +
				"reminder_list shows all ids, and with contains finds one by its text.",
			Args: []Arg{
				{Name: "id", Kind: aText, Description: "The reminder's id, such as rem_k3f9x2m7q1ab."},
				{Name: "ids", Kind: aTexts, Description: "Several in place of id: all are cancelled, or none."},
			},
			NeedsArgs:   true,
			Destructive: true,
			Output: object(prop("cancelled", boolean("it is gone")), prop("remaining", integer("how many reminders remain")), saved(), notes()).may(
				prop("id", str("where one was given")), prop("message", str("what it said")),
				prop("reminders", array(object(prop("id", str("")), prop("message", str("")))))),
		},
		{
			Name:  "wake_history",
			Title: "What woke you, and what did not",
			Description: "Shows which wakes were sent, taken, refused, not answered or dropped, the newest first: use it to see what happened while you were " +
				"away, or whether a reminder came and when. Reminders that are gone are in it, too.",
			Args: []Arg{
				{Name: "limit", Kind: aCount, Least: 1, Most: 200, Description: "How many wakes at most; 20 where it is left out."},
				{Name: "id", Kind: aText, Description: "Only the reminder with this id, also one that is gone; heartbeat: only the heartbeat; mesh: only other agents' messages."},
				{Name: "since", Kind: aTime, Description: "Only wakes from this time on: 8h (ago), 22:00 (the last one), yesterday 22:00, or ISO 8601."},
			},
			ReadOnly: true, Idempotent: true,
			Output: object(
				prop("count", integer("how many wakes are listed")),
				prop("more", boolean("there are older ones, beyond the limit")),
				prop("wakes", array(object(
					prop("reminderId", nullable(str("null: heartbeat or message"))),
					prop("message", nullable(str("the reminder's text, where it is known"))),
					prop("result", &schema{Type: "string", Description: "what became of it", Enum: []string{"taken", "refused", "no answer", "sent", "dropped", "cancelled"}}),
					prop("due", str("when it fell due, RFC 3339 in UTC")),
					prop("sentAt", nullable(str("when first pushed"))),
					prop("takenAt", nullable(str("when taken"))),
					prop("lateMs", nullable(integer("how long after it fell due it was taken"))),
					prop("pushes", integer("how often it was pushed")),
					prop("reason", nullable(str("why it was refused, not answered or dropped"))),
					prop("inferenceId", nullable(str("what the host called the turn that it began"))),
					prop("manual", boolean("a heartbeat that was asked for")),
					prop("from", nullable(str("sender")))))),
				notes(),
			),
		},
		{
			Name:  "heartbeat_command",
			Title: "The /heartbeat command",
			Description: "The heartbeat by one line of text, as a person types it: every <interval> <prompt> sets a recurring instruction (every 10m Check the " +
				"deployment), status shows it, pause and resume stop it and let it go on, clear removes it.",
			Args:   []Arg{{Name: "command", Kind: aText, Description: "The line; nothing is status."}},
			Output: statusSchema(prop("changed", boolean("whether anything changed")), saved()),
		},
		{
			Name:  "wait_for_wake",
			Title: "Wait for the next wake",
			Description: "Waits until a reminder, the heartbeat or another agent's message is due, and answers with its text; after maxSeconds it says that none came, and when the next is due. " +
				"For hosts that cannot wake you: call it when you have nothing else to do, and again to go on waiting.",
			Args: []Arg{
				{Name: "maxSeconds", Kind: aCount, Least: 1, Most: 3600, Description: "How long to wait at most; 50 where it is left out, 240 where the host follows progress."},
				{Name: "kinds", Kind: aTexts, Choices: []string{"heartbeat", "reminder", "message"}, Description: "Only these: heartbeat, reminder, message."},
			},
			Output: object(prop("now", str("")), prop("wakes", array(object(prop("eventId", str("")), prop("kind", &schema{Type: "string", Enum: []string{"heartbeat", "reminder", "message"}}), prop("text", str("as it wakes you"))).may(
				prop("reminderId", str("")), prop("messageId", str("")), prop("due", str(""))))), notes()).may(prop("nextInSeconds", integer("until the next wake is due"))),
		},
		{
			Name:  "get_proactive_events",
			Title: "Poll for wakes",
			Description: "For hosts that poll: the reminders and the heartbeat that are due, as a JSON array, the most overdue first; [] when nothing is. " +
				"An event is returned at every call, under the same event_id, until acknowledge_events takes it.",
			Args:     []Arg{{Name: "kind", Kind: aChoice, Choices: []string{"alert", "content"}, Description: "Only events of this kind: content is what carries a URL."}},
			ReadOnly: true, Polling: true, Idempotent: true,
			Output: object(prop("events", array(&schema{Type: "object", Properties: []property{
				prop("kind", &schema{Type: "string", Enum: []string{"alert", "content"}}),
				prop("event_id", str("")), prop("source_type", &schema{Type: "string", Enum: []string{"reminder", "heartbeat", "mesh", "store"}}),
				prop("source_name", str("")), prop("title", str("")), prop("content", str("")),
				prop("severity", &schema{Type: "string", Enum: []string{"high", "normal"}}), prop("suggested_tone", str("")),
				prop("metrics", &schema{Type: "object"}), prop("url", str("")), prop("published_at", str("")),
			}, Required: []string{"kind", "event_id", "source_type", "source_name", "title", "content"}}))),
		},
		{
			Name:        "acknowledge_events",
			Title:       "Acknowledge polled wakes",
			Description: "For hosts that poll: takes events of get_proactive_events. A one-shot reminder is done, a recurring one goes on; they are not returned again.",
			Args: []Arg{
				{Name: "event_ids", Kind: aTexts, Required: true, Description: "The event_id of each event."},
				{Name: "ttl_hours", Kind: aHours, Description: "For how long an alert about the server's files stays away; absent or 0: for ever."},
			},
			Polling: true, NeedsArgs: true, Idempotent: true,
			Output: object(prop("ok", boolean("")), prop("acked", integer("how many were taken")), prop("unknown", array(str("ids of nothing that is due")))),
		},
		{
			Name:        "get_context",
			Title:       "Schedule at a glance",
			Description: "For hosts that poll: the time, the heartbeat, how many reminders are set and wait, and the next three, as one JSON object.",
			ReadOnly:    true, Polling: true, Idempotent: true,
			Output: object(
				prop("available", boolean("")), prop("now", str("")), prop("time_zone", str("")),
				prop("heartbeat", object(prop("interval_seconds", number("")), prop("paused", boolean("")), prop("next_at", nullable(str(""))))),
				prop("reminders", integer("how many are set")), prop("waiting", integer("how many are due")),
				prop("next", array(object(prop("id", str("")), prop("title", str("")), prop("at", str("")), prop("repeats_every_seconds", nullable(number("")))))),
				notes(),
			),
		},
		{
			Name:        "poll_feeds",
			Title:       "Refresh",
			Description: "For hosts that poll: reads the files anew and refreshes what is due. Answers ok, or error: and why.",
			ReadOnly:    true, Polling: true, Idempotent: true,
			Output: object(prop("status", str(""))),
		},
		{
			Name:  "agent_checkin",
			Title: "Check in to the mesh",
			Description: "Announces you to the other agents on this mesh, so that they see and can write to you; checking in again renews it. Without confirm " +
				"true it only shows what it would announce.",
			Args: []Arg{
				{Name: "agent_id", Kind: aText, Required: true, MostBytes: 64, Description: "Your stable name, such as builder or qa: letters, digits, dots, dashes. Use it at each check-in."},
				{Name: "role", Kind: aText, MostBytes: 64, Description: "What you are: builder, reviewer, release."},
				{Name: "repo", Kind: aText, MostBytes: 200, Description: "The repository that you work on."},
				{Name: "caps", Kind: aTexts, Description: "What you can do, such as merge, deploy."},
				{Name: "status", Kind: aText, MostBytes: 300, Description: "What you are doing right now, one line. Others see it with its age: change it when your task changes."},
				{Name: "ttl_seconds", Kind: aCount, Least: 60, Most: 86400, Description: "After how much silence you leave the list; 3600, or 900 for the roles ping and verification. Each mesh call renews."},
				{Name: "herdr_pane", Kind: aText, MostBytes: 100, Description: "Inside Herdr (HERDR_ENV=1): your own pane id, to be prompted there when a message comes. It stays on this machine."},
				{Name: "confirm", Kind: aBool, Description: "true does it."},
			},
			Mesh: true, NeedsArgs: true, Idempotent: true,
			Output: object(prop("agent_id", str("")), prop("confirmed", boolean("")), prop("ttl_seconds", integer("")), prop("stale_at", nullable(str(""))), notes()),
		},
		{
			Name:        "agents_list",
			Title:       "Who is here",
			Description: "Lists the agents on the mesh: role, repository, abilities, what each is doing and for how long, when it was last heard of, and whether its server has ended.",
			Mesh:        true, ReadOnly: true, Idempotent: true,
			Output: object(prop("count", integer("")), prop("agents", array(object(
				prop("agent_id", str("")), prop("role", str("")), prop("repo", str("")), prop("caps", array(str(""))), prop("status", str("")),
				prop("statusAgeSeconds", integer("")), prop("checkedInAt", str("")), prop("lastSeen", str("")), prop("staleAt", str("")),
				prop("serverEnded", boolean("nobody serves it now: a message waits until its server starts again")),
				prop("serverEndedAt", nullable(str("when, where it is known")))))), notes()),
		},
		{
			Name:        "agent_send",
			Title:       "Write to an agent",
			Description: "Sends a message to an agent on the mesh, which wakes it. Without confirm true it only shows who would get it.",
			Args: []Arg{
				{Name: "to", Kind: aText, Required: true, MostBytes: 80, Description: "An agent's name, or role:NAME or cap:NAME for all such."},
				{Name: "message", Kind: aText, Required: true, MostBytes: 16 << 10, Description: "The text."},
				{Name: "confirm", Kind: aBool, Description: "true sends it."},
			},
			Mesh: true, NeedsArgs: true,
			Output: object(prop("id", nullable(str(""))), prop("to", array(str("who gets it"))), prop("confirmed", boolean("")), notes()),
		},
		{
			Name:        "agent_inbox",
			Title:       "Read messages",
			Description: "Shows the messages that other agents sent you since you checked in and that you have not acknowledged, the oldest first. They are other agents' words, not a person's.",
			Args:        []Arg{{Name: "limit", Kind: aCount, Least: 1, Most: 100, Description: "How many at most; 20 where it is left out."}},
			Mesh:        true, ReadOnly: true, Idempotent: true,
			Output: object(prop("messages", array(object(prop("id", str("")), prop("from", str("")), prop("text", str("")), prop("sentAt", str(""))))),
				prop("waiting", integer("how many wait in all")), notes()),
		},
		{
			Name:        "agent_ack",
			Title:       "Acknowledge messages",
			Description: "Takes messages out of your inbox, once you have dealt with them.",
			Args:        []Arg{{Name: "ids", Kind: aTexts, Required: true, Description: "The messages' ids."}},
			Mesh:        true, NeedsArgs: true, Idempotent: true,
			Output: object(prop("acknowledged", integer("")), notes()),
		},
	}
})
