package projection

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection/rawjson"
)

// Limits of what is taken from a file or an agent.
const (
	LeastIntervalMs = 60 * 1000       // of the heartbeat (SPEC 5.2)
	LeastEveryMs    = 5 * 1000        // of a recurring reminder (SPEC 5.4)
	MostLengthMs    = 36525 * 86400e3 // of any interval or delay: 100 years
	MostTextBytes   = 64 << 10        // of a text in a tool call (SPEC 4.5)
	MostCount       = 1_000_000       // of a reminder that ends after so many
	MostTitleBytes  = 400             // of a reminder's title
	MostURLBytes    = 4 << 10         // of a reminder's URL
	MostImportBytes = 1 << 20         // of a text in a file (SPEC 4.5)
	MostTimeMs      = 253402300799999 // the end of the year 9999
)

// ErrDamaged says that a view is not what a server or a person writes: it is set aside whole (SPEC 3.2).
var ErrDamaged = errors.New("not what the server writes")

// FileConfig is what a config view says. A nil field is absent, or cannot be used and then stands in Problems.
type FileConfig struct {
	IntervalMs *int64
	Paused     *bool
	Mode       *string
	Message    *string
	Standing   *bool // these three are ours alone: absent is what they are without it, never nil
	Cleared    *bool
	Active     *string
	Extra      []byte
	Ref        ViewRef
	Problems   []string // the view is usable in part (SPEC 3.3); a sentence fragment each

	doubts []doubt
}

// Over is the settings c with what the file says laid over them.
func (f *FileConfig) Over(c Config) Config {
	override(&c.IntervalMs, f.IntervalMs)
	override(&c.Paused, f.Paused)
	override(&c.Mode, f.Mode)
	override(&c.Message, f.Message)
	override(&c.Standing, f.Standing)
	override(&c.Cleared, f.Cleared)
	override(&c.Active, f.Active)
	c.Extra = f.Extra
	return c
}

// Differences are what the file says otherwise than the settings c, a sentence fragment each.
func (f *FileConfig) Differences(c Config) []string {
	var all []string
	for _, d := range c.Changes(f.Over(c)) {
		if d.Name == othersChange {
			all = append(all, "members that are not the server's differ from those in the journal")
			continue
		}
		all = append(all, fmt.Sprintf("%s is %v, and the journal says %v", d.Name, d.To, d.From))
	}
	return all
}

// ConfigChange is one setting that differs; From and To are as the view has them, texts shortened.
type ConfigChange struct {
	Name, From, To string
}

// othersChange is the name for all members that are not ours together.
const othersChange = "other members"

// Changes are the settings that are otherwise in o.
func (c *Config) Changes(o Config) []ConfigChange {
	var all []ConfigChange
	differ := func(name string, from, to string) {
		if from != to {
			all = append(all, ConfigChange{name, from, to})
		}
	}
	differ("intervalSeconds", Length(c.IntervalMs).String(), Length(o.IntervalMs).String())
	differ("paused", strconv.FormatBool(c.Paused), strconv.FormatBool(o.Paused))
	differ("deliveryMode", c.Mode, o.Mode)
	differ("standing", strconv.FormatBool(c.Standing), strconv.FormatBool(o.Standing))
	differ("cleared", strconv.FormatBool(c.Cleared), strconv.FormatBool(o.Cleared))
	differ("activeHours", shortQuote(c.Active), shortQuote(o.Active))
	if c.Message != o.Message {
		all = append(all, ConfigChange{"message", shortQuote(c.Message), shortQuote(o.Message)})
	}
	if !bytes.Equal(c.Extra, o.Extra) {
		all = append(all, ConfigChange{othersChange, shorten(string(c.Extra)), shorten(string(o.Extra))})
	}
	return all
}

// FileReminders is what a reminders view says.
type FileReminders struct {
	Reminders []Reminder
	Index     uint64   // the newest journalIndex in it: the view showed that event's state; 0: it does not say
	Journals  []string // the journals that it names, by the beginnings of their identities: hardly ever more than one
	Problems  []string

	doubtful []doubtfulEntry
}

// ReadConfigView reads the bytes of a config view. An error wraps [ErrDamaged].
func ReadConfigView(data []byte) (FileConfig, error) {
	var f FileConfig
	text, mended := cleanText(data)
	if mended {
		f.Problems = append(f.Problems, mendedProblem)
	}
	members, err := objectMembers(text)
	if err != nil {
		return FileConfig{}, err
	}
	f.IntervalMs = field(&f.Problems, members, "intervalSeconds", func(raw json.RawMessage) (int64, error) {
		return lengthIn(raw, LeastIntervalMs)
	})
	f.Paused = field(&f.Problems, members, "paused", boolIn)
	f.Mode = field(&f.Problems, members, "deliveryMode", modeIn)
	f.Message = field(&f.Problems, members, "message", textIn)
	f.Standing = orZero(&f.Problems, members, "standing", boolIn)
	f.Cleared = orZero(&f.Problems, members, "cleared", boolIn)
	dropEmpty(members, "activeHours")
	f.Active = orZero(&f.Problems, members, "activeHours", hoursIn)
	if raw, ok := members["journal"]; ok {
		_ = json.Unmarshal(raw, &f.Ref) // ours, and only a hint: what is not in its shape says nothing
		delete(members, "journal")
	}
	f.doubts = slips(members, configMembers, data)
	f.Extra = objectOf(members)
	return f, nil
}

// FirstViewRef is what the first entry of a reminders view seems to name: the journal and the event; the zero value where it
// names none. It is a guess: the view is not read.
func FirstViewRef(data []byte) (ref ViewRef) {
	const near = MostImportBytes // an entry is hardly longer
	_, behind, _ := bytes.Cut(data[:min(len(data), near)], []byte(`"journalIndex": `))
	digits := bytes.IndexFunc(behind, func(r rune) bool { return r < '0' || r > '9' })
	index, err := strconv.ParseUint(string(behind[:max(0, digits)]), 10, 64)
	if err != nil {
		return ViewRef{}
	}
	if id, named := bytes.CutPrefix(behind[digits:], []byte(",\n    \"journalId\": \"")); named {
		id, _, _ = bytes.Cut(id, []byte(`"`))
		ref.ID = string(id)
	}
	ref.Index = index
	return ref
}

// ReadRemindersView reads the bytes of a reminders view; now stands in for a createdAt that is missing, zone (the agent's) for a
// calendar's timeZone. An error wraps [ErrDamaged].
func ReadRemindersView(data []byte, now int64, zone string) (FileReminders, error) {
	var f FileReminders
	text, mended := cleanText(data)
	if mended {
		f.Problems = append(f.Problems, mendedProblem)
	}
	if err := valid(text); err != nil {
		return FileReminders{}, damaged(text, "a JSON array", err)
	}
	seen := map[string]bool{}
	members := map[string]json.RawMessage{} // of one entry after the other
	i := 0
	isArray := rawjson.Items(text, func(raw json.RawMessage) {
		i++
		clear(members)
		r, said, err := readReminder(raw, members, now, zone)
		if err == nil && seen[r.ID] {
			err = fmt.Errorf("the id %s is there twice", shortQuote(r.ID))
		}
		if err != nil {
			f.Problems = append(f.Problems, fmt.Sprintf("entry %d: %v", i, err))
			return
		}
		seen[r.ID] = true
		f.Index = max(f.Index, said.ref.Index)
		if id := said.ref.ID; id != "" && !slices.Contains(f.Journals, id) {
			f.Journals = append(f.Journals, id)
		}
		if len(said.doubts) > 0 {
			f.doubtful = append(f.doubtful, doubtfulEntry{entry: i, id: r.ID, doubts: said.doubts})
		}
		f.Reminders = append(f.Reminders, r)
	})
	if !isArray {
		return FileReminders{}, damaged(text, "a JSON array", nil)
	}
	return f, nil
}

// saidOf is what an entry says beside its reminder.
type saidOf struct {
	ref    ViewRef
	doubts []doubt
}

func readReminder(raw json.RawMessage, members map[string]json.RawMessage, now int64, zone string) (r Reminder, said saidOf, err error) {
	if !rawjson.Each(raw, func(name []byte, value json.RawMessage) { members[string(name)] = value }) {
		return r, said, errors.New("not an object")
	}
	var problems []string
	id := field(&problems, members, "id", idIn)
	message := field(&problems, members, "message", textIn)
	times := timeReader{zone: zone}
	fireAt := field(&problems, members, "fireAt", times.in("fireAt"))
	createdAt := field(&problems, members, "createdAt", times.in("createdAt"))
	every := field(&problems, members, "everySeconds", func(raw json.RawMessage) (int64, error) {
		return lengthIn(raw, LeastEveryMs)
	})
	details := detailsOf(&problems, members, &times)
	said.ref = refIn(members)
	said.doubts = append(times.doubts, slips(members, entryMembers, raw)...)
	if fireAt != nil {
		checkSchedule(&problems, *fireAt, every != nil, &details)
	}
	for _, must := range []struct {
		name    string
		missing bool
	}{{"id", id == nil}, {"message", message == nil}, {"fireAt", fireAt == nil}} {
		if must.missing && !mentions(problems, must.name) {
			problems = append(problems, must.name+" is missing")
		}
	}
	if len(problems) > 0 {
		for _, d := range said.doubts { // it may be what is wrong
			problems = append(problems, d.text)
		}
		return r, said, errors.New(strings.Join(problems, "; "))
	}
	r = Reminder{ID: *id, Message: *message, FireAt: *fireAt, CreatedAt: now}
	if createdAt != nil {
		r.CreatedAt = *createdAt
	}
	if every != nil {
		r.EveryMs = *every
		r.Fixed = r.FireAt > now+r.EveryMs
	}
	details.Extra = objectOf(members)
	r.SetDetails(details)
	r.Fixed = r.Fixed || r.OnCalendar()
	return r, said, nil
}

// refIn takes out what an entry says of the journal: ours, and only a hint.
func refIn(members map[string]json.RawMessage) (ref ViewRef) {
	if raw, ok := members["journalIndex"]; ok {
		if n, err := strconv.ParseUint(string(raw), 10, 64); err == nil {
			ref.Index = n
		}
		delete(members, "journalIndex")
	}
	if raw, ok := members["journalId"]; ok {
		ref.ID, _ = rawjson.Text(raw)
		delete(members, "journalId")
	}
	return ref
}

// detailsOf takes the members that only some entries have. One that is absent or null says nothing, nor does an empty text.
func detailsOf(problems *[]string, members map[string]json.RawMessage, times *timeReader) journal.Details {
	dropEmpty(members, "title", "severity", "url", "cron", "repeats", "timeZone")
	d := journal.Details{
		Title:    own(problems, members, "title", titleIn),
		Severity: own(problems, members, "severity", severityIn),
		URL:      own(problems, members, "url", urlIn),
		Until:    own(problems, members, "until", times.until),
		Left:     own(problems, members, "remaining", countIn),
		Cron:     Cron(own(problems, members, "cron", textIn)),
		Repeats:  own(problems, members, "repeats", ruleIn),
	}
	if d.Repeats != "" { // without it, from is none of ours
		d.From = own(problems, members, "from", wallIn)
	}
	if d.Cron != "" || d.Repeats != "" { // without one a timeZone is none of ours
		if d.Zone = times.zone; members["timeZone"] != nil && string(members["timeZone"]) != "null" {
			d.Zone = own(problems, members, "timeZone", textIn)
		}
		delete(members, "timeZone")
	}
	return d
}

// checkSchedule finds what contradicts itself in when an entry comes.
func checkSchedule(problems *[]string, fireAt int64, repeats bool, d *journal.Details) {
	add := func(format string, v ...any) { *problems = append(*problems, fmt.Sprintf(format, v...)) }
	switch {
	case d.Cron != "" && repeats:
		add("cron contradicts everySeconds")
	case d.Repeats != "" && (repeats || d.Cron != ""):
		add("repeats contradicts everySeconds and cron")
	case d.Repeats != "" && d.Zone != "":
		checkRule(problems, fireAt, d)
	case d.Cron != "" && d.Zone != "": // without one it was no text
		if _, err := NextCron(d.Cron, d.Zone, fireAt); err != nil {
			add("cron %s in the zone %s: %v", shortQuote(d.Cron), shortQuote(d.Zone), err)
		}
	}
	if d.Until > 0 && fireAt > d.Until {
		add("until is before fireAt")
	}
	if (d.Until > 0 || d.Left > 0) && !repeats && d.Cron == "" && d.Repeats == "" {
		add("until and remaining end what repeats, by everySeconds, repeats or cron")
	}
}

// checkRule has a rule count from when the entry comes, where it does not say from when.
func checkRule(problems *[]string, fireAt int64, d *journal.Details) {
	zone, err := loadZone(d.Zone)
	if err != nil {
		*problems = append(*problems, fmt.Sprintf("timeZone %v", err))
		return
	}
	if d.From == "" {
		d.From = RuleFrom(WallOf(fireAt, zone))
	}
}

// dropEmpty takes members out that are an empty text.
func dropEmpty(members map[string]json.RawMessage, names ...string) {
	for _, name := range names {
		if string(members[name]) == `""` {
			delete(members, name)
		}
	}
}

// own is field for a member of ours that has a zero value without it.
func own[T any](problems *[]string, members map[string]json.RawMessage, name string, read func(json.RawMessage) (T, error)) (value T) {
	if v := field(problems, members, name, read); v != nil {
		value = *v
	}
	return value
}

// orZero is own where what cannot be used is nil, as nothing else is.
func orZero[T any](problems *[]string, members map[string]json.RawMessage, name string, read func(json.RawMessage) (T, error)) *T {
	before := len(*problems)
	value := own(problems, members, name, read)
	if len(*problems) > before {
		return nil
	}
	return &value
}

func mentions(problems []string, name string) bool {
	for _, p := range problems {
		if strings.HasPrefix(p, name+" ") {
			return true
		}
	}
	return false
}

const mendedProblem = "bytes that are not UTF-8 are read as U+FFFD"

// cleanText is the file's text with a byte order mark taken off and bytes that are not UTF-8 replaced (SPEC 3.3).
func cleanText(data []byte) (text []byte, mended bool) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if utf8.Valid(data) {
		return data, false
	}
	return bytes.ToValidUTF8(data, []byte("\ufffd")), true
}

// field takes one member out of members and reads it; null and absent are nil, what cannot be used is a problem.
func field[T any](problems *[]string, members map[string]json.RawMessage, name string, read func(json.RawMessage) (T, error)) *T {
	raw, ok := members[name]
	delete(members, name)
	if !ok || string(raw) == "null" {
		return nil
	}
	v, err := read(raw)
	if err != nil {
		*problems = append(*problems, name+" "+err.Error())
		return nil
	}
	return &v
}

func objectMembers(text []byte) (map[string]json.RawMessage, error) {
	if err := valid(text); err != nil {
		return nil, damaged(text, "a JSON object", err)
	}
	members := map[string]json.RawMessage{}
	if !rawjson.Each(text, func(name []byte, value json.RawMessage) { members[string(name)] = value }) {
		return nil, damaged(text, "a JSON object", nil)
	}
	return members, nil
}

// valid says why a text is not JSON.
func valid(text []byte) error {
	if json.Valid(text) {
		return nil
	}
	var v any
	return json.Unmarshal(text, &v)
}

// damaged is the error for a text that is not JSON, for the reason given, or that is something else than it should be.
func damaged(text []byte, want string, notJSON error) error {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return fmt.Errorf("%w: it is empty", ErrDamaged)
	case notJSON != nil:
		return fmt.Errorf("%w: not JSON (%w)", ErrDamaged, notJSON)
	case string(bytes.TrimSpace(text)) == "null":
		return fmt.Errorf("%w: null, not %s", ErrDamaged, want)
	}
	return fmt.Errorf("%w: not %s", ErrDamaged, want)
}

// objectOf is members as a JSON object in a canonical order; nil for none.
func objectOf(members map[string]json.RawMessage) []byte {
	if len(members) == 0 {
		return nil
	}
	object, err := rawjson.Append(nil, members)
	if err != nil {
		return nil // the values were parsed a moment ago
	}
	return object
}

func numberIn(raw json.RawMessage) (float64, error) {
	if len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') {
		if n, err := strconv.ParseFloat(string(raw), 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("is no number (%s)", shortRaw(raw))
}

func lengthIn(raw json.RawMessage, least int64) (int64, error) {
	n, err := numberIn(raw)
	if err != nil {
		return 0, err
	}
	ms := math.Round(n * 1000)
	if ms < float64(least) || ms > MostLengthMs {
		return 0, fmt.Errorf("is out of range (%s; at least %d)", shortRaw(raw), least/1000)
	}
	return int64(ms), nil
}

func boolIn(raw json.RawMessage) (bool, error) {
	var b bool
	if err := json.Unmarshal(raw, &b); err != nil {
		return false, fmt.Errorf("is neither true nor false (%s)", shortRaw(raw))
	}
	return b, nil
}

func hoursIn(raw json.RawMessage) (string, error) {
	text, err := textIn(raw)
	if err == nil {
		if _, err = ParseHours(text); err != nil {
			err = fmt.Errorf("%s: %w", shortQuote(text), err)
		}
	}
	return text, err
}

func ruleIn(raw json.RawMessage) (string, error) {
	text, err := textIn(raw)
	if err != nil {
		return "", err
	}
	rule, isRule, err := ParseRule(text)
	if !isRule {
		err = errNoRule
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", shortQuote(text), err)
	}
	return rule, nil
}

func wallIn(raw json.RawMessage) (string, error) {
	text, err := textIn(raw)
	if err != nil {
		return "", err
	}
	wall, err := time.ParseInLocation(wallForm, text, time.UTC)
	if err != nil {
		return "", fmt.Errorf("is no time such as 2026-10-10T09:00:00 (%s)", shortQuote(text))
	}
	return RuleFrom(wall), nil
}

func titleIn(raw json.RawMessage) (string, error) {
	text, err := textIn(raw)
	if err == nil && len(text) > MostTitleBytes {
		err = fmt.Errorf("is longer than %d bytes", MostTitleBytes)
	}
	return text, err
}

func severityIn(raw json.RawMessage) (string, error) {
	switch text, _ := rawjson.Text(raw); text {
	case SeverityHigh:
		return text, nil
	case "normal":
		return "", nil
	}
	return "", fmt.Errorf("is neither \"high\" nor \"normal\" (%s)", shortRaw(raw))
}

func urlIn(raw json.RawMessage) (string, error) {
	text, err := textIn(raw)
	if err == nil && !IsWebURL(text) {
		err = fmt.Errorf("is no absolute http or https URL (%s)", shortRaw(raw))
	}
	return text, err
}

func countIn(raw json.RawMessage) (int, error) {
	n, err := numberIn(raw)
	if err == nil && (n != math.Trunc(n) || n < 1 || n > MostCount) {
		err = fmt.Errorf("is no whole number from 1 to %d (%s)", MostCount, shortRaw(raw))
	}
	return int(n), err
}

func modeIn(raw json.RawMessage) (string, error) {
	var mode string
	if err := json.Unmarshal(raw, &mode); err != nil || (mode != ModeMessage && mode != ModeSilent) {
		return "", fmt.Errorf("is neither \"message\" nor \"silent\" (%s)", shortRaw(raw))
	}
	return mode, nil
}

func textIn(raw json.RawMessage) (string, error) {
	text, isText := rawjson.Text(raw)
	if !isText {
		return "", fmt.Errorf("is no text (%s)", shortRaw(raw))
	}
	if strings.TrimFunc(text, unicode.IsSpace) == "" {
		return "", errors.New("is blank")
	}
	if len(text) > MostImportBytes {
		return "", fmt.Errorf("is longer than %d bytes", MostImportBytes)
	}
	return text, nil
}

func idIn(raw json.RawMessage) (string, error) {
	id, err := textIn(raw)
	if err == nil && len(id) > 256 {
		err = errors.New("is longer than 256 bytes")
	}
	return id, err
}

func shortRaw(raw json.RawMessage) string { return shorten(string(raw)) }

func shortQuote(text string) string { return string(quote(shorten(text))) }

func shorten(text string) string {
	const most = 40
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "..."
}
