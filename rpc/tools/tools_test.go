package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"
)

// monday is the time that the tests have.
var monday = time.Date(2026, 12, 7, 8, 12, 13, 0, time.UTC)

// parse runs a tool's parser and gives its outcome as one text: "ok", the notes, or the problems.
func parse(tool, arguments string) string {
	var notes []string
	var err error
	raw := json.RawMessage(arguments)
	switch tool {
	case "heartbeat_configure":
		_, notes, err = ParseConfigure(raw)
	case "reminder_add":
		_, notes, err = ParseAdd(raw, monday, time.UTC)
	case "reminder_cancel":
		_, notes, err = ParseCancel(raw)
	case "reminder_list":
		_, notes, err = ParseList(raw)
	default:
		notes, err = ParseNone(tool, raw)
	}
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return "refused: " + strings.TrimSuffix(strings.TrimPrefix(err.Error(), tool+" was refused, and nothing was changed: "), ".")
	case err != nil:
		return err.Error()
	case len(notes) > 0:
		return "noted: " + strings.Join(notes, " ")
	}
	return "ok"
}

const (
	configureTakes = "heartbeat_configure takes intervalSeconds, intervalMinutes, intervalHours, every, paused, deliveryMode, message, activeHours"
	addTakes       = "reminder_add takes message, inSeconds, inMinutes, inHours, atIso, everySeconds, everyMinutes, everyHours, in, every, cron, timeZone, until, count, title, severity, url"
)

func TestEachCallIsAppliedOrRefusedWhole(t *testing.T) {
	for _, c := range []struct{ name, tool, arguments, want string }{
		{"nothing to configure", "heartbeat_configure", `{}`, "ok"},
		{"no arguments at all", "heartbeat_configure", ``, "ok"},
		{"null arguments", "heartbeat_status", `null`, "ok"},
		{"an array", "heartbeat_status", `[]`, "arguments must be an object"},
		{"units are added before the sum is checked", "heartbeat_configure", `{"intervalSeconds":30,"intervalMinutes":0.5}`, "ok"},
		{"a sum below the least", "heartbeat_configure", `{"intervalSeconds":30,"intervalMinutes":0.4}`,
			"refused: intervalSeconds + intervalMinutes must be 60 seconds or more, and is 54"},
		{"zero", "heartbeat_configure", `{"intervalHours":0}`, "refused: intervalHours must be 60 seconds or more, and is 0"},
		{"a negative unit", "heartbeat_configure", `{"intervalHours":2,"intervalMinutes":-1}`, "refused: intervalMinutes must be 0 or more, and is -1"},
		{"a length as one text", "heartbeat_configure", `{"every":"1h30m"}`, "ok"},
		{"a length in two forms", "heartbeat_configure", `{"every":"10m","intervalMinutes":10}`, "refused: every and intervalMinutes contradict each other: give one of them"},
		{"a length that is none", "heartbeat_configure", `{"every":"soon"}`, `refused: every "soon": give a number with its unit, such as 90s, 10m, 2h, 1d, 1.5h or 1h30m`},
		{"a length that is short", "heartbeat_configure", `{"every":"45s"}`, "refused: every must be 60 seconds or more, and is 45"},
		{"a length as a number", "heartbeat_configure", `{"every":90}`, "refused: every must be a text such as 10m, not a number (90)"},
		{"active hours", "heartbeat_configure", `{"activeHours":"22:00-06:30"}`, "ok"},
		{"at any hour", "heartbeat_configure", `{"activeHours":"always"}`, "ok"},
		{"active hours that are none", "heartbeat_configure", `{"activeHours":"8-22"}`, `refused: activeHours "8-22": give hours such as 08:00-22:30, or always`},
		{"a delay as one text", "reminder_add", `{"message":"x","in":"10 min"}`, "ok"},
		{"a delay in two forms", "reminder_add", `{"message":"x","in":"10m","inHours":1}`, "refused: in and inHours contradict each other: give one of them"},
		{"a calendar", "reminder_add", `{"message":"x","cron":"0 9 * * 1-5","timeZone":"Europe/Berlin","count":5}`, "ok"},
		{"a calendar and a delay", "reminder_add", `{"message":"x","cron":"0 9 * * *","in":"5m"}`, "ok"},
		{"a calendar and an interval", "reminder_add", `{"message":"x","cron":"0 9 * * *","every":"1h"}`, "refused: cron and an interval (every) contradict each other: give one of them"},
		{"a calendar that has a name", "reminder_add", `{"message":"x","cron":"@daily"}`, "ok"},
		{"a calendar that is none", "reminder_add", `{"message":"x","cron":"@never"}`, `refused: cron "@never": give five fields, each in its range: minute (0-59), hour (0-23), day of the month (1-31, L), month (1-12), day of the week (0-6, SUN-SAT, 1#1, 5L), such as 0 9 * * 1-5, or @daily`},
		{"a zone that is none", "reminder_add", `{"message":"x","cron":"0 9 * * *","timeZone":"Mars/Olympus"}`, `refused: timeZone "Mars/Olympus" is no time zone: give an IANA name such as Europe/Berlin`},
		{"a zone without a calendar", "reminder_add", `{"message":"x","in":"5m","timeZone":"UTC"}`, "ok"},
		{"an end of what does not repeat", "reminder_add", `{"message":"x","in":"5m","count":2}`, "refused: until and count end a recurring reminder: give an interval or cron, too"},
		{"one name with two values", "heartbeat_configure", `{"paused":true,"paused":false}`, "refused: paused was given twice, with different values"},
		{"one name twice, with null", "heartbeat_configure", `{"paused":true,"paused":null}`, "ok"},
		{"numbers and bools as texts", "heartbeat_configure", `{"intervalMinutes":"20","intervalSeconds":"1.5","paused":"false"}`, "ok"},
		{"a whole number as a text", "reminder_list", `{"limit":"5"}`, "ok"},
		{"a list in a text", "reminder_cancel", `{"ids":"[\"rem_a\", \"rem_b\"]"}`, "ok"},
		{"one bare text for a list", "reminder_cancel", `{"ids":"rem_a"}`, "ok"},
		{"a number as a text that is out of range", "heartbeat_configure", `{"intervalMinutes":"-20"}`, "refused: intervalMinutes must be 0 or more, and is -20"},
		{"a number with its unit", "heartbeat_configure", `{"intervalMinutes":"20 min"}`, `refused: intervalMinutes must be a number, not a text ("20 min")`},
		{"an exponent in a text", "heartbeat_configure", `{"intervalMinutes":"2e1"}`, `refused: intervalMinutes must be a number, not a text ("2e1")`},
		{"no number at all", "heartbeat_configure", `{"intervalMinutes":""}`, `refused: intervalMinutes must be a number, not a text ("")`},
		{"a bool for a number", "heartbeat_configure", `{"intervalMinutes":true}`, `refused: intervalMinutes must be a number, not a bool (true)`},
		{"a number for a bool", "heartbeat_configure", `{"paused":1}`, `refused: paused must be true or false, not a number (1)`},
		{"a word for a bool", "heartbeat_configure", `{"paused":"yes"}`, `refused: paused must be true or false, not a text ("yes")`},
		{"a blank for a list", "reminder_cancel", `{"ids":" "}`, `refused: ids must be an array of texts, not a text (" ")`},
		{"a list of other things in a text", "reminder_cancel", `{"ids":"[1]"}`, `refused: ids must hold texts alone`},
		{"a bool for a number", "heartbeat_configure", `{"intervalSeconds":true}`, `refused: intervalSeconds must be a number, not a bool (true)`},
		{"a number for a bool", "heartbeat_configure", `{"paused":1}`, `refused: paused must be true or false, not a number (1)`},
		{"an infinite number", "heartbeat_configure", `{"intervalSeconds":1e400}`, `refused: intervalSeconds is out of range (1e400)`},
		{"more than a century", "heartbeat_configure", `{"intervalHours":1e300}`, `refused: intervalHours must be 100 years (36525 days) or less`},
		{"a mode that is none", "heartbeat_configure", `{"deliveryMode":"Silent"}`, `refused: deliveryMode must be one of "message" and "silent", not "Silent"`},
		{"a blank message", "heartbeat_configure", `{"message":" \u200b\n"}`, "refused: message must not be blank"},
		{"half a surrogate pair", "heartbeat_configure", `{"message":"x\ud800"}`, "refused: message holds half of a surrogate pair, which is no valid text"},
		{"a whole one", "heartbeat_configure", `{"message":"x\ud83d\ude00"}`, "ok"},
		{"a backslash before a u is no escape", "heartbeat_configure", `{"message":"C:\\udata"}`, "ok"},
		{"every problem at once", "heartbeat_configure", `{"intervalSeconds":"x","paused":"no","deliveryMode":7,"message":""}`,
			`refused: intervalSeconds must be a number, not a text ("x"); paused must be true or false, not a text ("no"); deliveryMode must be one of "message" and "silent", not a number (7); message must not be blank`},
		{"another tool's argument", "heartbeat_configure", `{"everySeconds":60,"paused":true}`,
			"refused: everySeconds is no argument of heartbeat_configure but of reminder_add; did you mean every"},
		{"null counts as not given, and is said", "heartbeat_configure", `{"paused":null}`, "noted: paused was null, which counts as not given."},
		{"null beside a value of that name is not said", "heartbeat_configure", `{"paused":null,"paused":true}`, "ok"},
		{"a slip by case", "heartbeat_configure", `{"Paused":true}`, "refused: Paused is no argument of heartbeat_configure; did you mean paused"},
		{"a slip by separators", "heartbeat_configure", `{"delivery_mode":"silent"}`, "refused: delivery_mode is no argument of heartbeat_configure; did you mean deliveryMode"},
		{"a slip by a letter", "heartbeat_configure", `{"mesage":"x"}`, "refused: mesage is no argument of heartbeat_configure; did you mean message"},
		{"a slip by swapped letters", "heartbeat_configure", `{"puased":true}`, "refused: puased is no argument of heartbeat_configure; did you mean paused"},
		{"a part of a name", "heartbeat_configure", `{"mode":"silent"}`, "refused: mode is no argument of heartbeat_configure; did you mean deliveryMode"},
		{"a part of several names", "heartbeat_configure", `{"interval":60}`,
			"refused: interval is no argument of heartbeat_configure; did you mean every"},
		{"a name that holds one", "heartbeat_configure", `{"heartbeatIntervalMinutes":5}`,
			"refused: heartbeatIntervalMinutes is no argument of heartbeat_configure; did you mean intervalMinutes"},
		{"not one that was sent", "heartbeat_configure", `{"paused":true,"pausedReason":"x"}`, "noted: Ignored: pausedReason; " + configureTakes + "."},
		{"but another one in it", "heartbeat_configure", `{"paused":true,"pausedMessage":"x"}`,
			"refused: pausedMessage is no argument of heartbeat_configure; did you mean message"},
		{"sent as null is not sent", "heartbeat_configure", `{"paused":null,"pausedReason":"x"}`,
			"refused: pausedReason is no argument of heartbeat_configure; did you mean paused"},
		{"any other name is ignored", "heartbeat_configure", `{"paused":true,"colour":"red"}`, "noted: Ignored: colour; " + configureTakes + "."},
		{"unless there is nothing else", "heartbeat_configure", `{"colour":"red"}`,
			"refused: it was given nothing that it takes (colour), and " + configureTakes},
		{"two letters are no part", "heartbeat_configure", `{"paused":true,"me":"x"}`, "noted: Ignored: me; " + configureTakes + "."},
		{"a tool without arguments ignores a name", "heartbeat_status", `{"verbose":true}`, "noted: Ignored: verbose; heartbeat_status takes no arguments."},
		{"but not another tool's", "reminder_list", `{"id":"rem_x"}`, "refused: id is no argument of reminder_list but of reminder_cancel (reminder_list takes limit, after, contains)"},
		{"a page of nothing", "reminder_list", `{"limit":0}`, "refused: limit must be a whole number from 1 to 10000, and is 0"},
		{"a reminder without a message", "reminder_add", `{"inHours":1}`, "refused: message is missing"},
		{"a reminder without a time", "reminder_add", `{"message":"x"}`,
			"refused: it does not say when: give a delay (in, inSeconds, inMinutes, inHours), or atIso, or an interval (every, everySeconds, everyMinutes, everyHours), or cron"},
		{"a name that is none where one is missing", "reminder_add", `{"message":"x","colour":"red"}`,
			"refused: it does not say when: give a delay (in, inSeconds, inMinutes, inHours), or atIso, or an interval (every, everySeconds, everyMinutes, everyHours), or cron. Ignored: colour; " + addTakes},
		{"models' names for ours", "reminder_add", `{"text":"x","at":"15:00","tz":"Asia/Tokyo","repeat":"1 day"}`,
			"refused: text is no argument of reminder_add; did you mean message; at is no argument of reminder_add; did you mean atIso; " +
				"tz is no argument of reminder_add; did you mean timeZone; repeat is no argument of reminder_add; did you mean every"},
		{"such a name beside what it means", "reminder_add", `{"message":"x","in":"1h","Start-At":"15:00"}`, "refused: Start-At is no argument of reminder_add; did you mean atIso"},
		{"a zone's name that is also a part of another", "reminder_add", `{"message":"x","time":"15:00"}`, "refused: time is no argument of reminder_add; did you mean atIso"},
		{"such a name of what the tool does not take", "reminder_list", `{"delay":"1h"}`, "noted: Ignored: delay; reminder_list takes limit, after, contains."},
		{"a rule", "reminder_add", `{"message":"x","every":"2 weeks","atIso":"thu 15:00"}`, "ok"},
		{"a rule in two forms", "reminder_add", `{"message":"x","every":"1 day","everyHours":1}`, "refused: every and everyHours contradict each other: give one of them"},
		{"a rule of nothing", "reminder_add", `{"message":"x","every":"0 days"}`, `refused: every "0 days": give 1 to 36525 days`},
		{"a rule longer than a century", "reminder_add", `{"message":"x","every":"101 years"}`, `refused: every "101 years": give 1 to 100 years`},
		{"a part of a month", "reminder_add", `{"message":"x","every":"1.5 months"}`, `refused: every "1.5 months": "months" is no unit of time; give a number with its unit, such as 90s, 10m, 2h, 1d, 1.5h or 1h30m`},
		{"days in hours", "reminder_add", `{"message":"x","everyHours":"24"}`,
			`noted: everyHours counts elapsed hours: when the clocks change it comes at another time of day. every: "1 day" keeps the time of day.`},
		{"a time that is none", "reminder_add", `{"message":"x","atIso":"donnerstag 15:00"}`, `refused: atIso "donnerstag 15:00": give a time such as 2026-12-10T15:00 or thu 15:00, or in 2h`},
		{"nothing at all", "reminder_add", `{}`,
			"refused: message is missing; it does not say when: give a delay (in, inSeconds, inMinutes, inHours), or atIso, or an interval (every, everySeconds, everyMinutes, everyHours), or cron"},
		{"a delay of zero", "reminder_add", `{"message":"x","inSeconds":0}`, "ok"},
		{"a delay with a time", "reminder_add", `{"message":"x","inHours":1,"inMinutes":1,"atIso":"2026-10-10"}`,
			"refused: a delay (inMinutes, inHours) and atIso contradict each other: give one of them"},
		{"an interval with a delay", "reminder_add", `{"message":"x","inHours":1,"everyHours":1}`, "ok"},
		{"an interval with a time", "reminder_add", `{"message":"x","atIso":"2026-10-10","everyHours":1}`, "ok"},
		{"an interval below five seconds", "reminder_add", `{"message":"x","everySeconds":4.999}`,
			"refused: everySeconds must be 5 seconds or more, and is 4.999"},
		{"a day that does not exist", "reminder_add", `{"message":"x","atIso":"2026-02-30"}`, `refused: atIso "2026-02-30": there is no day 2026-02-30`},
		{"a slip tells what is missing", "reminder_add", `{"message":"x","everySecond":60}`,
			"refused: everySecond is no argument of reminder_add; did you mean everySeconds or every"},
		{"a name and its owner and what was meant", "reminder_add", `{"message":"x","inSeconds":1,"intervalSeconds":60}`,
			"refused: intervalSeconds is no argument of reminder_add but of heartbeat_configure (" + addTakes + ")"},
		{"no id", "reminder_cancel", `{}`, "refused: id is missing"},
		{"an id by another name", "reminder_cancel", `{"ID":"rem_x"}`, "refused: ID is no argument of reminder_cancel; did you mean id"},
		{"an id that is a number", "reminder_cancel", `{"id":7}`, "refused: id must be a text, not a number (7)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := parse(c.tool, c.arguments); got != c.want {
				t.Errorf("%s %s:\n got %s\nwant %s", c.tool, c.arguments, got, c.want)
			}
		})
	}
}

func TestTextsMayHave64KiB(t *testing.T) {
	for _, c := range []struct {
		n    int
		want string
	}{{64 << 10, "ok"}, {64<<10 + 1, "refused: message may have 65536 bytes at most, and has 65537"}} {
		arguments := fmt.Sprintf(`{"inHours":1,"message":%q}`, strings.Repeat("x", c.n))
		if got := parse("reminder_add", arguments); got != c.want {
			t.Errorf("%d bytes: %s", c.n, got)
		}
	}
}

func TestLengthsAreKeptToTheMillisecond(t *testing.T) {
	a, _, err := ParseAdd(json.RawMessage(`{"message":"x","inMinutes":0.1,"inSeconds":0.0015,"everyHours":0.1}`), monday, time.UTC)
	if err != nil || *a.DelayMs != 6002 || *a.EveryMs != 360_000 {
		t.Fatalf("got %v %v, %v", *a.DelayMs, *a.EveryMs, err)
	}
}

func TestParseTime(t *testing.T) {
	la, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"RFC 3339", "2026-10-10T08:02:36-07:00", "2026-10-10T15:02:36Z"},
		{"a long fraction", "2026-10-10T08:02:36.78900000000009Z", "2026-10-10T08:02:36.789Z"},
		{"a fraction", "2026-10-10T08:02:36.789Z", "2026-10-10T08:02:36.789Z"},
		{"a comma", "2026-10-10T08:02:36,5Z", "2026-10-10T08:02:36.5Z"},
		{"small letters", "2026-10-10t08:02:36z", "2026-10-10T08:02:36Z"},
		{"without seconds", "2026-10-10T08:02+0200", "2026-10-10T06:02:00Z"},
		{"an offset in hours", "2026-10-10T08:02-07", "2026-10-10T15:02:00Z"},
		{"without an offset it is in the zone", "2026-10-10T08:02:36", "2026-10-10T15:02:36Z"},
		{"a blank for the T", "2026-10-10 08:02", "2026-10-10T15:02:00Z"},
		{"a day alone is its midnight", "2026-12-01", "2026-12-01T08:00:00Z"},
		{"basic form", "20261010T080236Z", "2026-10-10T08:02:36Z"},
		{"24:00 is the next midnight", "2026-12-01T24:00", "2026-12-02T08:00:00Z"},
		{"as this server prints it", "2026-10-10T08:02:36-07:00 [America/Los_Angeles]", "2026-10-10T15:02:36Z"},
		{"a zone in brackets", "2026-10-10T08:02[Europe/Berlin]", "2026-10-10T06:02:00Z"},
		{"in a gap it moves forward by the gap", "2026-03-08T02:30", "2026-03-08T10:30:00Z"}, // 03:30 PDT
		{"right before the gap", "2026-03-08T01:59:59", "2026-03-08T09:59:59Z"},
		{"right after it", "2026-03-08T03:00", "2026-03-08T10:00:00Z"},
		{"in an overlap it is the earlier", "2026-11-01T01:30", "2026-11-01T08:30:00Z"},
		{"after the overlap", "2026-11-01T02:00", "2026-11-01T10:00:00Z"},
		{"a leap day", "2028-02-29", "2028-02-29T08:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseWhen(c.text, monday, la)
			if err != nil || got.At.UTC().Format(time.RFC3339Nano) != c.want {
				t.Errorf("%s: got %s, %v, want %s", c.text, got.At.UTC().Format(time.RFC3339Nano), err, c.want)
			}
		})
	}
	for _, text := range []string{
		"", "tomorrow", "2026-02-30", "2026-02-29T00:00", "2026-13-01", "2026-00-10", "2026-10-10T25:00", "2026-10-10T24:01", "2026-10-10T08:60",
		"2026-10-10T08:02:60Z", "2026-10-10T08:02:36+24:00", "0000-01-01", "2026-1-1", "10/10/2026", "2026-1010", "2026-10-10T0802:36",
		"2026-10-10T08:02 [Mars/Olympus]", "2026-10-10T08:02:36+01:00 [America/Los_Angeles]", "9999-12-31T23:59:59-01:00", "1760000000", strings.Repeat("2", 1000),
	} {
		if at, err := ParseWhen(text, monday, la); err == nil {
			t.Errorf("%q is %v", text, at)
		}
	}
}

func TestEveryOneLetterSlipOfALongNameIsRefused(t *testing.T) {
	tool := Find("reminder_add")
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom(tool.Args).Draw(t, "argument")
		if len(a.Name) < 3 {
			t.Skip("a name of two letters has no slips")
		}
		at := rapid.IntRange(0, len(a.Name)-1).Draw(t, "at")
		letter := rapid.StringMatching(`[a-z]`).Draw(t, "letter")
		name := a.Name[:at] + letter + a.Name[at+rapid.IntRange(0, 1).Draw(t, "replace"):]
		if tool.arg(name) != nil {
			t.Skip("no slip but another argument")
		}
		got := parse("reminder_add", fmt.Sprintf(`{"message":"x","inSeconds":1,%q:1}`, name))
		if !strings.HasPrefix(got, "refused: ") || !strings.Contains(got, a.Name) {
			t.Fatalf("%s: %s", name, got)
		}
	})
}

func resolved(t *testing.T, raw json.RawMessage) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSchemaAndValidationAgree: what the schema refuses is refused, and what is refused for its type or range alone is
// refused by the schema. A number that comes as a text is taken all the same (SPEC 4.5).
func TestSchemaAndValidationAgree(t *testing.T) {
	schema := resolved(t, Find("heartbeat_configure").InputSchema())
	value := rapid.OneOf(
		rapid.Map(rapid.Float64Range(-10, 1e7), func(f float64) any { return f }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.SampledFrom([]any{"message", "silent", "x", "60 of them", []any{}, map[string]any{}}),
	)
	rapid.Check(t, func(t *rapid.T) {
		arguments := map[string]any{}
		for _, a := range Find("heartbeat_configure").Args {
			if rapid.Bool().Draw(t, a.Name) {
				arguments[a.Name] = value.Draw(t, a.Name+"'s value")
			}
		}
		raw, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		got := parse("heartbeat_configure", string(raw))
		valid := schema.Validate(arguments) == nil
		if !valid && !strings.HasPrefix(got, "refused") {
			t.Fatalf("%s is not valid but %s", raw, got)
		}
		beyondSchemas := []string{"60 seconds or more", "100 years", "give a number with its unit", "give hours such as", "contradict each other"}
		if valid && strings.HasPrefix(got, "refused") && !slices.ContainsFunc(beyondSchemas, func(s string) bool { return strings.Contains(got, s) }) {
			t.Fatalf("%s is valid but %s", raw, got)
		}
	})
}

func TestTableIsComplete(t *testing.T) {
	size, outputs := 0, 0
	for _, tool := range All() {
		resolved(t, tool.InputSchema())
		resolved(t, tool.OutputSchema())
		size += len(tool.Name) + len(tool.Description) + len(tool.InputSchema())
		outputs += len(tool.OutputSchema())
		if tool.Title == "" || tool.Description == "" {
			t.Errorf("%s lacks a title or a description", tool.Name)
		}
		for _, a := range tool.Args {
			if a.Description == "" {
				t.Errorf("%s.%s lacks a description", tool.Name, a.Name)
			}
		}
	}
	if size >= 13_000 || size+outputs >= 28_000 { // models read it with each request
		t.Errorf("names, descriptions and input schemas have %d characters, with output schemas %d", size, size+outputs)
	}
	if got := Nearest("remind_add"); got != "reminder_add" {
		t.Errorf("the nearest of remind_add is %s", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("reminder_add", `{"message":"x","inSeconds":1}`)
	f.Add("heartbeat_configure", `{"a":{"b":[null]},"message":"\ud800"}`)
	f.Fuzz(func(t *testing.T, tool, arguments string) {
		if Find(tool) == nil || !json.Valid([]byte(arguments)) {
			return
		}
		if got := parse(tool, arguments); got == "" {
			t.Fatal("no outcome")
		}
	})
}

func FuzzParseTime(f *testing.F) {
	f.Add("2026-10-10T08:02:36.789-07:00 [America/Los_Angeles]")
	f.Fuzz(func(t *testing.T, text string) {
		at, err := ParseWhen(text, monday, time.UTC)
		if err == nil && (at.At.Year() < 0 || at.At.Year() > 9999) {
			t.Fatalf("%q is %v", text, at)
		}
	})
}
