package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"heartbeat-mcpl/projection"
)

// hostile are texts that take other room than they have characters, or that would act on a terminal, a page or a spreadsheet.
var hostile = []string{
	"買い物：牛乳、卵、パン、それから庭の花に水をやるのを忘れないでください、よろしくお願いします", "👩‍👩‍👧‍👦 family dinner 🍝🍝🍝🍝🍝🍝🍝🍝🍝🍝🍝🍝🍝🍝🍝🍝🍝🍝", "e\u0301e\u0301e\u0301 combining", "שלום, תתקשר לרופא",
	"two\nlines\tand a tab", "\x1b[31mred\x1b[0m \u202e turned", strings.Repeat("long ", 100), `=cmd|' /C calc'!A0`, "",
	`</script><script>document.title = "owned"</script>`, `<img src="http://127.0.0.1:9/x.png" onerror="document.title='owned'">`,
}

func printed(t *testing.T, u ui, a *audit, width int) string {
	t.Helper()
	var b strings.Builder
	u.out = &b
	if err := printAudit(u, a, width); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// part is what stands below a title.
func part(t *testing.T, text, title string) []string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\n"+title+"\n")
	if !ok {
		t.Fatalf("no part %q in:\n%s", title, text)
	}
	lines, _, _ := strings.Cut(rest, "\n\n")
	return strings.Split(strings.TrimSuffix(lines, "\n"), "\n")
}

// columnOf is the display column at which a text begins in a line; -1: it is not there.
func columnOf(line, text string) int {
	before, _, ok := strings.Cut(line, text)
	if !ok {
		return -1
	}
	return uniseg.StringWidth(before)
}

func TestTheAuditKeepsItsColumnsAtAnyWidth(t *testing.T) {
	a := scene(t, hostile...)
	for _, width := range []int{40, 60, 80, 120, 200} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			text := printed(t, ui{}, a, width)
			if strings.ContainsAny(text, "\x1b\u202e\t") {
				t.Error("a text acts on the terminal")
			}
			timeline, reminders := part(t, text, "Timeline"), part(t, text, "Reminders")
			start := columnOf(timeline[0], "|")
			rows := 0
			for _, line := range timeline {
				if !strings.ContainsAny(line, "●·") || strings.Contains(line, "taken") {
					continue
				}
				rows++
				if w := uniseg.StringWidth(line); w > width || w != uniseg.StringWidth(timeline[0]) || columnOf(line, "  "+firstMark(line)) != start-2 {
					t.Errorf("%d columns, marks from %d on, want %d: %s", w, columnOf(line, "  "+firstMark(line))+2, start, line)
				}
			}
			if rows != 7+len(hostile) {
				t.Errorf("%d rows of marks, want %d", rows, 7+len(hostile))
			}
			if !axis.MatchString(strings.TrimSpace(timeline[0])) {
				t.Errorf("times collide: %s", timeline[0])
			}
			state := columnOf(reminders[0], "state")
			for i, line := range reminders {
				if w := uniseg.StringWidth(line); w > width {
					t.Errorf("%d columns: %s", w, line)
				}
				if word := stateWord.FindString(line); i > 0 && columnOf(line, word) != state {
					t.Errorf("the state is not in column %d: %s", state, line)
				}
			}
			if len(reminders) != 1+8+len(hostile) {
				t.Errorf("%d lines of reminders", len(reminders))
			}
			for _, title := range []string{"Totals", "Why wakes were not taken"} {
				for _, line := range part(t, text, title) {
					if uniseg.StringWidth(line) > width {
						t.Errorf("too wide: %s", line)
					}
				}
			}
			if width >= 60 && !strings.HasSuffix(strings.Join(strings.Fields(reminders[0])[:5], " "), "state when set by") {
				t.Errorf("columns are missing: %s", reminders[0])
			}
		})
	}
}

var (
	axis      = regexp.MustCompile(`^\|[0-9-]+ [0-9:]+( +\|[0-9: -]+)* +[0-9: -]+\|$`)
	stateWord = regexp.MustCompile(`(scheduled|refused|cancelled|taken)( |$)`)
)

// firstMark is the marks of a row of a timeline, from the first one on.
func firstMark(line string) string {
	marks := regexp.MustCompile(`[●·?xo…>-]+$`).FindString(line)
	return marks
}

func TestColoursTakeNoRoom(t *testing.T) {
	a := scene(t, hostile...)
	coloured := printed(t, ui{color: true}, a, 80)
	contains(t, coloured, "  state  ", "\x1b[31mrefused\x1b[0m", "  scheduled  ") // a title and what is as it should be have none
	bare := regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(coloured, "")
	if want := printed(t, ui{}, a, 80); bare != want {
		t.Errorf("with colours:\n%s\nwithout:\n%s", bare, want)
	}
}

func TestTimesAboveATimeline(t *testing.T) {
	zone := scene(t).zone
	d := &day{zone: zone}
	at := d.ms("09:00:00")
	for _, c := range []struct {
		columns int
		length  int64
		want    string
	}{
		{40, 10 * 60_000, "|2026-10-12 09:00:00           09:10:00|"},
		{60, 10 * 60_000, "|2026-10-12 09:00:00          |09:05:00            09:10:00|"},
		{40, 8 * 3600_000, "|2026-10-12 09:00                 17:00|"},
		{60, 72 * 3600_000, "|2026-10-12 09:00                          2026-10-15 09:00|"},
		{25, 72 * 3600_000, "|10-12 09:00 10-15 09:00|"},
		{24, 72 * 3600_000, "|10-12            10-15|"},
		{60, 0, "|2026-10-12 09:00:00                               09:00:00|"},
	} {
		got := timeline{from: projection.Instant(at), span: max(1, c.length), columns: c.columns}.times(zone)
		if got != c.want {
			t.Errorf("%d columns, %d ms:\n%q, want\n%q", c.columns, c.length, got, c.want)
		}
	}
}

func TestCutColumns(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"short", 5, "short"}, {"longer", 5, "long…"}, {"a b c", 3, "a…"}, {"買い物", 6, "買い物"}, {"買い物", 5, "買い…"}, {"買い物", 4, "買…"},
		{"👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 3, "👩‍👩‍👧‍👦…"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"}, {"x", 0, "…"},
	} {
		if got := cutColumns(c.text, c.columns); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.columns, got, c.want)
		}
	}
}

// TestTheAuditListsAllReminders: also those that did not fire yet, and those that were cancelled.
func TestTheAuditListsAllReminders(t *testing.T) {
	a := scene(t)
	want := map[string]string{
		"rem_bill5n8rj4k": "scheduled", "rem_water8x1pq3": "scheduled", "rem_standup7h2c": "scheduled", "rem_key3c9mgt7a": "refused",
		"rem_plants9v3td": "cancelled", "rem_dentist4k2m": "taken", "rem_photos2w6bz": "taken", "rem_tea6f4yhd2s": "taken",
	}
	text := part(t, printed(t, ui{}, a, 120), "Reminders")
	var b strings.Builder
	if err := writeCSV(&b, a); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := func(name string) int { return slices.Index(rows[0], name) }
	inCSV := map[string]string{}
	for _, row := range rows[1:] {
		inCSV[row[column("reminder")]] = row[column("reminder_state")]
		if never := row[column("pushes")] == "0" && row[column("reminder")] != ""; never != (row[column("result")] == "") {
			t.Errorf("a row of a reminder without a wake: %v", row)
		}
	}
	for id, state := range want {
		line := slices.IndexFunc(text, func(line string) bool { return strings.Contains(line, id) })
		if line < 0 || !strings.Contains(text[line], "  "+state+"  ") {
			t.Errorf("%s is not %s in:\n%s", id, state, strings.Join(text, "\n"))
		}
		if inCSV[id] != state {
			t.Errorf("%s in the CSV: %q, want %q", id, inCSV[id], state)
		}
	}
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(data), `"id":"rem_bill5n8rj4k","message":"Pay the electricity bill","state":"scheduled","stateAt":"2026-10-15T13:00:00.000Z"`,
		`"state":"cancelled","stateAt":"2026-10-12T15:31:15.000Z"`)
}

// TestNoCellOfTheCSVIsAFormula: a spreadsheet takes no text of an agent or a host for one.
func TestNoCellOfTheCSVIsAFormula(t *testing.T) {
	var b strings.Builder
	if err := writeCSV(&b, scene(t, hostile...)); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		for _, cell := range row {
			if cell != "" && strings.ContainsRune("=+-@\t\r\n", rune(cell[0])) {
				t.Errorf("%q", cell)
			}
		}
	}
}
