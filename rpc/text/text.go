// Package text owns the words that agents and hosts read: status lines, reminder lines and the headers of wakes, in the
// formats of SPEC 5 and 6, which other programs parse. It is pure; the caller passes the time and the zone.
package text

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/projection/rawjson"
)

// OverdueMs is how late a wake must be for its text to say when it was due (SPEC 6.3).
const OverdueMs = 60_000

// Agent is a time as agents see it: 2026-10-10T08:02:36-07:00 [America/Los_Angeles] (SPEC 1.3).
func Agent(ms int64, zone *time.Location) string {
	const most = 80
	return string(appendAgent(make([]byte, 0, most), ms, zone))
}

func appendAgent(dst []byte, ms int64, zone *time.Location) []byte {
	dst = time.UnixMilli(ms).In(zone).AppendFormat(dst, time.RFC3339) // of layouts, package time is quick with its own alone
	if utc, ok := bytes.CutSuffix(dst, []byte("Z")); ok {
		dst = append(utc, "+00:00"...)
	}
	return append(append(append(dst, " ["...), zone.String()...), ']')
}

// Protocol is a time as protocols carry it: UTC, RFC 3339 with milliseconds (SPEC 1.3).
func Protocol(ms int64) string { return projection.Instant(ms).String() }

// Seconds is a length in milliseconds as a decimal number of seconds, exact.
func Seconds(ms int64) string { return projection.Length(ms).String() }

// Quote is text between double quotes on one line, escaped as JSON; characters that would act on a terminal or turn the
// line around are escaped, too.
func Quote(text string) string { return string(appendQuote(make([]byte, 0, len(text)+2), text)) }

func appendQuote(dst []byte, text string) []byte {
	if rawjson.Plain(text) == len(text) && strings.IndexByte(text, 0x7f) < 0 {
		return append(append(append(dst, '"'), text...), '"')
	}
	return append(dst, escapeUnseen(string(rawjson.AppendText(make([]byte, 0, len(text)+2), text)))...)
}

// Safe is text for a terminal: nothing in it breaks the line, acts on the terminal or turns the line around.
func Safe(text string) string {
	return escapeUnseen(strings.Map(func(r rune) rune {
		if r < ' ' {
			return '\ufffd'
		}
		return r
	}, text))
}

// escapeUnseen escapes control characters beyond ASCII's and format characters; joiners stay, which emoji and scripts need.
func escapeUnseen(text string) string {
	unseen := func(r rune) bool {
		return r >= 0x7f && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d')
	}
	if !strings.ContainsFunc(text, unseen) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unseen(r) && r <= 0xffff {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// OneLine is text without what would break a line, escaped as in JSON.
func OneLine(text string) string {
	quoted := Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// In is how far away a time is, in whole seconds and never below zero: ~90s.
func In(ms, now int64) string { return string(appendIn(nil, ms, now)) }

func appendIn(dst []byte, ms, now int64) []byte {
	return append(strconv.AppendInt(append(dst, '~'), max(0, ms-now)/1000, 10), 's')
}

// Status is what a status line says beside the settings.
type Status struct {
	Config    projection.Config
	Mode      string // the mode with its remark, if any
	NextMs    int64  // when the next heartbeat falls due
	NowMs     int64
	Reminders int
	Blocked   string // why no wake can be sent; empty: they can
	Polled    string // while they cannot: "polled" or "pollable", and how; empty: this connection cannot poll, either
	NotTaken  NotTaken
	Beats     projection.Beats
	Zone      *time.Location
}

// String is the line of SPEC 5.1.
func (s Status) String() string {
	const most = 512 // of nearly all lines
	line := make([]byte, 0, most)
	switch {
	case s.Config.Cleared:
		line = append(line, "Heartbeat NOT SET"...)
	case s.Config.Paused:
		line = append(line, "Heartbeat PAUSED"...)
	default:
		line = append(line, "Heartbeat ACTIVE"...)
	}
	line = append(append(line, " | mode="...), s.Mode...)
	if !s.Config.Cleared {
		line = projection.Length(s.Config.IntervalMs).AppendJSON(append(line, " | interval="...))
		line = append(line, "s ("...)
		line = strconv.AppendFloat(line, float64(s.Config.IntervalMs)/3600e3, 'f', 2, 64)
		line = append(line, "h)"...)
		if !s.Config.Paused {
			line = appendIn(append(line, " | next in "...), s.NextMs, s.NowMs)
		}
	}
	line = strconv.AppendInt(append(line, " | reminders="...), int64(s.Reminders), 10)
	switch {
	case s.Blocked == "":
		line = append(line, " | delivery=ok"...)
	case s.Polled != "":
		line = append(append(line, " | delivery="...), s.Polled...)
	default:
		line = append(append(append(line, " | delivery=BLOCKED ("...), s.Blocked...), ')')
	}
	if !s.Config.Cleared {
		line = s.appendSettings(line)
	}
	return string(s.NotTaken.append(line, s.NowMs))
}

func (s Status) appendSettings(line []byte) []byte {
	line = appendQuote(append(line, " | message="...), s.Config.Message)
	if s.Config.Active != "" {
		line = append(append(line, " | hours="...), s.Config.Active...)
	}
	if s.Beats.Taken > 0 {
		line = strconv.AppendInt(append(line, " | taken="...), s.Beats.Taken, 10)
		line = appendAgent(append(line, " | last="...), s.Beats.LastMs, s.Zone)
	}
	return line
}

// NotTaken is what the host did not take, and is tried again (SPEC 5.12).
type NotTaken struct {
	Reminders, Messages int
	Heartbeat           bool
	Reason              string // of the last one
	Next                int64  // when the next try comes; 0: nobody knows
	Out                 bool   // the answer to one is awaited
	When                string // until when none goes out, in words; empty: it is not held up
}

// Any says whether there is something.
func (n NotTaken) Any() bool { return n.Reminders > 0 || n.Messages > 0 || n.Heartbeat }

func (n NotTaken) append(line []byte, now int64) []byte {
	if !n.Any() {
		return line
	}
	var what []string
	if n.Reminders > 0 {
		what = append(what, Plural(n.Reminders, "reminder"))
	}
	if n.Messages > 0 {
		what = append(what, Plural(n.Messages, "message"))
	}
	if n.Heartbeat {
		what = append(what, "the heartbeat")
	}
	return fmt.Appendf(line, " | not taken: %s (%s), %s", strings.Join(what, ", "), OneLine(Cut(n.Reason, mostHistoryText)), n.NextTry(now))
}

// NextTry is when the next try comes, in words.
func (n NotTaken) NextTry(now int64) string {
	switch {
	case n.When != "":
		return "next try " + n.When
	case n.Next == 0 || n.Out && n.Next > now:
		return "tried again now"
	}
	return "next try in " + In(n.Next, now)
}

// Again says how often one wake was not taken, and when it is tried again. The zero value: it was not tried.
type Again struct {
	Tries int
	Next  int64
	Out   bool   // the answer to the next one is awaited
	When  string // as in [NotTaken]
}

func (a Again) words(now int64) string {
	tries := "1 try"
	if a.Tries > 1 {
		tries = fmt.Sprintf("%d tries", a.Tries)
	}
	switch {
	case a.Out:
		return tries + ", one more is out now"
	case a.When != "":
		return tries + ", next " + a.When
	}
	return tries + ", next in " + In(a.Next, now)
}

// ReminderSet is the reply to reminder_add (SPEC 5.4).
func ReminderSet(r *projection.Reminder, now int64, zone *time.Location) string {
	return "Reminder " + r.ID + " set: next " + Agent(r.FireAt, zone) + " (" + In(r.FireAt, now) + ") | " + rhythm(r, zone) + " | " + Quote(r.Message)
}

// ReminderLine is a reminder's line in reminder_list (SPEC 5.5).
func ReminderLine(r *projection.Reminder, again Again, now int64, zone *time.Location) string {
	when := In(r.FireAt, now)
	if r.FireAt <= now {
		when = "overdue"
	}
	to := "now"
	switch {
	case r.FireAt > now:
		to = "in " + shortAway(r.FireAt-now)
	case r.FireAt <= now-second:
		to = shortAway(now-r.FireAt) + " ago"
	}
	line := OneLine(r.ID) + " | next " + Agent(r.FireAt, zone) + " (" + when + ") | " + rhythm(r, zone) + " | " + Quote(r.Message)
	switch how, at, reason := r.Attempt.Failed(); how {
	case projection.Refused:
		line += fmt.Sprintf(" | refused by the host at %s: %s", Agent(at, zone), OneLine(reason))
	case projection.NoAnswer:
		line += fmt.Sprintf(" | not answered by the host, %s: %s", Agent(at, zone), OneLine(reason))
	}
	if again.Tries > 0 {
		line += " | " + again.words(now)
	}
	return line + " | " + Weekday(r.FireAt, zone)[:3] + ", " + to
}

func rhythm(r *projection.Reminder, zone *time.Location) string {
	s, d := "one-shot", r.Details()
	switch {
	case r.EveryMs > 0:
		s = "repeats every " + Seconds(r.EveryMs) + "s"
	case d.Repeats != "":
		s = "repeats every " + strings.TrimPrefix(d.Repeats, "1 ") + " [" + d.Zone + "]"
	case d.Cron != "":
		s = "repeats by cron " + Quote(d.Cron) + " [" + d.Zone + "]"
	}
	if d.Left > 0 {
		s += fmt.Sprintf(", %d left", d.Left)
	}
	if d.Until > 0 {
		s += ", until " + Agent(d.Until, zone)
	}
	return s
}

// mostHistoryText is how much of a message a history tells: 200 wakes must fit in a line.
const mostHistoryText = 1000

// Cut is text with at most so many bytes.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// HistoryLine is a wake's line in wake_history (SPEC 5.7).
func HistoryLine(s *projection.Subject, w *projection.Wake, zone *time.Location) string {
	name, message := "heartbeat", ""
	said := w.Said(s)
	switch id := s.ReminderID(); {
	case w.From != "":
		name = "message from " + w.From
	case id != "" && said != "":
		name, message = OneLine(id), " | "+Quote(Cut(said, mostHistoryText))
	case id != "":
		name = OneLine(id)
	}
	line := fmt.Sprintf("%s | %s | %s", Agent(int64(w.At()), zone), name, w.Result)
	if w.Manual {
		line += ", asked for"
	}
	if late, ok := w.LateMs(); ok && late >= OverdueMs {
		line += fmt.Sprintf(" %ds late", late/1000)
	}
	line += " | due " + Agent(int64(w.Due), zone)
	if len(w.Pushes) > 1 {
		line += fmt.Sprintf(" | %d pushes", len(w.Pushes))
	}
	if why := w.Why(); why != "" {
		line += " | " + OneLine(why)
	}
	return line + message
}

// HeartbeatWake is the text of a heartbeat (SPEC 6.2). It says which before it did not reach the agent (SPEC 6.2a), and of a recurring
// instruction that it is one (SPEC 11.4).
func HeartbeatWake(c *projection.Config, missed projection.Missed, now int64, zone *time.Location) string {
	before := ""
	if missed.Count > 0 {
		before = fmt.Sprintf(" · %s since %s did not reach you: %s", Plural(missed.Count, "heartbeat"), Agent(missed.Since, zone), OneLine(Cut(missed.Why, mostHistoryText)))
	}
	if !c.Standing {
		return fmt.Sprintf("[current time: %s%s] %s", Agent(now, zone), before, c.Message)
	}
	every := Length(c.IntervalMs)
	return fmt.Sprintf("[current time: %s · recurring instruction, every %s%s] %s\n\n(This is a recurring instruction, every %s. If nothing has changed since last time, reply briefly; "+
		"do not invent work.)", Agent(now, zone), every, before, c.Message, every)
}

// ReminderWake is the text of a reminder. Hosts keep the origin from the model: without the header a message that opens
// "Name: ..." would read as a chat line of that person (SPEC 6.3).
func ReminderWake(r *projection.Reminder, now int64, zone *time.Location) string {
	about := "set " + Agent(r.CreatedAt, zone)
	if r.Recurring() {
		about = rhythm(r, zone)
	}
	due := ""
	if now-r.FireAt >= OverdueMs {
		due = ", due " + Agent(r.FireAt, zone)
	}
	return fmt.Sprintf("[reminder %s, %s%s · current time: %s] %s", OneLine(r.ID), about, due, Agent(now, zone), r.Message)
}

// Letter is another agent's message as an agent reads it: behind a header that names its sender, and with a mark before each
// of its lines, so that nothing in it passes for a header or for somebody else's words (SPEC 12.5).
func Letter(l projection.Letter, now int64, zone *time.Location) string {
	lines := strings.FieldsFunc(l.Text, func(r rune) bool {
		return r == '\n' || r == '\r' || r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029'
	})
	for i, line := range lines {
		lines[i] = "> " + Safe(line)
	}
	return fmt.Sprintf("[mesh message %s from %s, sent %s · current time: %s]\n%s", l.ID, l.From, Agent(l.SentMs, zone), Agent(now, zone), strings.Join(lines, "\n"))
}

// Plural is "1 reminder" or "2 reminders".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
