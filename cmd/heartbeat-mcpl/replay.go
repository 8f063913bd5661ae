package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/text"
)

// followEvery is how often --follow looks for new records.
const followEvery = 200 * time.Millisecond

// replayFlags are what `replay` was asked for.
type replayFlags struct {
	settings
	json, follow, state, verify bool
	reminder, since, until, at  string
	kinds                       []string
	from, to                    uint64
}

func newReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Show the events of a journal, the state at a time, or whether all of it is whole",
		Long: "replay reads a journal without touching it, also while a server runs on it, and also when it is damaged: it then shows\n" +
			"all that is whole and names what is not. Times are in the agent's zone, as the journal knows it.\n\n" +
			"A time is ISO 8601 (2026-10-10T09:00, in the agent's zone), or a length before now (90m, 36h, 7d).",
		Example: "  heartbeat-mcpl replay --since 24h\n" +
			"  heartbeat-mcpl replay --reminder rem_k3f9x2m7q1ab --json\n" +
			"  heartbeat-mcpl replay --at 2026-10-03T09:00 --state\n" +
			"  heartbeat-mcpl replay --verify",
		Args: noArgs,
		RunE: printing(f.run),
	}
	flags := cmd.Flags()
	f.registerReading(flags)
	flags.BoolVar(&f.json, "json", false, "JSON Lines in place of text")
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with new events as they come, until interrupted")
	flags.StringVar(&f.reminder, "reminder", "", "only events of the reminder with this id, or these first letters of one")
	flags.StringSliceVar(&f.kinds, "kind", nil, "only events of these kinds, such as fire,ack,refuse")
	flags.StringVar(&f.since, "since", "", "only events from this time on")
	flags.StringVar(&f.until, "until", "", "only events up to this time")
	flags.Uint64Var(&f.from, "from", 0, "only events from this index on")
	flags.Uint64Var(&f.to, "to", 0, "only events up to this index")
	flags.StringVar(&f.at, "at", "", "with --state: the time, or the index, at which")
	flags.BoolVar(&f.state, "state", false, "print both views as they were at --at")
	flags.BoolVar(&f.verify, "verify", false, "check framing, checksums, order, snapshots and views; exit status 1 where one is at fault")
	return cmd
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("this command takes flags alone, and was given %q", args[0])}
	}
	return nil
}

// printing runs a command that reads a journal and prints what it says.
func printing(run func(context.Context, *os.File) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		return quietly(run(cmd.Context(), os.Stdout))
	}
}

// quietly takes a reader that went away (`| head`) for a good end.
func quietly(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

func (f *replayFlags) run(ctx context.Context, out *os.File) error {
	if err := f.check(); err != nil {
		return err
	}
	f.readingEnvironment()
	if err := f.settings.check(); err != nil {
		return err
	}
	if err := someJournal(f.journalDir); err != nil {
		return err
	}
	var err error
	if f.reminder, err = resolve(f.reminder, f.journalDir); err != nil {
		return err
	}
	switch {
	case f.verify:
		return f.runVerify(out)
	case f.state:
		return f.runState(out)
	}
	zone, err := f.zoneOf()
	if err != nil {
		return err
	}
	times, err := parseSpan(f.since, f.until, zone)
	if err != nil {
		return err
	}
	p := &eventPrinter{out: bufio.NewWriterSize(out, 64<<10), json: f.json, ui: ui{color: colorful(out)}, zone: zone}
	if err := f.print(ctx, p, times); err != nil {
		return err
	}
	return p.out.Flush()
}

// check finds flags that contradict each other.
func (f *replayFlags) check() error {
	known := journal.Kinds()
	for i, k := range f.kinds {
		f.kinds[i] = strings.ToLower(strings.TrimSpace(k))
		if !slices.Contains(known, f.kinds[i]) {
			return usageError{fmt.Errorf("--kind %q is none; the kinds are %s", k, strings.Join(known, ", "))}
		}
	}
	filters := f.reminder != "" || len(f.kinds) > 0 || f.since != "" || f.until != "" || f.from > 0 || f.to > 0
	switch {
	case f.state != (f.at != ""):
		return usageError{errors.New("--at and --state belong together: --at TIME --state prints both views as they were then")}
	case f.state && (f.verify || f.follow || filters), f.verify && (f.follow || filters):
		return usageError{errors.New("--verify and --state are about the whole journal: give them without filters, --follow, or each other")}
	case f.follow && (f.to > 0 || f.until != ""):
		return usageError{errors.New("--follow goes on without end: give it without --to and --until")}
	case f.to > 0 && f.from > f.to:
		return usageError{fmt.Errorf("--from %d is after --to %d: nothing can be between them", f.from, f.to)}
	}
	return nil
}

// zoneOf is the agent's zone: what a flag or variable says, else what the journal says.
func (f *replayFlags) zoneOf() (*time.Location, error) {
	if err := f.zoneFromJournal(); err != nil {
		return nil, notThere(err, f.journalDir)
	}
	return f.zone(slog.New(newLogHandler(os.Stderr))), nil
}

// someJournal makes sure that there is a journal in dir, be it damaged.
func someJournal(dir string) error {
	starts, err := journal.Starts(dir)
	if err != nil {
		return notThere(err, dir)
	}
	if len(starts) == 0 {
		return notThere(fs.ErrNotExist, dir)
	}
	return nil
}

// notThere says what to do about a journal that is not where it was looked for.
func notThere(err error, dir string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: there is no journal; name its folder with --journal-dir, or the config file beside it with --config-file", dir)
	}
	return asItsUser(err)
}

// print prints the events that the filters let through, to the journal's end or, with --follow, beyond it.
func (f *replayFlags) print(ctx context.Context, p *eventPrinter, times span) error {
	next, settled := uint64(1), false
	for {
		scanner, err := journal.NewScanner(f.journalDir)
		if err != nil {
			return notThere(err, f.journalDir)
		}
		scanner.Seek(next)
		said := 0
		for scanner.Next() {
			for ; said < len(scanner.Damage()); said++ {
				p.damage(scanner.Damage()[said])
			}
			e := scanner.Event()
			next, settled = e.Index+1, false
			if f.to > 0 && e.Index > f.to {
				return p.err
			}
			if f.shows(e, times) {
				p.event(e)
			}
			if p.err != nil || ctx.Err() != nil {
				return p.err
			}
		}
		if err := scanner.Err(); err != nil {
			return err
		}
		rest := scanner.Damage()[said:]
		wait := followEvery
		switch torn := slices.ContainsFunc(rest, func(d journal.Damage) bool { return d.Tail }); {
		case torn && !settled:
			settled, wait = true, recovery.TailSettles
		case !f.follow:
			for _, d := range rest {
				p.damage(d)
			}
			return p.err
		}
		if p.flush(); p.err != nil {
			return p.err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (f *replayFlags) shows(e journal.Event, times span) bool {
	return e.Index >= f.from && times.holds(e.Time) &&
		(len(f.kinds) == 0 || slices.Contains(f.kinds, e.Kind.String())) &&
		(f.reminder == "" || e.Reminder() == f.reminder)
}

// eventPrinter prints events, one a line: time, index, kind, and a sentence.
type eventPrinter struct {
	ui
	out  *bufio.Writer
	json bool
	zone *time.Location
	err  error // the first that a write came to
}

// kindColors mark what people look for; the kind's name says the same.
var kindColors = map[journal.Kind]string{
	journal.KindFire: bold, journal.KindAck: green, journal.KindRefuse: red, journal.KindDrop: yellow, journal.KindCancel: yellow,
	journal.KindSetAside: red, journal.KindHole: red, journal.KindStart: dim, journal.KindStop: dim, journal.KindPolicy: dim,
	journal.KindSnapshot: dim, journal.KindClock: yellow,
}

func (p *eventPrinter) event(e journal.Event) {
	if p.json {
		p.line(e)
		return
	}
	kind := fmt.Sprintf("%-9s", e.Kind)
	if code := kindColors[e.Kind]; code != "" {
		kind = p.paint(code, kind)
	}
	p.printf("%s %7d  %s  %s\n", e.When().In(p.zone).Format("2006-01-02 15:04:05.000-07:00"), e.Index, kind, text.Safe(sentence(e, p.zone)))
}

func (p *eventPrinter) damage(d journal.Damage) {
	if p.json {
		p.line(map[string]journal.Damage{"damage": d})
		return
	}
	p.printf("%s  %s in segment %s\n", p.paint(red, "DAMAGED"), d.Text(), d.Segment)
}

func (p *eventPrinter) line(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		p.err = errors.Join(p.err, err)
		return
	}
	p.printf("%s\n", data)
}

func (p *eventPrinter) printf(format string, v ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, v...)
	}
}

func (p *eventPrinter) flush() {
	if p.err == nil {
		p.err = p.out.Flush()
	}
}

// runState prints both views as they were.
func (f *replayFlags) runState(out io.Writer) error {
	zone, err := f.zoneOf()
	if err != nil {
		return err
	}
	index, err := indexAt(f.journalDir, f.at, zone)
	if err != nil {
		return err
	}
	state, err := recovery.StateAt(f.journalDir, index)
	if err != nil {
		return err
	}
	id, err := journal.IDOf(f.journalDir)
	if err != nil {
		return err
	}
	ref := projection.ViewRef{ID: id.String(), Index: state.Index}
	config := projection.ConfigView(state.Config, ref)
	reminders := projection.RemindersView(state.Reminders(), ref)
	if f.json {
		_, err = fmt.Fprintf(out, `{"index":%d,"time":%q,"config":%s,"reminders":%s}`+"\n", state.Index, text.Protocol(state.TimeMs), compact(config), compact(reminders))
		return err
	}
	_, err = fmt.Fprintf(out, "# after record %d, %s\n# %s\n%s# %s\n%s", state.Index, text.Agent(state.TimeMs, zone), f.configFile, config, f.remindersFile, reminders)
	return err
}

// indexAt is the index that --at names, or that of the newest event of the journal up to the time that it names.
func indexAt(journalDir, when string, zone *time.Location) (uint64, error) {
	scanner, err := journal.NewScanner(journalDir)
	if err != nil {
		return 0, notThere(err, journalDir)
	}
	if index, err := strconv.ParseUint(when, 10, 64); err == nil {
		for scanner.Next() {
			if scanner.Event().Index == index {
				return index, nil
			}
		}
		return 0, errors.Join(scanner.Err(), fmt.Errorf("--at %d: there is no such record; the journal ends with %d", index, scanner.Last()))
	}
	at, err := parseWhen("at", when, zone, time.Now())
	if err != nil {
		return 0, err
	}
	var index uint64
	var begins int64
	for scanner.Next() {
		e := scanner.Event()
		if begins == 0 {
			begins = e.Time
		}
		if e.Time <= at.UnixMilli() {
			index = e.Index
		}
	}
	if index == 0 {
		return 0, errors.Join(scanner.Err(), fmt.Errorf("--at %s: the journal begins later, %s", when, text.Agent(begins, zone)))
	}
	return index, scanner.Err()
}

// runVerify says whether all of the journal and the views is whole.
func (f *replayFlags) runVerify(out io.Writer) error {
	bar := newProgress("verify", f.journalDir)
	v, err := recovery.Verify(f.files(), bar.step)
	bar.done()
	if err != nil {
		return notThere(err, f.journalDir)
	}
	if f.json {
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s\n", data)
		if err != nil {
			return err
		}
	} else {
		w := &errWriter{out: out}
		if printVerification(ui{out: w, color: colorful(os.Stdout)}, v); w.err != nil {
			return w.err
		}
	}
	if n := len(v.Faults); n > 0 {
		return fmt.Errorf("%s in the journal or its views", text.Plural(n, "fault"))
	}
	return nil
}

func printVerification(u ui, v *recovery.Verification) {
	u.line("%s: %s (%d to %d) in %s, %s", v.Journal, text.Plural(int(v.Records), "record"), v.First, v.Last,
		text.Plural(v.Segments, "segment"), text.Plural(v.Snapshots, "snapshot"))
	for _, h := range v.Holes {
		u.detail("records %d to %d were lost earlier, and are marked so", h[0], h[1])
	}
	for _, fault := range v.Faults {
		u.bad("%s", fault)
	}
	if len(v.Faults) == 0 {
		u.done("framing, checksums, order, snapshots and both views hold")
	}
}

// compact is a JSON document without white space.
func compact(document []byte) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, document); err != nil {
		return document // it is ours: it has no other form
	}
	return b.Bytes()
}
