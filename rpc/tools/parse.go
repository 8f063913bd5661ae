package tools

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/projection/rawjson"
)

// ErrNotObject says that a call's arguments are no JSON object (SPEC 4.6).
var ErrNotObject = errors.New("arguments must be an object")

// Refusal says why a call changes nothing: every problem at once (SPEC 4.1).
type Refusal struct {
	Tool     string
	Problems []string
	Ignored  string // a sentence on names that are no arguments (SPEC 4.2): what is missing may be what they meant
}

func (r *Refusal) Error() string {
	said := r.Tool + " was refused, and nothing was changed: " + strings.Join(r.Problems, "; ") + "."
	if r.Ignored != "" {
		said += " " + r.Ignored
	}
	return said
}

// ConfigureArgs are heartbeat_configure's; nil is not given.
type ConfigureArgs struct {
	IntervalMs *int64
	Paused     *bool
	Mode       *string
	Message    *string
	Active     *string // empty: at any hour
}

// ParseConfigure reads heartbeat_configure's arguments. notes are sentences that the reply must carry; an error is a
// [*Refusal] or [ErrNotObject].
func ParseConfigure(arguments json.RawMessage) (a ConfigureArgs, notes []string, err error) {
	c, err := read("heartbeat_configure", arguments)
	if err != nil {
		return a, nil, err
	}
	a.IntervalMs = c.sum("interval")
	a.Paused = c.boolean("paused")
	a.Mode = c.choice("deliveryMode")
	a.Message = c.text("message")
	a.Active = c.activeHours()
	return a, c.notes, c.refusal()
}

// AddArgs are reminder_add's; nil is not given.
type AddArgs struct {
	Message  string
	DelayMs  *int64
	At       *time.Time
	EveryMs  *int64
	Repeats  string // a rule in its one form; empty: none
	Wall     string // what Repeats counts from, where At says so
	Title    string
	Severity string // projection.SeverityHigh, or empty
	URL      string
	Cron     string
	Zone     *time.Location // of the times that have no offset, of Cron and of Repeats
	Until    *time.Time
	Count    int // 0: for ever
}

// ParseAdd reads reminder_add's arguments; a time without an offset is in the zone, unless they name another one.
func ParseAdd(arguments json.RawMessage, now time.Time, zone *time.Location) (a AddArgs, notes []string, err error) {
	c, err := read("reminder_add", arguments)
	if err != nil {
		return a, nil, err
	}
	a.Message, a.Title, a.URL = c.plain("message"), c.line("title"), c.line("url")
	if a.URL != "" && !projection.IsWebURL(a.URL) {
		c.problem("url must be an absolute http or https URL, not %s", strconv.Quote(cut(a.URL, 60)))
	}
	if severity := c.choice("severity"); severity != nil && *severity == projection.SeverityHigh {
		a.Severity = *severity
	}
	a.Zone = c.zone(zone)
	a.DelayMs = c.sum("delay")
	at, until := c.moment("atIso", when{now: now, zone: a.Zone}), c.moment("until", when{now: now, zone: a.Zone})
	if at != nil {
		if !c.has("timeZone") && !c.has("cron") {
			a.Zone = at.Zone
		}
		a.At = &at.At
	}
	if until != nil {
		a.Until = &until.At
	}
	c.every(&a, at)
	c.calendar(&a)
	if n := c.count("count"); n != nil {
		a.Count = *n
	}
	delay, every, atIso, cron := c.anyOf("delay"), c.anyOf("every"), c.has("atIso"), c.has("cron")
	switch {
	case delay && atIso:
		c.problem("a delay (%s) and atIso contradict each other: give one of them", strings.Join(c.given("delay"), ", "))
	case cron && every:
		c.problem("cron and an interval (%s) contradict each other: give one of them", strings.Join(c.given("every"), ", "))
	case !delay && !every && !atIso && !cron && !c.slipped:
		c.problem("it does not say when: give a delay (in, inSeconds, inMinutes, inHours), or atIso, or an interval (every, everySeconds, everyMinutes, everyHours), or cron")
	}
	if (c.has("until") || c.has("count")) && !every && !cron && !c.slipped {
		c.problem("until and count end a recurring reminder: give an interval or cron, too")
	}
	return a, c.notes, c.refusal()
}

// every reads how a reminder repeats: by the calendar, or after an elapsed length.
func (c *call) every(a *AddArgs, at *projection.GivenTime) {
	rule, isRule, err := projection.ParseRule(c.textOf("every"))
	switch {
	case isRule && len(c.given("every")) > 1, !isRule:
		a.EveryMs = c.sum("every")
	case err != nil:
		c.problem("every %s: %v", strconv.Quote(cut(c.textOf("every"), 40)), err)
	default:
		if a.Repeats = rule; at != nil {
			a.Wall = projection.RuleFrom(projection.WallOf(at.At.UnixMilli(), a.Zone))
			if at.Zone.String() == a.Zone.String() {
				a.Wall = projection.RuleFrom(at.Wall)
			}
		}
	}
	if days := a.EveryMs; days != nil && *days%(24*hour) == 0 {
		n := *days / (24 * hour)
		c.notes = append(c.notes, fmt.Sprintf("%s counts elapsed hours: when the clocks change it comes at another time of day. every: \"%s\" keeps the time of day.",
			strings.Join(c.given("every"), " + "), plural(n, "day")))
	}
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// CancelArgs are reminder_cancel's.
type CancelArgs struct{ IDs []string }

// ParseCancel reads reminder_cancel's arguments.
func ParseCancel(arguments json.RawMessage) (a CancelArgs, notes []string, err error) {
	c, err := read("reminder_cancel", arguments)
	if err != nil {
		return a, nil, err
	}
	one, several := c.has("id"), c.has("ids")
	switch {
	case one && several:
		c.problem("id and ids contradict each other: give one of them")
	case one:
		a.IDs = []string{c.plain("id")}
	case several:
		for _, id := range c.texts("ids") {
			if !slices.Contains(a.IDs, id) {
				a.IDs = append(a.IDs, id)
			}
		}
		if len(a.IDs) == 0 && len(c.problems) == 0 {
			c.problem("ids is empty")
		}
	case !c.slipped:
		c.problem("id is missing")
	}
	return a, c.notes, c.refusal()
}

// ListArgs are reminder_list's.
type ListArgs struct {
	Limit    int
	After    string // empty: from the first on
	Contains string // only those whose message or title holds it, in capitals or not; empty: all
}

// ParseList reads reminder_list's arguments, as [ParseConfigure] does.
func ParseList(arguments json.RawMessage) (a ListArgs, notes []string, err error) {
	c, err := read("reminder_list", arguments)
	if err != nil {
		return a, nil, err
	}
	a.Limit = 1000
	if limit := c.count("limit"); limit != nil {
		a.Limit = *limit
	}
	a.After, a.Contains = c.plain("after"), c.plain("contains")
	return a, c.notes, c.refusal()
}

// HistoryArgs are wake_history's.
type HistoryArgs struct {
	Limit int
	ID    string     // empty: every reminder, and the heartbeat
	Since *time.Time // nil: from the beginning
}

// ParseHistory reads wake_history's arguments; a time without an offset is in the zone.
func ParseHistory(arguments json.RawMessage, now time.Time, zone *time.Location) (a HistoryArgs, notes []string, err error) {
	c, err := read("wake_history", arguments)
	if err != nil {
		return a, nil, err
	}
	a.Limit = 20
	if limit := c.count("limit"); limit != nil {
		a.Limit = *limit
	}
	a.ID = c.plain("id")
	if since := c.moment("since", when{now, zone, true}); since != nil {
		a.Since = &since.At
	}
	return a, c.notes, c.refusal()
}

// WaitArgs are wait_for_wake's.
type WaitArgs struct {
	MaxMs int64
	Kinds []string // empty: all
}

// How long wait_for_wake waits where it is not said: hosts end calls after a minute, unless they are told of progress (SPEC 14.2).
const (
	waitSeconds        = 50
	waitPatientSeconds = 240
)

// ParseWait reads wait_for_wake's arguments; patient says that the host is told of progress.
func ParseWait(arguments json.RawMessage, patient bool) (a WaitArgs, notes []string, err error) {
	c, err := read("wait_for_wake", arguments)
	if err != nil {
		return a, nil, err
	}
	seconds := waitSeconds
	if patient {
		seconds = waitPatientSeconds
	}
	if given := c.count("maxSeconds"); given != nil {
		seconds = *given
	}
	a.MaxMs = int64(seconds) * 1000
	a.Kinds = c.texts("kinds")
	for _, kind := range a.Kinds {
		if choices := c.tool.arg("kinds").Choices; !slices.Contains(choices, kind) {
			c.problem("kinds has %q; there are %s", kind, strings.Join(choices, ", "))
		}
	}
	return a, c.notes, c.refusal()
}

// ParsePoll reads get_proactive_events' arguments; an empty kind is every kind.
func ParsePoll(arguments json.RawMessage) (kind string, err error) {
	c, err := read("get_proactive_events", arguments)
	if err != nil {
		return "", err
	}
	if k := c.choice("kind"); k != nil {
		kind = *k
	}
	return kind, c.refusal()
}

// AckArgs are acknowledge_events'.
type AckArgs struct {
	EventIDs []string
	TTL      time.Duration // 0: for ever
}

// ParseAcknowledge reads acknowledge_events' arguments.
func ParseAcknowledge(arguments json.RawMessage) (a AckArgs, err error) {
	c, err := read("acknowledge_events", arguments)
	if err != nil {
		return a, err
	}
	a.EventIDs = c.texts("event_ids")
	a.TTL = c.hours("ttl_hours")
	return a, c.refusal()
}

// ParseCommand reads heartbeat_command's arguments.
func ParseCommand(arguments json.RawMessage) (line string, notes []string, err error) {
	c, err := read("heartbeat_command", arguments)
	if err != nil {
		return "", nil, err
	}
	if raw, ok := c.value("command"); ok && (raw[0] != '"' || json.Unmarshal(raw, &line) != nil) {
		c.problem("command must be a text, not %s", describe(raw))
	}
	return line, c.notes, c.refusal()
}

// CheckInArgs are agent_checkin's.
type CheckInArgs struct {
	Agent, Role, Repo, Status, Pane string
	Caps                            []string
	TTL                             time.Duration
	Confirm                         bool
}

// nameForm is what agents are called: it may stand in a header, in an address and in a subject.
var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`) })

const mostCaps = 32

// ParseCheckIn reads agent_checkin's arguments (SPEC 12.1).
func ParseCheckIn(arguments json.RawMessage) (a CheckInArgs, notes []string, err error) {
	c, err := read("agent_checkin", arguments)
	if err != nil {
		return a, nil, err
	}
	a.Agent, a.Role, a.Repo, a.Status, a.Pane = c.name("agent_id"), c.name("role"), c.line("repo"), c.line("status"), c.line("herdr_pane")
	if a.Caps = c.texts("caps"); len(a.Caps) > mostCaps {
		c.problem("caps may have %d members at most", mostCaps)
	}
	for _, capability := range a.Caps {
		if !nameForm().MatchString(capability) {
			c.problem("caps: %s is no name: letters, digits, dots, dashes and underscores, at most 64", strconv.Quote(cut(capability, 40)))
		}
	}
	a.TTL = time.Hour
	if a.Role == "ping" || a.Role == "verification" {
		a.TTL = 15 * time.Minute
	}
	if n := c.count("ttl_seconds"); n != nil {
		a.TTL = time.Duration(*n) * time.Second
	}
	a.Confirm = c.isTrue("confirm")
	return a, c.notes, c.refusal()
}

// SendArgs are agent_send's.
type SendArgs struct {
	To, Message string
	Confirm     bool
}

// ParseSend reads agent_send's arguments.
func ParseSend(arguments json.RawMessage) (a SendArgs, notes []string, err error) {
	c, err := read("agent_send", arguments)
	if err != nil {
		return a, nil, err
	}
	a.To, a.Message, a.Confirm = c.line("to"), c.plain("message"), c.isTrue("confirm")
	return a, c.notes, c.refusal()
}

// ParseInbox reads agent_inbox's arguments.
func ParseInbox(arguments json.RawMessage) (limit int, notes []string, err error) {
	c, err := read("agent_inbox", arguments)
	if err != nil {
		return 0, nil, err
	}
	limit = 20
	if n := c.count("limit"); n != nil {
		limit = *n
	}
	return limit, c.notes, c.refusal()
}

// ParseAgentAck reads agent_ack's arguments.
func ParseAgentAck(arguments json.RawMessage) (ids []string, notes []string, err error) {
	c, err := read("agent_ack", arguments)
	if err != nil {
		return nil, nil, err
	}
	return c.texts("ids"), c.notes, c.refusal()
}

func (c *call) isTrue(name string) bool {
	b := c.boolean(name)
	return b != nil && *b
}

// name is an optional text that is a name.
func (c *call) name(name string) string {
	text := c.plain(name)
	if text != "" && !nameForm().MatchString(text) {
		c.problem("%s %s is no name: letters, digits, dots, dashes and underscores, at most 64", name, strconv.Quote(cut(text, 40)))
		return ""
	}
	return text
}

// line is an optional text of one line.
func (c *call) line(name string) string {
	text := c.plain(name)
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }) {
		c.problem("%s must be one line", name)
		return ""
	}
	return text
}

// ParseNone reads the arguments of a tool that takes none.
func ParseNone(tool string, arguments json.RawMessage) (notes []string, err error) {
	if members, err := membersOf(arguments); err != nil || len(members) == 0 { // as nearly always
		return nil, err
	}
	c, err := read(tool, arguments)
	if err != nil {
		return nil, err
	}
	return c.notes, c.refusal()
}

// call is one call's arguments in the making.
type call struct {
	tool     *Tool
	values   []member // of the tool's own arguments, what is not null
	problems []string
	notes    []string
	ignored  string // that one of them which says what was ignored
	slipped  bool   // a name was a slip: what is missing may be what it meant
}

func (c *call) problem(format string, v ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, v...))
}

func (c *call) refusal() error {
	if len(c.problems) == 0 {
		return nil
	}
	return &Refusal{Tool: c.tool.Name, Problems: c.problems, Ignored: c.ignored}
}

// read takes the arguments apart and judges their names.
func read(tool string, arguments json.RawMessage) (*call, error) {
	members, err := membersOf(arguments)
	if err != nil {
		return nil, err
	}
	c := &call{tool: Find(tool), values: make([]member, 0, len(members))}
	var unknown, ignored []member
	for _, m := range members {
		if m.differing {
			c.problem("%s was given twice, with different values", cut(m.name, 60))
		}
		switch known := c.tool.arg(m.name) != nil; {
		case known && m.value != nil:
			m.value = c.tool.arg(m.name).mended(m.value)
			c.values = append(c.values, m)
		case known:
			c.notes = append(c.notes, m.name+" was null, which counts as not given.")
		case m.value == nil:
			ignored = append(ignored, m)
		default:
			unknown = append(unknown, m)
		}
	}
	for _, m := range unknown {
		if !c.judge(m.name) {
			ignored = append(ignored, m)
		}
	}
	c.judgeIgnored(ignored)
	for _, a := range c.tool.Args {
		if a.Required && !c.has(a.Name) && !c.slipped {
			c.problem("%s is missing", a.Name)
		}
	}
	return c, nil
}

// member is one name of the arguments with its last value that is not null; nil when there is none.
type member struct {
	name      string
	value     json.RawMessage
	differing bool // it had another one before
}

func membersOf(arguments json.RawMessage) ([]member, error) {
	if text := bytes.TrimSpace(arguments); len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	var members []member
	isObject := rawjson.Each(arguments, func(name []byte, value json.RawMessage) {
		i := slices.IndexFunc(members, func(have member) bool { return have.name == string(name) })
		if i < 0 {
			i = len(members)
			members = append(members, member{name: string(name)})
		}
		if string(value) != "null" {
			members[i].differing = members[i].differing || members[i].value != nil && !bytes.Equal(members[i].value, value)
			members[i].value = value
		}
	})
	if !isObject {
		return nil, ErrNotObject
	}
	return members, nil
}

// judge looks whether a name that the tool does not take must be refused (SPEC 4.2).
func (c *call) judge(name string) bool {
	meant := c.meant(name)
	owner := c.tool.owner(name)
	if len(meant) == 0 && owner == nil {
		return false
	}
	text := fmt.Sprintf("%s is no argument of %s", cut(name, 60), c.tool.Name)
	if owner != nil {
		text += fmt.Sprintf(" but of %s", owner.Name)
	}
	if len(meant) > 0 {
		c.slipped = true
		text += "; did you mean " + strings.Join(meant, " or ") + "?"
		c.problems = append(c.problems, strings.TrimSuffix(text, "?"))
		return true
	}
	c.problem("%s (%s)", text, c.tool.takes())
	return true
}

// judgeIgnored says which names are ignored, or refuses a call that has nothing else (SPEC 4.2).
func (c *call) judgeIgnored(ignored []member) {
	if len(ignored) == 0 {
		return
	}
	var names []string
	given := false
	for _, m := range ignored {
		names = append(names, cut(m.name, 60))
		given = given || m.value != nil
	}
	if given && c.tool.NeedsArgs && len(c.values) == 0 && len(c.problems) == 0 {
		c.problem("it was given nothing that it takes (%s), and %s", strings.Join(names, ", "), c.tool.takes())
		return
	}
	c.ignored = fmt.Sprintf("Ignored: %s; %s.", strings.Join(names, ", "), c.tool.takes())
	c.notes = append(c.notes, c.ignored)
}

func (c *call) has(name string) bool { _, ok := c.value(name); return ok }

// value is an argument that was given; there are few, so they are gone through.
func (c *call) value(name string) (json.RawMessage, bool) {
	for i := range c.values {
		if c.values[i].name == name {
			return c.values[i].value, true
		}
	}
	return nil, false
}

// given are the names of a sum's arguments that were given.
func (c *call) given(sum string) []string {
	var names []string
	for _, a := range c.tool.Args {
		if a.Sum == sum && c.has(a.Name) {
			names = append(names, a.Name)
		}
	}
	return names
}

func (c *call) anyOf(sum string) bool { return len(c.given(sum)) > 0 }

func (c *call) text(name string) *string {
	raw, ok := c.value(name)
	if !ok {
		return nil
	}
	text, isText := rawjson.Text(raw)
	switch {
	case !isText:
		c.problem("%s must be a text, not %s", name, describe(raw))
	case loneSurrogate(raw):
		c.problem("%s holds half of a surrogate pair, which is no valid text", name)
	case strings.TrimFunc(text, blank) == "":
		c.problem("%s must not be blank", name)
	case len(text) > c.tool.arg(name).mostBytes():
		c.problem("%s may have %d bytes at most, and has %d", name, c.tool.arg(name).mostBytes(), len(text))
	default:
		return &text
	}
	return nil
}

// plain is an optional text, empty where it is not given or cannot be used.
func (c *call) plain(name string) string {
	if text := c.text(name); text != nil {
		return *text
	}
	return ""
}

func (c *call) texts(name string) []string {
	raw, ok := c.value(name)
	if !ok {
		return nil
	}
	var members []any
	if raw[0] != '[' || json.Unmarshal(raw, &members) != nil {
		c.problem("%s must be an array of texts, not %s", name, describe(raw))
		return nil
	}
	texts := []string{}
	for _, m := range members {
		text, ok := m.(string)
		if !ok {
			c.problem("%s must hold texts alone", name)
			return nil
		}
		texts = append(texts, text)
	}
	return texts
}

// hours is a length given in hours; more than can be told is for ever, which 0 stands for.
func (c *call) hours(name string) time.Duration {
	raw, ok := c.value(name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case raw[0] != '-' && (raw[0] < '0' || raw[0] > '9'):
		c.problem("%s must be a number, not %s", name, describe(raw))
	case n < 0:
		c.problem("%s must be 0 or more, and is %s", name, short(raw))
	case err == nil && n < projection.MostLengthMs/hour:
		return time.Duration(n * float64(time.Hour))
	}
	return 0
}

// blank says whether a letter shows nothing.
func blank(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) || r == 0 }

func (c *call) choice(name string) *string {
	raw, ok := c.value(name)
	if !ok {
		return nil
	}
	a := c.tool.arg(name)
	var text string
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		c.problem("%s must be one of %s, not %s", name, quoted(a.Choices), describe(raw))
		return nil
	}
	if slices.Contains(a.Choices, text) {
		return &text
	}
	c.problem("%s must be one of %s, not %s", name, quoted(a.Choices), short(raw))
	return nil
}

func (c *call) boolean(name string) *bool {
	raw, ok := c.value(name)
	if !ok {
		return nil
	}
	var b bool
	if json.Unmarshal(raw, &b) != nil {
		c.problem("%s must be true or false, not %s", name, describe(raw))
		return nil
	}
	return &b
}

// sum is a length of time out of several units, in milliseconds (SPEC 4.5); nil when none was given, or one cannot be used.
func (c *call) sum(name string) *int64 {
	names := c.given(name)
	total, usable := 0.0, len(names) > 0
	if span := c.spanOf(name); span != "" && len(names) > 1 {
		c.problem("%s and %s contradict each other: give one of them", span, strings.Join(slices.DeleteFunc(names, func(n string) bool { return n == span }), ", "))
		return nil
	}
	for _, n := range names {
		ms, ok := c.length(n)
		total, usable = total+ms, usable && ok
	}
	if !usable {
		return nil
	}
	i := slices.IndexFunc(c.tool.Sums, func(s Sum) bool { return s.Name == name })
	least := c.tool.Sums[i].LeastMs
	ms := int64(math.Round(min(total, 2*projection.MostLengthMs)))
	switch said := strings.Join(names, " + "); {
	case ms < least:
		c.problem("%s must be %d seconds or more, and is %s", said, least/second, strconv.FormatFloat(total/second, 'f', -1, 64))
	case ms > projection.MostLengthMs:
		c.problem("%s must be 100 years (36525 days) or less", said)
	default:
		return &ms
	}
	return nil
}

// length is one unit's part of a sum, in milliseconds.
func (c *call) length(name string) (float64, bool) {
	if c.tool.arg(name).Kind == aSpan {
		return c.span(name)
	}
	raw, _ := c.value(name)
	n, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case raw[0] != '-' && (raw[0] < '0' || raw[0] > '9'):
		c.problem("%s must be a number, not %s", name, describe(raw))
	case err != nil:
		c.problem("%s is out of range (%s)", name, short(raw))
	case n < 0:
		c.problem("%s must be 0 or more, and is %s", name, short(raw))
	default:
		return n * float64(c.tool.arg(name).UnitMs), true
	}
	return 0, false
}

// mostSpanBytes is how long the text of a length may be.
const mostSpanBytes = 100

// spanOf is the argument of a sum that is one text, where it was given.
func (c *call) spanOf(sum string) string {
	for _, name := range c.given(sum) {
		if c.tool.arg(name).Kind == aSpan {
			return name
		}
	}
	return ""
}

// span is a length as people write it, in milliseconds.
func (c *call) span(name string) (float64, bool) {
	raw, _ := c.value(name)
	var text string
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		c.problem("%s must be a text such as 10m, not %s", name, describe(raw))
		return 0, false
	}
	ms, err := ParseLength(text)
	if err != nil || len(text) > mostSpanBytes {
		c.problem("%s %s: %v", name, short(raw), cmp.Or(err, errLength))
		return 0, false
	}
	return float64(ms), true
}

// activeHours are the hours in which the heartbeat may come, in one form; empty: any.
func (c *call) activeHours() *string {
	text := c.text("activeHours")
	if text == nil {
		return nil
	}
	hours := strings.TrimSpace(*text)
	if strings.EqualFold(hours, "always") {
		hours = ""
	} else if _, err := projection.ParseHours(hours); err != nil {
		c.problem("activeHours %s: %v, or always", strconv.Quote(cut(hours, 20)), err)
		return nil
	}
	return &hours
}

// zone is the one that timeZone names, else the agent's.
func (c *call) zone(agents *time.Location) *time.Location {
	name := c.plain("timeZone")
	if name == "" {
		return agents
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		c.problem("timeZone %s is no time zone: give an IANA name such as Europe/Berlin", strconv.Quote(cut(name, 40)))
		return agents
	}
	return zone
}

// calendar reads cron.
func (c *call) calendar(a *AddArgs) {
	said := c.plain("cron")
	if said == "" {
		return
	}
	a.Cron = projection.Cron(said)
	if _, err := projection.NextCron(a.Cron, a.Zone.String(), 0); err != nil {
		c.problem("cron %s: %v", strconv.Quote(cut(said, 60)), err)
	}
}

func (c *call) count(name string) *int {
	raw, ok := c.value(name)
	if !ok {
		return nil
	}
	a := c.tool.arg(name)
	n, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case raw[0] != '-' && (raw[0] < '0' || raw[0] > '9'):
		c.problem("%s must be a number, not %s", name, describe(raw))
	case err != nil || n != math.Trunc(n) || n < float64(a.Least) || n > float64(a.Most):
		c.problem("%s must be a whole number from %d to %d, and is %s", name, a.Least, a.Most, short(raw))
	default:
		whole := int(n)
		return &whole
	}
	return nil
}

// moment is a point in time, nil where it is not given or cannot be read.
func (c *call) moment(name string, w when) *projection.GivenTime {
	raw, ok := c.value(name)
	if !ok {
		return nil
	}
	text, isText := rawjson.Text(raw)
	if !isText {
		c.problem("%s must be a text, not %s", name, describe(raw))
		return nil
	}
	at, err := w.read(text)
	if err != nil {
		c.problem("%s %s: %s", name, short(raw), err)
		return nil
	}
	return &at
}

// textOf is an argument that is a text, empty where it is none.
func (c *call) textOf(name string) string {
	raw, _ := c.value(name)
	text, _ := rawjson.Text(raw)
	return text
}

// describe is a value with its type, for a message.
func describe(raw json.RawMessage) string {
	kind := "a number"
	switch raw[0] {
	case '"':
		kind = "a text"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		kind = "a bool"
	}
	return kind + " (" + short(raw) + ")"
}

func short(raw json.RawMessage) string { return cut(string(raw), 60) }

func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "..."
}

func quoted(choices []string) string {
	var all []string
	for _, c := range choices {
		all = append(all, strconv.Quote(c))
	}
	return strings.Join(all, " and ")
}

// loneSurrogate says whether a JSON string escapes half of a surrogate pair, which Go reads as U+FFFD.
func loneSurrogate(raw json.RawMessage) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if i+5 > len(raw) || raw[i] != 'u' {
			continue
		}
		r := escaped(raw[i+1:])
		switch i += 4; {
		case r < 0xd800 || r > 0xdfff:
		case r >= 0xdc00 || i+7 > len(raw) || raw[i+1] != '\\' || raw[i+2] != 'u':
			return true
		default:
			if low := escaped(raw[i+3:]); low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 6
		}
	}
	return false
}

func escaped(hex []byte) uint64 {
	if len(hex) < 4 {
		return 0
	}
	n, err := strconv.ParseUint(string(hex[:4]), 16, 32)
	if err != nil {
		return 0
	}
	return n
}
