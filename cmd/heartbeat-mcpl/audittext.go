package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/text"
)

const (
	mostRows   = 40 // lines of a picture or a table; the rest is counted
	leastWidth = 40
	usualWidth = 100
)

// terminalWidth is how many columns out has; that of a pipe is COLUMNS, or a usual one.
func terminalWidth(out *os.File) int {
	if width, _, err := term.GetSize(int(out.Fd())); err == nil && width > 0 {
		return max(leastWidth, width)
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		return max(leastWidth, width)
	}
	return usualWidth
}

// printAudit prints a report for people.
func printAudit(u ui, a *audit, width int) error {
	w := &errWriter{out: u.out}
	u.out = w
	u.line("%s, %s", a.Journal, text.Plural(int(a.Records), "record"))
	if a.Records > 0 {
		u.line("%s [%s]", a.span(a.From, a.To), a.Zone)
	}
	for _, d := range a.Damage {
		u.bad("segment %s: %s", d.Segment, d.Text())
	}
	a.printTotals(u, width)
	a.printTimeline(u, width)
	a.printReminders(u, width)
	a.printReasons(u, width)
	a.printGaps(u, width)
	return w.err
}

// errWriter keeps the first error, so that a reader that went away ends the printing once.
type errWriter struct {
	out interface{ Write([]byte) (int, error) }
	err error
}

func (w *errWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	var n int
	n, w.err = w.out.Write(p)
	return n, w.err
}

// Forms of a time, from the whole one to the shortest.
const (
	secondForm = "2006-01-02 15:04:05"
	minuteForm = "2006-01-02 15:04"
	dateForm   = "2006-01-02"
)

// local is an instant in the agent's zone.
func (a *audit) local(i projection.Instant, form string) string {
	if i == 0 {
		return "-"
	}
	return time.UnixMilli(int64(i)).In(a.zone).Format(form)
}

// span is a time from one instant to another. The day is said once where it is one day.
func (a *audit) span(from, to projection.Instant) string {
	form := secondForm
	if a.local(from, dateForm) == a.local(to, dateForm) {
		form = "15:04:05"
	}
	return a.local(from, secondForm) + " to " + a.local(to, form)
}

func (a *audit) printTotals(u ui, width int) {
	reminders, wakes, pushes := map[projection.WakeState]int{}, map[projection.WakeState]int{}, map[projection.WakeState]int{}
	for _, s := range a.Reminders {
		reminders[s.State]++
	}
	for _, s := range a.Subjects() {
		for _, w := range s.Wakes {
			wakes[w.Result.State()]++
			for _, p := range w.Pushes {
				pushes[p.Result.State()]++
			}
		}
	}
	t := a.Totals
	u.title("Totals")
	u.wrap(width, counted(text.Plural(t.Reminders, "reminder"), reminders))
	u.wrap(width, counted(text.Plural(t.Wakes, "wake"), wakes))
	u.wrap(width, counted(count(t.Pushes, "push", "pushes"), pushes))
	if t.Messages > 0 {
		u.wrap(width, text.Plural(t.Messages, "message")+" from other agents among the wakes")
	}
	if l := a.Lateness; l.Count > 0 {
		u.wrap(width, fmt.Sprintf("late: half within %s, 90%% within %s, 99%% within %s, at most %s", text.About(l.P50), text.About(l.P90), text.About(l.P99), text.About(l.Max)))
	}
}

// counted says how many of them are in which state.
func counted(all string, in map[projection.WakeState]int) string {
	var parts []string
	for _, s := range projection.WakeStates {
		if n := in[s.State]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s.State))
		}
	}
	if len(parts) == 0 {
		return all
	}
	return all + ": " + strings.Join(parts, ", ")
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// The marks of a timeline, the most telling last: where several wakes share a column, the last of these is shown.
var marks = []struct {
	state projection.WakeState
	mark  string
	color string
}{
	{projection.StateTaken, "●", green},
	{projection.StateCancelled, "-", dim},
	{projection.StateDropped, "o", yellow},
	{projection.StateWaiting, "…", yellow},
	{projection.StateSent, ">", yellow},
	{projection.StateNoAnswer, "?", red},
	{projection.StateRefused, "x", red},
}

const (
	noMark   = "·"
	noServer = '░'
)

// rankOf is a state's place among the marks; -1: it has none.
func rankOf(state projection.WakeState) int {
	for i, m := range marks {
		if m.state == state {
			return i
		}
	}
	return -1
}

func colorOf(state string) string {
	if i := rankOf(projection.WakeState(state)); i >= 0 {
		return marks[i].color
	}
	return ""
}

// nameOf is what a row is called: by what the reminder says.
func nameOf(s *projection.Subject) string {
	switch s.ID {
	case "":
		return "heartbeat"
	case projection.MeshID:
		return "messages"
	}
	return text.OneLine(cmp.Or(s.Message, s.ID))
}

// printTimeline draws a row for each subject that woke, and one for the times when no server ran.
func (a *audit) printTimeline(u ui, width int) {
	var rows []*projection.Subject
	from, to, widest := projection.Instant(0), projection.Instant(0), len("no server")
	for _, s := range a.Subjects() {
		for _, w := range s.Wakes {
			if from == 0 || w.Due < from {
				from = w.Due
			}
			to = max(to, w.At())
		}
		if len(s.Wakes) > 0 {
			rows, widest = append(rows, s), max(widest, uniseg.StringWidth(nameOf(s)))
		}
	}
	if len(rows) == 0 {
		return
	}
	names := min(widest, max(12, width/3-4)) // columns for them
	scale := timeline{from: from, span: max(1, int64(to-from)), columns: width - names - 4}
	u.title("Timeline")
	u.line("  %s  %s", fit("", names), scale.times(a.zone))
	if bar := strings.TrimRight(scale.gaps(a.Gaps), " "); bar != "" {
		u.line("  %s  %s", fit("no server", names), u.paint(dim, bar))
	}
	seen := map[int]bool{}
	for i, s := range rows {
		if i == mostRows {
			u.line("  and %s", text.Plural(len(rows)-mostRows, "more reminder"))
			break
		}
		u.line("  %s  %s", fit(nameOf(s), names), scale.row(u, s, seen))
	}
	u.legend(width, seen)
}

// legend says what the marks mean that were used.
func (u ui) legend(width int, seen map[int]bool) {
	line, used := "", 0
	for i, m := range marks {
		if !seen[i] {
			continue
		}
		entry := len("  x ") + len(m.state)
		if used > 0 && used+entry > width {
			u.line("%s", line)
			line, used = "", 0
		}
		line, used = line+"  "+u.paint(m.color, m.mark)+" "+string(m.state), used+entry
	}
	u.line("%s", line)
}

// timeline maps instants to columns.
type timeline struct {
	from    projection.Instant
	span    int64
	columns int
}

func (t timeline) column(i projection.Instant) int {
	return min(t.columns-1, max(0, int(int64(i-t.from)*int64(t.columns)/t.span)))
}

// steps are the lengths between two times above a timeline, in seconds.
var steps = []int64{1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000, 31536000}

// times is the line above the rows: the first time, the last one, and round ones between them where there is room. Each
// stands right of its bar, the last one left of it. A day that the first one says is not said again.
func (t timeline) times(zone *time.Location) string {
	local := func(ms int64) time.Time { return time.UnixMilli(ms).In(zone) }
	first, last := local(int64(t.from)), local(int64(t.from)+t.span)
	clock := "15:04"
	if t.span < 2*time.Hour.Milliseconds() {
		clock = "15:04:05"
	}
	var line, later, end string
	for _, form := range []struct{ day, clock string }{{"2006-01-02 ", clock}, {"01-02 ", clock}, {"01-02 ", "15:04"}, {"01-02", ""}} {
		later, clock = "", form.clock
		if first.Format(dateForm) != last.Format(dateForm) {
			later = form.day
		}
		line, end = "|"+first.Format(form.day+clock), last.Format(later+clock)+"|"
		if len(line)+len(end) < t.columns {
			break
		}
	}
	room := max(16, int64(len("|  "+later+clock))) // columns between two
	i := slices.IndexFunc(steps, func(s int64) bool { return s*1000*int64(t.columns) >= room*t.span })
	_, offset := first.Zone()
	if i >= 0 {
		step, shift := steps[i]*1000, int64(offset)*1000
		for at := ((int64(t.from)+shift)/step+1)*step - shift; at < int64(t.from)+t.span; at += step {
			c, tick := t.column(projection.Instant(at)), "|"+local(at).Format(later+clock)
			if c > len(line) && c+len(tick)+len(end) < t.columns {
				line = fit(line, c) + tick
			}
		}
	}
	return line + strings.Repeat(" ", max(1, t.columns-len(line)-len(end))) + end
}

// row is a subject's marks; seen learns their ranks.
func (t timeline) row(u ui, s *projection.Subject, seen map[int]bool) string {
	cells := make([]int, t.columns) // rank + 1; 0: nothing
	put := func(at projection.Instant, state projection.WakeState) {
		c := t.column(at)
		cells[c] = max(cells[c], rankOf(state)+1)
	}
	for _, w := range s.Wakes {
		at := cmp.Or(w.TakenAt, w.Due)
		if w.Result == projection.ResultPending {
			at = w.Pushes[len(w.Pushes)-1].SentAt
		}
		put(at, w.Result.State())
		for _, p := range w.Pushes {
			if p.Result == projection.ResultRefused || p.Result == projection.ResultNoAnswer {
				put(p.SentAt, p.Result.State())
			}
		}
	}
	var b strings.Builder
	for _, c := range cells {
		if c == 0 {
			b.WriteString(u.paint(dim, noMark))
			continue
		}
		seen[c-1] = true
		b.WriteString(u.paint(marks[c-1].color, marks[c-1].mark))
	}
	return b.String()
}

func (t timeline) gaps(gaps []projection.Gap) string {
	cells := []rune(strings.Repeat(" ", t.columns))
	end := t.from + projection.Instant(t.span)
	for _, g := range gaps {
		to := cmp.Or(g.To, end)
		if to < t.from || g.From > end {
			continue
		}
		for c := t.column(g.From); c <= t.column(to); c++ {
			cells[c] = noServer
		}
	}
	return string(cells)
}

// printReminders is a table of all reminders: those that are open, the soonest first, then the others, the newest first.
func (a *audit) printReminders(u ui, width int) {
	if len(a.Reminders) == 0 {
		return
	}
	all := slices.Clone(a.Reminders)
	slices.SortStableFunc(all, func(x, y *projection.Subject) int {
		switch {
		case x.Over() != y.Over():
			return map[bool]int{false: -1, true: 1}[x.Over()]
		case x.Over():
			return cmp.Compare(y.StateAt, x.StateAt)
		}
		return cmp.Compare(x.StateAt, y.StateAt)
	})
	shown := all[:min(len(all), mostRows)]
	cells := func(of func(*projection.Subject) string) []string {
		var c []string
		for _, s := range shown {
			c = append(c, of(s))
		}
		return c
	}
	const least, id, less = 12, 18, 26 // the room that the text keeps beside what matters most, its id, and what matters less
	at := a.shortTime
	if width-wholeTimes >= min(less, (&column{cells: cells(nameOf)}).width()) {
		at = func(i projection.Instant) string { return a.local(i, minuteForm) }
	}
	u.title("Reminders")
	u.table(width, column{title: "reminder", cells: cells(nameOf)},
		column{title: "state", room: least, cells: cells(func(s *projection.Subject) string { return string(s.State) }), color: colorOf},
		column{title: "when", room: least, cells: cells(func(s *projection.Subject) string { return at(s.StateAt) })},
		column{title: "set", room: least, cells: cells(func(s *projection.Subject) string { return at(s.SetAt) })},
		column{title: "by", room: least, cells: cells(func(s *projection.Subject) string { return setBy(s.SetBy) })},
		column{title: "id", room: id, cells: cells(func(s *projection.Subject) string { return text.OneLine(s.ID) })},
		column{title: "repeats", room: less, cells: cells(repeating)},
		column{title: "taken", room: less, cells: cells(func(s *projection.Subject) string { return strconv.Itoa(taken(s)) })},
		column{title: "late", room: less, cells: cells(late)},
	)
	if more := len(all) - len(shown); more > 0 {
		u.line("  and %s; --json, --csv and --html have them all", text.Plural(more, "more reminder"))
	}
}

// wholeTimes is the room that a table's columns need beside the first one when its times are whole: the state, two times, who.
const wholeTimes = columnGap + len(projection.StateScheduled) + 2*len(minuteForm) + len("agent") + 4*columnGap

// shortTime is a time where there is little room: without its year where that is the journal's last one, else without its clock.
func (a *audit) shortTime(i projection.Instant) string {
	if a.local(i, "2006") == a.local(a.To, "2006") {
		return a.local(i, "01-02 15:04")
	}
	return a.local(i, dateForm)
}

// setBy is who set or cancelled a reminder, in a word.
func setBy(by journal.Source) string {
	switch by {
	case journal.ByTool:
		return "agent"
	case journal.ByCLI:
		return "ctl"
	}
	return orDash(string(by))
}

func repeating(s *projection.Subject) string {
	if s.EveryMs > 0 {
		return text.Length(s.EveryMs)
	}
	return orDash(text.OneLine(s.Cron))
}

// taken is how often the host took a wake of the reminder.
func taken(s *projection.Subject) int {
	n := 0
	for _, w := range s.Wakes {
		if w.Result == projection.ResultTaken {
			n++
		}
	}
	return n
}

// late is how late the last wake was that was taken.
func late(s *projection.Subject) string {
	for _, w := range slices.Backward(s.Wakes) {
		if ms, ok := w.LateMs(); ok {
			return text.About(ms)
		}
	}
	return "-"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func short(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "…"
}

// printReasons says how often what was not taken for which reason.
func (a *audit) printReasons(u ui, width int) {
	count := map[string]int{}
	for _, s := range a.Subjects() {
		for _, w := range s.Wakes {
			if w.Result == projection.ResultDropped {
				count[string(projection.StateDropped)+": "+w.Reason]++
			}
			for _, p := range w.Pushes {
				switch p.Result {
				case projection.ResultRefused, projection.ResultNoAnswer:
					count[string(p.Result.State())+": "+p.Reason]++
				}
			}
		}
	}
	if len(count) == 0 {
		return
	}
	u.title("Why wakes were not taken")
	var reasons []string
	for reason := range count {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a, b))
	})
	for i, reason := range reasons {
		if i == mostRows {
			u.line("  and %s", text.Plural(len(reasons)-mostRows, "other reason"))
			break
		}
		times := fmt.Sprintf("%5d  ", count[reason])
		u.line("%s%s", times, cutColumns(text.OneLine(reason), width-len(times)))
	}
}

// crashNote explains the length of a gap after a crash.
const crashNote = "A crashed server cannot log its own end, so downtime counts from its last record."

// printGaps says when no server ran.
func (a *audit) printGaps(u ui, width int) {
	if len(a.Gaps) == 0 {
		return
	}
	u.title("When no server ran")
	crashed := false
	for i, g := range a.Gaps {
		if i == mostRows {
			u.line("  and %s", text.Plural(len(a.Gaps)-mostRows, "more time"))
			break
		}
		when, why := "since "+a.local(g.From, secondForm), "stopped"
		if g.To > 0 {
			when = a.span(g.From, g.To) + ", " + text.About(int64(g.To-g.From))
		}
		if g.Crash {
			crashed, why = true, u.paint(red, "crashed")
		}
		u.line("  %s, %s", when, why)
	}
	if crashed {
		u.wrap(width, crashNote)
	}
}
