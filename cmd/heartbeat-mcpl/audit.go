package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/text"
)

// auditFlags are what `audit` was asked for.
type auditFlags struct {
	settings
	json, csv              bool
	html                   string
	reminder, since, until string
}

func newAudit() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show what fired when, how late, what was refused, and all reminders",
		Long: "audit shows when each reminder and the heartbeat fired, how late, what the host refused, all reminders and how they\n" +
			"stand, and when no server ran. It only reads the journal, and works while a server runs on it.\n\n" +
			statesHelp() + "\n" +
			"A time is ISO 8601 (2026-10-10T09:00, in the agent's zone), or a length before now (90m, 36h, 7d).",
		Example: "  heartbeat-mcpl audit --since 7d\n" +
			"  heartbeat-mcpl audit --reminder rem_k3f9x2m7q1ab\n" +
			"  heartbeat-mcpl audit --html audit.html",
		Args: noArgs,
		RunE: printing(f.run),
	}
	flags := cmd.Flags()
	f.registerReading(flags)
	flags.BoolVar(&f.json, "json", false, "everything as one JSON document")
	flags.BoolVar(&f.csv, "csv", false, "a row for each wake, and for each reminder without one, as CSV (RFC 4180) that spreadsheets may open")
	flags.StringVar(&f.html, "html", "", "write one self-contained page to this file")
	flags.StringVar(&f.reminder, "reminder", "", "only the reminder with this id, or these first letters of one")
	flags.StringVar(&f.since, "since", "", "only wakes from this time on")
	flags.StringVar(&f.until, "until", "", "only wakes up to this time")
	return cmd
}

// statesHelp says what the states mean.
func statesHelp() string {
	var b strings.Builder
	b.WriteString("A wake or a reminder is in one of these states:\n")
	for _, s := range projection.WakeStates {
		fmt.Fprintf(&b, "  %-9s  %s\n", s.State, s.Means)
	}
	return b.String()
}

// audit is a report with what is said around it.
type audit struct {
	Journal string `json:"journal"`
	Zone    string `json:"zone"`
	*projection.Report
	Damage []journal.Damage `json:"damage"` // parts of the journal that cannot be read

	zone *time.Location
}

func (f *auditFlags) run(_ context.Context, out *os.File) error {
	if f.json && f.csv || f.html != "" && (f.json || f.csv) {
		return usageError{errors.New("--json, --csv and --html are three forms of the same: give one of them")}
	}
	f.readingEnvironment()
	if err := f.check(); err != nil {
		return err
	}
	if err := someJournal(f.journalDir); err != nil {
		return err
	}
	var err error
	if f.reminder, err = resolve(f.reminder, f.journalDir); err != nil {
		return err
	}
	a, err := f.read()
	if err != nil {
		return err
	}
	switch {
	case f.json:
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(a)
	case f.csv:
		return writeCSV(out, a)
	case f.html != "":
		page, err := auditPage(a)
		if err != nil {
			return err
		}
		if err := f.writePage(page); err != nil {
			return fmt.Errorf("write the page to %s: %w", f.html, err)
		}
		_, err = fmt.Fprintf(out, "%s: open it in a browser\n", f.html)
		return err
	}
	return printAudit(ui{out: out, color: colorful(out)}, a, terminalWidth(out))
}

// writePage replaces the file whole, a symbolic link's target, and nothing that is no file of its own kind.
func (f *auditFlags) writePage(page []byte) error {
	path := recovery.Target(f.html)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file; name another one")
	}
	mesh, err := f.meshFolder()
	if f.files().Holds(path) || err == nil && recovery.Within(path, mesh) {
		return errors.New("it is one of the server's own files; name another one")
	}
	return renameio.WriteFile(path, page, 0o600, renameio.WithTempDir(filepath.Dir(path)), renameio.WithExistingPermissions())
}

func (f *auditFlags) read() (*audit, error) {
	bar := newProgress("audit", f.journalDir)
	past, err := recovery.ReadPast(f.journalDir, bar.step)
	bar.done()
	if err != nil {
		return nil, notThere(err, f.journalDir)
	}
	if f.timezone == "" {
		f.timezone = past.Zone
	}
	zone := f.zone(slog.New(newLogHandler(os.Stderr)))
	times, err := parseSpan(f.since, f.until, zone)
	if err != nil {
		return nil, err
	}
	if past.State != nil {
		past.History.Finish(past.State, time.Now().UnixMilli())
	}
	report := past.History.Report(projection.Filter{
		Reminder: f.reminder, Since: projection.Instant(times.since), Until: projection.Instant(times.until),
	})
	return newReport(f.journalDir, zone, report, past.Damage), nil
}

func newReport(dir string, zone *time.Location, report *projection.Report, damage []journal.Damage) *audit {
	if damage == nil {
		damage = []journal.Damage{}
	}
	return &audit{Journal: dir, Zone: zone.String(), Report: report, Damage: damage, zone: zone}
}

var csvHeader = []string{
	"reminder", "message", "set_by", "set_at", "every_seconds", "due", "result", "pushes", "refusals", "no_answers", "first_sent_at",
	"last_sent_at", "taken_at", "late_ms", "inference_id", "reason", "manual", "cancelled_at", "from",
	"reminder_state", "next_at", "cancelled_by", "cron",
}

// writeCSV writes a row for each wake. Those of the heartbeat and of messages have no reminder; a message's say who it is from.
// A reminder without a wake has a row without a result.
func writeCSV(out io.Writer, a *audit) error {
	w := csv.NewWriter(out)
	w.UseCRLF = true
	rows := [][]string{csvHeader}
	for _, s := range a.Subjects() {
		for _, wake := range s.Wakes {
			rows = append(rows, csvRow(s, wake))
		}
		if len(s.Wakes) == 0 && s.ReminderID() != "" {
			rows = append(rows, csvRow(s, &projection.Wake{}))
		}
	}
	return w.WriteAll(rows)
}

func csvRow(s *projection.Subject, w *projection.Wake) []string {
	var refusals, noAnswers int
	var first, last projection.Instant
	for i, p := range w.Pushes {
		if i == 0 {
			first = p.SentAt
		}
		last = p.SentAt
		switch p.Result {
		case projection.ResultRefused:
			refusals++
		case projection.ResultNoAnswer:
			noAnswers++
		}
	}
	every, late := "", ""
	if ms := cmp.Or(w.EveryMs, s.EveryMs); ms > 0 {
		every = text.Seconds(ms)
	}
	if ms, ok := w.LateMs(); ok {
		late = strconv.FormatInt(ms, 10)
	}
	return []string{
		plainCell(s.ReminderID()), plainCell(w.Said(s)), string(s.SetBy), cell(s.SetAt), every, cell(w.Due), string(w.Result), strconv.Itoa(len(w.Pushes)),
		strconv.Itoa(refusals), strconv.Itoa(noAnswers), cell(first), cell(last), cell(w.TakenAt), late, plainCell(w.InferenceID),
		plainCell(w.Why()), strconv.FormatBool(w.Manual), cell(s.CancelledAt), plainCell(w.From),
		string(s.State), cell(s.NextAt), string(s.CancelledBy), plainCell(s.Cron),
	}
}

func cell(i projection.Instant) string {
	if i == 0 {
		return ""
	}
	return i.String()
}

// plainCell is a text on one line that no spreadsheet takes for a formula.
func plainCell(s string) string {
	s = text.OneLine(s)
	if first, _ := utf8.DecodeRuneInString(s); s != "" && strings.ContainsRune("=+-@\\＝＋－＠", first) {
		return "'" + s
	}
	return s
}
