package engine

import (
	"cmp"
	"encoding/json"
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

// Hosts that cannot be pushed to poll (SPEC 10): they ask for what is due, and acknowledge what they took.

const (
	mostPolled  = 900_000 // bytes of an answer, in both of its forms; the rest comes after these are acknowledged
	mostContent = 200_000 // bytes of one event's content
	mostTitle   = 80      // letters of a title that is made from the message
)

// polledEvent is one event as hosts that poll read it.
type polledEvent struct {
	Kind          string            `json:"kind"`
	EventID       string            `json:"event_id"`
	SourceType    string            `json:"source_type"`
	SourceName    string            `json:"source_name"`
	Title         string            `json:"title"`
	Content       string            `json:"content"`
	Severity      string            `json:"severity,omitempty"`
	SuggestedTone string            `json:"suggested_tone,omitempty"`
	Metrics       map[string]string `json:"metrics,omitempty"`
	URL           string            `json:"url,omitempty"`
	PublishedAt   string            `json:"published_at,omitempty"`

	due int64
}

// documented is a reply that is one JSON document. A program parses it: what else is to be said stands in it.
func documented(r reply, saved error) tools.Reply {
	shown := r.document
	if ack, ok := shown.(ackReply); ok && saved != nil {
		ack.NotSaved = saved.Error()
		shown = ack
	}
	if status, ok := shown.(feedStatus); ok {
		return tools.Reply{Text: string(status), Structured: rawjson.Object{}.PutText("status", string(status)).JSON()}
	}
	data, err := rawjson.Append(nil, shown)
	if err != nil {
		return tools.Reply{Text: "the answer cannot be encoded: " + err.Error(), IsError: true}
	}
	structured := json.RawMessage(data)
	if _, ok := shown.([]polledEvent); ok {
		structured = rawjson.Object{}.Put("events", structured).JSON()
	}
	return tools.Reply{Text: string(data), Structured: structured}
}

// dueReminders are the reminders that are due, the most overdue first.
func (e *Engine) dueReminders(now int64) []*projection.Reminder {
	var due []*projection.Reminder
	e.state().Soonest(nil, func(r *projection.Reminder) bool {
		if r.FireAt > now {
			return false
		}
		due = append(due, r)
		return true
	})
	return due
}

// proactiveEvents answers get_proactive_events (SPEC 10.1, 10.2).
func (e *Engine) proactiveEvents(arguments json.RawMessage) reply {
	kind, err := tools.ParsePoll(arguments)
	if err != nil {
		return refusal(err)
	}
	if e.call.by == journal.ByTool {
		e.polledAt = time.Now()
	}
	now := e.now()
	all := e.alerts(now)
	for _, r := range e.dueReminders(now) {
		all = append(all, e.polledReminder(r, now))
	}
	all = append(all, e.polledMessages(now)...)
	if due, active := e.dueBeat(); active && due <= now {
		all = append(all, e.polledBeat(e.state().HeartbeatOccurrenceID(), due, now))
	} else if id := e.state().AskedOccurrenceID(); id != "" {
		all = append(all, e.polledBeat(id, e.state().Asked.At, now))
	}
	slices.SortStableFunc(all, func(a, b polledEvent) int { return cmp.Compare(a.due, b.due) })
	events, size := []polledEvent{}, 0
	for _, event := range all {
		if kind != "" && event.Kind != kind {
			continue
		}
		data, err := json.Marshal(event)
		if err != nil {
			return refusal(err)
		}
		size += len(data) + len(text.Quote(string(data)))
		if size > mostPolled && len(events) > 0 {
			break
		}
		events = append(events, event)
	}
	return reply{document: events}
}

func (e *Engine) polledReminder(r *projection.Reminder, now int64) polledEvent {
	p := polledEvent{
		Kind: "alert", EventID: r.OccurrenceID(), SourceType: "reminder", SourceName: "Reminders", Title: titleOf(r),
		Content: cutBytes(text.ReminderWake(r, now, e.o.Zone), mostContent), due: r.FireAt,
	}
	d := r.Details()
	if d.URL != "" {
		p.Kind, p.URL, p.PublishedAt = "content", d.URL, text.Protocol(r.FireAt)
		return p
	}
	p.Severity, p.SuggestedTone = "normal", "calm and brief"
	if d.Severity == projection.SeverityHigh {
		p.Severity, p.SuggestedTone = "high", "urgent and clear"
	}
	p.Metrics = map[string]string{"due": text.Protocol(r.FireAt), "overdue": text.Seconds(max(0, now-r.FireAt)) + " s"}
	switch {
	case r.EveryMs > 0:
		p.Metrics["repeats_every"] = text.Seconds(r.EveryMs) + " s"
	case d.Repeats != "":
		p.Metrics["repeats_every"] = d.Repeats
	case d.Cron != "":
		p.Metrics["repeats_by_cron"] = text.Cut(d.Cron, 50)
	}
	return p
}

func (e *Engine) polledBeat(id string, due, now int64) polledEvent {
	return polledEvent{
		Kind: "alert", EventID: id, SourceType: "heartbeat", SourceName: "Heartbeat", Title: "Heartbeat",
		Content: cutBytes(text.HeartbeatWake(&e.state().Config, e.state().MissedBefore(false), now, e.o.Zone), mostContent), Severity: "normal", SuggestedTone: "calm and brief",
		Metrics: map[string]string{"due": text.Protocol(due), "interval": text.Seconds(e.state().Config.IntervalMs) + " s"}, due: due,
	}
}

// alerts are what the files make it say, as events of their own (SPEC 3.6, 10.1).
func (e *Engine) alerts(now int64) []polledEvent {
	var all []polledEvent
	for _, sentence := range e.sentences() {
		id := "store-" + journal.HashBytes([]byte(sentence))
		if e.state().Acknowledged(id, now) {
			continue
		}
		all = append(all, polledEvent{
			Kind: "alert", EventID: id, SourceType: "store", SourceName: "heartbeat-mcpl", Title: "The schedule's files need attention",
			Content: sentence, Severity: "high", SuggestedTone: "urgent and clear", due: now,
		})
	}
	return all
}

// sentences are what is to be said of the files.
func (e *Engine) sentences() []string {
	all := e.store.Notes(true, true)
	if err := e.store.NotSaved(); err != nil {
		all = append(all, fmt.Sprintf("Changes are not saved (%v): they are in force in memory, and are saved as soon as the journal can be written again.", err))
	}
	return all
}

// titleOf is a reminder's title, or the beginning of its message.
func titleOf(r *projection.Reminder) string {
	if title := r.Details().Title; title != "" {
		return title
	}
	first, _, _ := strings.Cut(strings.TrimSpace(r.Message), "\n")
	runes := []rune(strings.TrimSpace(first))
	if len(runes) <= mostTitle {
		return string(runes)
	}
	return string(runes[:mostTitle-1]) + "…"
}

func cutBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " … (cut: the text has more)"
}

// ackReply is what acknowledge_events answers.
type ackReply struct {
	OK       bool     `json:"ok"`
	Acked    int      `json:"acked"`
	Unknown  []string `json:"unknown"`
	NotSaved string   `json:"not_saved,omitempty"`
}

// acknowledge answers acknowledge_events: each event that is due is taken, once (SPEC 10.3, 10.6).
func (e *Engine) acknowledge(arguments json.RawMessage) reply {
	args, err := tools.ParseAcknowledge(arguments)
	if err != nil {
		return refusal(err)
	}
	now := e.now()
	due := map[string]journal.Body{}
	for _, r := range e.dueReminders(now) {
		due[r.OccurrenceID()] = r.Polled(now)
	}
	if at, active := e.dueBeat(); active && at <= now {
		due[e.state().HeartbeatOccurrenceID()] = e.state().PolledHeartbeat()
	}
	if id := e.state().AskedOccurrenceID(); id != "" {
		due[id] = e.state().PolledAsked()
	}
	for _, alert := range e.alerts(now) {
		ack := &journal.Ack{By: journal.ByTool, EventID: alert.EventID}
		if args.TTL > 0 {
			ack.Until = now + args.TTL.Milliseconds()
		}
		due[alert.EventID] = ack
	}
	answer := ackReply{OK: true, Unknown: []string{}}
	var letters []string
	for _, id := range args.EventIDs {
		ack, known := due[id]
		letter, isLetter := e.messageOf(id)
		switch {
		case e.acknowledged(id):
			answer.Acked++
		case slices.Contains(letters, letter.ID): // a second time in one call is the same
		case isLetter:
			e.messageTaken(&OfferedMessage{ID: letter.ID, From: letter.From, SentMs: letter.SentMs}, journal.Told{EventID: id})
			letters = append(letters, letter.ID)
			answer.Acked++
		case !known:
			answer.Unknown = append(answer.Unknown, id)
		case ack != nil:
			e.record(ack)
			answer.Acked++
			due[id] = nil // as above
		}
	}
	if answer.Acked > 0 {
		e.beat.waiting = e.beat.waiting && e.state().AnchorMs <= e.beat.due
	}
	if !e.store.Journalled() {
		answer.NotSaved = "there is no journal that can be used"
	}
	return reply{document: answer, changed: answer.Acked > 0, beside: e.takeMessages(letters)}
}

// context answers get_context (SPEC 10.4).
func (e *Engine) context(arguments json.RawMessage) reply {
	if _, err := tools.ParseNone("get_context", arguments); err != nil {
		return refusal(err)
	}
	now, config := e.now(), e.state().Config
	var nextBeat any
	if due, active := e.dueBeat(); active {
		nextBeat = projection.Moment(due)
	}
	beat := rawjson.Object{}.Put("interval_seconds", projection.Length(config.IntervalMs)).Put("paused", config.Paused).Put("next_at", nextBeat)
	next, waiting := []rawjson.Object{}, 0
	e.state().Soonest(nil, func(r *projection.Reminder) bool {
		if r.FireAt <= now {
			waiting++
		}
		if len(next) < 3 {
			var every any
			if r.EveryMs > 0 {
				every = projection.Length(r.EveryMs)
			}
			next = append(next, rawjson.Object{}.PutText("id", r.ID).PutText("title", titleOf(r)).Put("at", projection.Moment(r.FireAt)).Put("repeats_every_seconds", every))
		}
		return r.FireAt <= now || len(next) < 3
	})
	return reply{document: rawjson.Object{}.Put("available", true).PutText("now", text.Agent(now, e.o.Zone)).Put("time_zone", e.o.Zone.String()).
		Put("heartbeat", beat).Put("reminders", e.state().Len()).Put("waiting", waiting).Put("next", next).PutTexts("notes", e.sentences())}
}

// feedStatus is what poll_feeds answers: a plain text.
type feedStatus string

// pollFeeds answers poll_feeds: it takes in edits of the files (SPEC 10.4).
func (e *Engine) pollFeeds(arguments json.RawMessage) reply {
	if _, err := tools.ParseNone("poll_feeds", arguments); err != nil {
		return refusal(err)
	}
	e.endFlush() // while views are written, edits are not looked for
	e.takeInEdits()
	status := "ok"
	if said := e.sentences(); len(said) > 0 {
		status = "error: " + strings.Join(said, " ")
	}
	return reply{document: feedStatus(status)}
}
