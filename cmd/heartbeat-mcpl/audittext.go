package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/text"
)

const (
	mostRows    = 40 // lines of a picture or a table; the rest is counted
	leastWidth  = 60
	labelWidth  = 22
	usualWidth  = 100
	mostMessage = 36
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
		u.line("%s to %s [%s]", a.local(a.From), a.local(a.To), a.Zone)
	}
	for _, d := range a.Damage {
		u.bad("segment %s: %s", d.Segment, d.Text())
	}
	a.printTotals(u)
	a.printTimeline(u, width)
	a.printReminders(u)
	a.printRefusals(u)
	a.printGaps(u)
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

// local is an instant in the agent's zone.
func (a *audit) local(i projection.Instant) string {
	if i == 0 {
		return "-"
	}
	return time.UnixMilli(int64(i)).In(a.zone).Format("2006-01-02 15:04:05.000")
}

func (a *audit) printTotals(u ui) {
	t := a.Totals
	u.title("Totals")
	u.line("  %s: %d open, %d cancelled", text.Plural(t.Reminders, "reminder"), t.Open, t.Cancelled)
	u.line("  %s in %s: %d taken, %d dropped, %d given up, %d waiting", text.Plural(t.Wakes, "wake"), pushes(t.Pushes), t.Taken, t.Dropped, t.GivenUp, t.Waiting)
	if t.Messages > 0 {
		u.line("  among them %s of other agents", text.Plural(t.Messages, "message"))
	}
	if t.Refused+t.NoAnswer > 0 {
		u.line("  the host refused %s and did not answer %d", pushes(t.Refused), t.NoAnswer)
	}
	if l := a.Lateness; l.Count > 0 {
		u.line("  late: half within %s, 90%% within %s, 99%% within %s, at most %s", length(l.P50), length(l.P90), length(l.P99), length(l.Max))
	}
}

func pushes(n int) string {
	if n == 1 {
		return "1 push"
	}
	return fmt.Sprintf("%d pushes", n)
}

// length is a length in milliseconds as people read it.
func length(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", ms)
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// The marks of a timeline, the most telling last: where several wakes share a column, the last of these is shown.
var marks = []struct {
	results []projection.Result
	mark    string
	color   string
	means   string
}{
	{[]projection.Result{projection.ResultTaken}, "●", green, "taken"},
	{[]projection.Result{projection.ResultCancelled}, "-", dim, "cancelled"},
	{[]projection.Result{projection.ResultDropped}, "o", yellow, "dropped"},
	{[]projection.Result{projection.ResultPending, projection.ResultDue}, "…", yellow, "waiting"},
	{[]projection.Result{projection.ResultNoAnswer}, "?", red, "no answer"},
	{[]projection.Result{projection.ResultRefused}, "x", red, "refused"},
}

func rankOf(r projection.Result) int {
	for i, m := range marks {
		if slices.Contains(m.results, r) {
			return i
		}
	}
	return 0
}

// printTimeline draws a row for each subject that woke, and one for the times when no server ran.
func (a *audit) printTimeline(u ui, width int) {
	var rows []*projection.Subject
	from, to := projection.Instant(0), projection.Instant(0)
	for _, s := range a.Subjects() {
		for _, w := range s.Wakes {
			if from == 0 || w.Due < from {
				from = w.Due
			}
			to = max(to, w.At())
		}
		if len(s.Wakes) > 0 {
			rows = append(rows, s)
		}
	}
	if len(rows) == 0 {
		return
	}
	columns := width - labelWidth - 3
	scale := timeline{from: from, span: max(1, int64(to-from)), columns: columns}
	u.title("Timeline")
	u.line("  %-*s%s%*s", labelWidth, "", cutTo(a.local(from), 19), columns-19, cutTo(a.local(to), 19))
	if bar := scale.gaps(a.Gaps); strings.TrimSpace(bar) != "" {
		u.line("  %-*s%s", labelWidth, "no server", u.paint(dim, bar))
	}
	for i, s := range rows {
		if i == mostRows {
			u.line("  and %s", text.Plural(len(rows)-mostRows, "more reminder"))
			break
		}
		u.line("  %-*s%s", labelWidth, cutTo(nameOf(s), labelWidth-1), scale.row(u, s))
	}
	var legend []string
	for _, m := range marks {
		legend = append(legend, u.paint(m.color, m.mark)+" "+m.means)
	}
	u.line("  %-*s%s", labelWidth, "", strings.Join(legend, "  "))
}

func nameOf(s *projection.Subject) string {
	switch s.ID {
	case "":
		return "heartbeat"
	case projection.MeshID:
		return "messages"
	}
	return text.Safe(s.ID)
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

func (t timeline) row(u ui, s *projection.Subject) string {
	cells := make([]int, t.columns) // rank + 1; 0: nothing
	for _, w := range s.Wakes {
		at := w.TakenAt
		if at == 0 {
			at = w.Due
		}
		c := t.column(at)
		cells[c] = max(cells[c], rankOf(w.Result)+1)
		for _, p := range w.Pushes {
			if p.Result == projection.ResultRefused || p.Result == projection.ResultNoAnswer {
				c := t.column(p.SentAt)
				cells[c] = max(cells[c], rankOf(p.Result)+1)
			}
		}
	}
	var b strings.Builder
	for _, c := range cells {
		if c == 0 {
			b.WriteString(u.paint(dim, "·"))
			continue
		}
		b.WriteString(u.paint(marks[c-1].color, marks[c-1].mark))
	}
	return b.String()
}

func (t timeline) gaps(gaps []projection.Gap) string {
	cells := []rune(strings.Repeat(" ", t.columns))
	end := t.from + projection.Instant(t.span)
	for _, g := range gaps {
		to := g.To
		if to == 0 {
			to = end
		}
		if to < t.from || g.From > end {
			continue
		}
		for c := t.column(g.From); c <= t.column(to); c++ {
			cells[c] = '░'
		}
	}
	return string(cells)
}

// printReminders is a table of the reminders that the report is about.
func (a *audit) printReminders(u ui) {
	if len(a.Reminders) == 0 {
		return
	}
	u.title("Reminders")
	w := tabwriter.NewWriter(u.out, 2, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  reminder\tset\tby\tis\tdue\ttaken\tlate\tpushes\tmessage")
	shown := a.Reminders
	if len(shown) > mostRows {
		shown = shown[len(shown)-mostRows:]
	}
	for _, s := range shown {
		due, taken, late, pushes := a.lastWake(s)
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", nameOf(s), a.local(s.SetAt), orDash(string(s.SetBy)), a.standing(s), due, taken, late, pushes,
			text.Quote(short(s.Message, mostMessage)))
	}
	_ = w.Flush() // the error stays in u.out
	if more := len(a.Reminders) - len(shown); more > 0 {
		u.line("  and %s before them; see --json, --csv or --html for all", text.Plural(more, "reminder"))
	}
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

// standing says in a few words how a reminder stands.
func (a *audit) standing(s *projection.Subject) string {
	var last projection.Result
	taken := 0
	for _, w := range s.Wakes {
		last = w.Result
		if w.Result == projection.ResultTaken {
			taken++
		}
	}
	switch {
	case s.CancelledAt > 0:
		return "cancelled by " + string(s.CancelledBy)
	case s.NextAt == 0:
		return "done"
	case last != "" && last != projection.ResultTaken && last != projection.ResultCancelled:
		return "waiting: " + string(last)
	case s.EveryMs > 0:
		return fmt.Sprintf("every %s, taken %s", length(s.EveryMs), text.Plural(taken, "time"))
	case s.Repeats != "":
		return fmt.Sprintf("every %s, taken %s", strings.TrimPrefix(s.Repeats, "1 "), text.Plural(taken, "time"))
	case s.Cron != "":
		return fmt.Sprintf("at %s, taken %s", text.Safe(s.Cron), text.Plural(taken, "time"))
	}
	return "set"
}

// lastWake is the reminder's last occurrence, or the next one.
func (a *audit) lastWake(s *projection.Subject) (due, taken, late string, pushes int) {
	if len(s.Wakes) == 0 {
		return a.local(s.NextAt), "-", "-", 0
	}
	for _, w := range s.Wakes {
		pushes += len(w.Pushes)
	}
	w := s.Wakes[len(s.Wakes)-1]
	late = "-"
	if ms, ok := w.LateMs(); ok {
		late = length(ms)
	}
	return a.local(w.Due), a.local(w.TakenAt), late, pushes
}

// printRefusals says how often the host gave which reason.
func (a *audit) printRefusals(u ui) {
	count := map[string]int{}
	for _, s := range a.Subjects() {
		for _, w := range s.Wakes {
			if w.Result == projection.ResultDropped {
				count["dropped: "+w.Reason]++
			}
			for _, p := range w.Pushes {
				switch p.Result {
				case projection.ResultRefused, projection.ResultNoAnswer:
					count[string(p.Result)+": "+p.Reason]++
				}
			}
		}
	}
	if len(count) == 0 {
		return
	}
	u.title("What was not taken, and why")
	var reasons []string
	for reason := range count {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return strings.Compare(a, b)
	})
	for i, reason := range reasons {
		if i == mostRows {
			u.line("  and %s", text.Plural(len(reasons)-mostRows, "other reason"))
			break
		}
		u.line("  %6d  %s", count[reason], text.OneLine(short(reason, 200)))
	}
}

// printGaps says when no server ran.
func (a *audit) printGaps(u ui) {
	if len(a.Gaps) == 0 {
		return
	}
	u.title("When no server ran")
	for i, g := range a.Gaps {
		if i == mostRows {
			u.line("  and %s", text.Plural(len(a.Gaps)-mostRows, "more time"))
			break
		}
		how, end, long := "stopped", "now", ""
		if g.Crash {
			how = u.paint(red, "crashed")
		}
		if g.To > 0 {
			atMost := ""
			if g.Crash { // it may have run on without anything to record
				atMost = " at most"
			}
			end, long = a.local(g.To), " ("+length(int64(g.To-g.From))+atMost+")"
		}
		u.line("  %s to %s%s, after the server %s", a.local(g.From), end, long, how)
	}
}
