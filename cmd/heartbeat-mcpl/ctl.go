package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/attach"
	"heartbeat-mcpl/rpc/command"
	"heartbeat-mcpl/rpc/engine"
	"heartbeat-mcpl/rpc/tools"
)

// ctl is how a person reaches what the agent's tools reach: over the running server's socket, or on the journal itself when no
// server runs (SPEC 11.6).
type ctl struct {
	settings
	json bool
}

func newCtl() *cobra.Command {
	c := &ctl{}
	cmd := &cobra.Command{
		Use:   "ctl",
		Short: "See and change the heartbeat and the reminders of a running server, or of its files",
		Long: "ctl talks to the server that runs on the journal, or opens the journal itself when none runs. What it changes is in the\n" +
			"journal as done by \"cli\".",
		Example: "  heartbeat-mcpl ctl status --watch\n" +
			"  heartbeat-mcpl ctl every 10m Check the deployment\n" +
			"  heartbeat-mcpl ctl add \"Stand-up\" --cron \"0 9 * * 1-5\"\n" +
			"  heartbeat-mcpl ctl list",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noSuchCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return c.status(os.Stdout, false) },
	}
	c.register(cmd.PersistentFlags())
	cmd.PersistentFlags().BoolVar(&c.json, "json", false, "the answer as JSON")
	cmd.AddCommand(c.newStatus(), c.newEvery(), c.newWord("pause", "Stop the heartbeat without clearing it"),
		c.newWord("resume", "Let the heartbeat go on, from now"), c.newWord("clear", "Remove the heartbeat"),
		c.newConfigure(), c.newTrigger(), c.newAdd(), c.newList(), c.newCancel(), c.newHistory(), c.newSessions())
	return cmd
}

func (c *ctl) newStatus() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show the heartbeat, what comes next, and what waits", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch {
				return c.watch(cmd.Context(), os.Stdout)
			}
			return c.status(os.Stdout, false)
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it anew each second, until interrupted")
	return cmd
}

func (c *ctl) newEvery() *cobra.Command {
	return &cobra.Command{
		Use: "every INTERVAL PROMPT...", Short: "Set the heartbeat: every 10m Check the deployment", Long: "every sets the heartbeat: its interval, and what it says.\n\n" + aboutWords,
		Args: atLeastOne("an interval and what to do: every 10m Check the deployment"),
		RunE: func(_ *cobra.Command, args []string) error {
			line := "every " + words(args)
			if _, err := command.Parse(line); err != nil {
				return usageError{err}
			}
			return c.say(map[string]any{"command": line})
		},
	}
}

func (c *ctl) newWord(word, about string) *cobra.Command {
	return &cobra.Command{
		Use: word, Short: about, Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return c.say(map[string]any{"command": word}) },
	}
}

func (c *ctl) say(arguments map[string]any) error {
	return c.do(os.Stdout, "heartbeat_command", arguments)
}

func (c *ctl) newTrigger() *cobra.Command {
	return &cobra.Command{
		Use: "trigger", Short: "Send one heartbeat now", Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return c.do(os.Stdout, "heartbeat_trigger", nil) },
	}
}

func (c *ctl) newList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the reminders", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			return c.do(os.Stdout, "reminder_list", map[string]any{"limit": mostPage})
		},
	}
}

func (c *ctl) newCancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "Cancel a reminder", Args: one("the reminder's id or its first letters (ctl list shows all)"),
		ValidArgsFunction: offerReminders,
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := c.list()
			if err != nil {
				return err
			}
			id, err := pick(args[0], all)
			if err != nil {
				return err
			}
			return c.do(os.Stdout, "reminder_cancel", map[string]any{"id": id})
		},
	}
}

// list are all reminders that are set.
func (c *ctl) list() ([]named, error) {
	var all []named
	for more, after := 1, ""; more > 0; {
		arguments := map[string]any{"limit": mostPage}
		if after != "" {
			arguments["after"] = after
		}
		r, err := c.call("reminder_list", arguments)
		if err != nil {
			return nil, err
		}
		if r.IsError {
			return nil, errors.New(inFlags(r.Text))
		}
		var page struct {
			More      int
			Reminders []listedReminder
		}
		if err := json.Unmarshal(r.Structured, &page); err != nil {
			return nil, fmt.Errorf("read the server's answer: %w", err)
		}
		for _, r := range page.Reminders {
			all = append(all, named{r.ID, r.Message})
			after = r.ID
		}
		more = page.More
		if len(page.Reminders) == 0 {
			break
		}
	}
	return all, nil
}

// aboutWords says how a text is given.
const aboutWords = "The text needs no quotes. Flags may stand before and behind it; what stands behind -- is text, dashes and all."

// mostPage is how many reminders one answer lists at most.
const mostPage = 10_000

// option is a flag that becomes an argument of a tool.
type option struct{ flag, argument, about string }

// texts registers options whose values are texts, and returns what was given as arguments.
func texts(cmd *cobra.Command, options ...option) func(arguments map[string]any) {
	values := make([]string, len(options))
	for i, o := range options {
		cmd.Flags().StringVar(&values[i], o.flag, "", o.about)
	}
	return func(arguments map[string]any) {
		for i, o := range options {
			if cmd.Flags().Changed(o.flag) {
				arguments[o.argument] = values[i]
			}
		}
	}
}

var addOptions = []option{
	{"in", "in", "after a while: 90s, 10m, 1h30m, 2d"},
	{"at", "atIso", "at a time: 15:00, thu 15:00, 2026-10-10T09:00, or with an offset"},
	{"every", "every", "again and again: 30m, 1d, 2 weeks, 1 month, weekday"},
	{"cron", "cron", "on a calendar: \"0 9 * * 1-5\""},
	{"cron-zone", "timeZone", "the zone of times without an offset, --every and --cron; the agent's where it is left out"},
	{"until", "until", "a recurring one ends at this time"},
	{"title", "title", "a short heading"},
	{"severity", "severity", "normal or high"},
	{"url", "url", "a web page that it is about"},
}

var configureOptions = []option{
	{"every", "every", "the interval: 10m, 1h30m"},
	{"message", "message", "the text that it brings"},
	{"mode", "deliveryMode", "message or silent"},
	{"active-hours", "activeHours", "08:00-22:30, or always"},
}

var historyOptions = []option{
	{"id", "id", "only the reminder with this id, or these first letters of one; or heartbeat, or mesh"},
	{"since", "since", "from this time on: 2026-10-10T09:00, or a length before now such as 24h"},
}

func (c *ctl) newAdd() *cobra.Command {
	var count int
	cmd := &cobra.Command{
		Use: "add TEXT...", Short: "Set a reminder", Long: "add sets a reminder: its text, and when it comes.\n\n" + aboutWords,
		Example: "  heartbeat-mcpl ctl add Buy milk --in 2h\n  heartbeat-mcpl ctl add --cron \"0 9 * * 1-5\" Stand-up",
		Args:    atLeastOne("the reminder's text: ctl add Buy milk --in 2h"),
	}
	given := texts(cmd, addOptions...)
	cmd.Flags().IntVar(&count, "count", 0, "a recurring one ends after so many times")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		arguments := map[string]any{"message": words(args)}
		given(arguments)
		if cmd.Flags().Changed("count") {
			arguments["count"] = count
		}
		if arguments["in"] == nil && arguments["atIso"] == nil && arguments["every"] == nil && arguments["cron"] == nil {
			return usageError{errors.New("say when: --in, --at, --every or --cron")}
		}
		c.fromEnvironment()
		if err := c.check(); err != nil {
			return err
		}
		c.inZone(arguments)
		return c.flagged("reminder_add", arguments)
	}
	return cmd
}

// inZone gives the times of a reminder the zone that was named, if any: the server that answers has its own.
func (c *ctl) inZone(arguments map[string]any) {
	if c.timezone == "" {
		return
	}
	zone := c.zone(slog.New(newLogHandler(os.Stderr)))
	c.timezone = zone.String() // one that is none was warned about
	if arguments["timeZone"] == nil {
		arguments["timeZone"] = zone.String()
	}
}

func (c *ctl) newConfigure() *cobra.Command {
	var paused bool
	cmd := &cobra.Command{Use: "configure", Short: "Change the heartbeat's interval, text, mode, hours or pause", Args: noArgs}
	given := texts(cmd, configureOptions...)
	cmd.Flags().BoolVar(&paused, "paused", false, "pause it (--paused=false: let it go on)")
	cmd.RunE = func(*cobra.Command, []string) error {
		arguments := map[string]any{}
		given(arguments)
		if cmd.Flags().Changed("paused") {
			arguments["paused"] = paused
		}
		if len(arguments) == 0 {
			return usageError{errors.New("give what should change: --every, --message, --mode, --active-hours or --paused")}
		}
		return c.flagged("heartbeat_configure", arguments)
	}
	return cmd
}

func (c *ctl) newHistory() *cobra.Command {
	var limit int
	cmd := &cobra.Command{Use: "history", Short: "Show what was sent, taken, refused and dropped", Args: noArgs}
	given := texts(cmd, historyOptions...)
	cmd.Flags().IntVar(&limit, "limit", 20, "how many at most")
	cmd.RunE = func(*cobra.Command, []string) error {
		arguments := map[string]any{"limit": limit}
		given(arguments)
		c.fromEnvironment()
		if err := c.check(); err != nil {
			return err
		}
		if err := c.ofReminder(arguments); err != nil {
			return err
		}
		if since, ok := arguments["since"].(string); ok {
			at, err := parseWhen("since", since, c.agentsZone(slog.New(slog.DiscardHandler)), time.Now())
			if err != nil {
				return err
			}
			arguments["since"] = at.Format(time.RFC3339Nano)
		}
		return c.flagged("wake_history", arguments)
	}
	return cmd
}

// ofReminder makes the id whole that a history is asked for.
func (c *ctl) ofReminder(arguments map[string]any) error {
	id, given := arguments["id"].(string)
	if !given || id == "heartbeat" || id == projection.MeshID {
		return nil
	}
	whole, err := resolve(id, c.journalDir)
	arguments["id"] = whole
	return err
}

// flagged is do for a tool whose arguments were flags: one that is wrong is refused before anything is asked or opened.
func (c *ctl) flagged(tool string, arguments map[string]any) error {
	raw, err := json.Marshal(arguments)
	if err != nil {
		return err
	}
	if refused := new(tools.Refusal); errors.As(checkArguments(tool, raw), &refused) {
		for i, problem := range refused.Problems {
			refused.Problems[i] = ofFlag(inFlags(problem))
		}
		return usageError{errors.New(strings.Join(refused.Problems, "; "))}
	}
	return c.do(os.Stdout, tool, arguments)
}

// ofFlag has a problem that begins with an argument begin with the flag of that name.
func ofFlag(problem string) string {
	name, rest, _ := strings.Cut(problem, " ")
	if slices.ContainsFunc(slices.Concat(addOptions, configureOptions, historyOptions), func(o option) bool { return o.argument == name && o.flag == name }) ||
		name == "count" || name == "limit" || name == "paused" {
		return "--" + name + " " + rest
	}
	return problem
}

// checkArguments says what is wrong with a tool's arguments. The zone is no matter: what is a time in one is one in another.
func checkArguments(tool string, raw json.RawMessage) (err error) {
	switch tool {
	case "reminder_add":
		_, _, err = tools.ParseAdd(raw, time.Now(), time.UTC)
	case "heartbeat_configure":
		_, _, err = tools.ParseConfigure(raw)
	case "wake_history":
		_, _, err = tools.ParseHistory(raw, time.Now(), time.UTC)
	}
	return err
}

// inFlags has a refusal name the flags and commands that stand for a tool's arguments and for tools.
func inFlags(refusal string) string {
	names := []string{"Call reminder_list to see the ids", "ctl list shows the ids"}
	for _, o := range slices.Concat(addOptions, configureOptions) {
		if o.argument != o.flag {
			names = append(names, o.argument, "--"+o.flag)
		}
	}
	return strings.NewReplacer(names...).Replace(refusal)
}

// do calls a tool and prints what it answers; a refusal is an error.
func (c *ctl) do(out io.Writer, tool string, arguments map[string]any) error {
	r, err := c.call(tool, arguments)
	if err != nil {
		return err
	}
	if r.IsError {
		return errors.New(strings.TrimSuffix(inFlags(r.Text), "."))
	}
	if c.json {
		_, err = fmt.Fprintf(out, "%s\n", r.Structured)
		return err
	}
	_, err = fmt.Fprintln(out, r.Text)
	return err
}

// call asks the server that runs on the journal, or opens the journal when none does.
func (c *ctl) call(tool string, arguments map[string]any) (tools.Reply, error) {
	if arguments == nil {
		arguments = map[string]any{}
	}
	c.fromEnvironment()
	if err := c.check(); err != nil {
		return tools.Reply{}, err
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		return tools.Reply{}, err
	}
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		answer, err := attach.Ask(c.journalDir, tool, raw)
		if err == nil {
			return answer, nil
		}
		if !errors.Is(err, attach.ErrNoServer) {
			return tools.Reply{}, asItsUser(err)
		}
		if err := c.readable(); err != nil {
			return tools.Reply{}, err
		}
		r, err := c.alone(tool, raw)
		if held := new(journal.HeldError); errors.As(err, &held) {
			if time.Now().Before(deadline) {
				continue // a server that is just starting, or ending
			}
			return tools.Reply{}, fmt.Errorf("process %d holds the journal %s and cannot be reached: end it, or use the server's tools", held.PID, c.journalDir)
		}
		return r, err
	}
}

// alone answers on the journal itself: an engine without a host, for one call.
func (c *ctl) alone(tool string, raw json.RawMessage) (tools.Reply, error) {
	log := slog.New(newLogHandler(os.Stderr))
	zone := c.agentsZone(log)
	store := recovery.Options{Files: c.files(), Version: version() + projection.CtlSuffix, PID: os.Getpid(), Zone: zone.String(), Keep: c.keeping(log), MustJournal: true}
	o := engine.Options{Store: store, Zone: zone, Log: slog.New(slog.DiscardHandler), Offline: "no server runs"}
	if r, looked, err := c.look(o, tool, raw, log); looked || err != nil {
		return r, err
	}
	e, err := engine.Open(o)
	switch {
	case errors.Is(err, journal.ErrHeld):
		return tools.Reply{}, err
	case err != nil:
		return tools.Reply{}, fmt.Errorf("nothing was kept: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx, func() string { return "ctl" }) }()
	got := make(chan tools.Reply, 1)
	e.Call(nil, engine.Call{By: journal.ByCLI, Tool: tool, Arguments: raw}, func(r tools.Reply) { got <- r }) // false: ended says why
	var r tools.Reply
	select {
	case err := <-ended: // before it answered
		if errors.Is(err, journal.ErrHeld) {
			return tools.Reply{}, err
		}
		return tools.Reply{}, fmt.Errorf("nothing was kept: %w", err)
	case r = <-got:
	}
	stop()
	if err := <-ended; err != nil { // there is no server whose memory could keep it
		return tools.Reply{}, fmt.Errorf("not saved: %w", err)
	}
	return r, nil
}

// agentsZone is the agent's zone, as the journal knows it where nothing else names it. What is wrong with a journal is said when it is
// opened.
func (c *ctl) agentsZone(log *slog.Logger) *time.Location {
	_ = c.zoneFromJournal()
	return c.zone(log)
}

// watch shows the status anew each second.
func (c *ctl) watch(ctx context.Context, out *os.File) error {
	for {
		if colorful(out) {
			fmt.Fprint(out, "\x1b[H\x1b[2J")
		}
		if err := c.status(out, true); err != nil {
			return quietly(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// status is the screen for people.
func (c *ctl) status(out *os.File, watching bool) error {
	if c.json {
		return c.do(out, "heartbeat_status", nil)
	}
	r, err := c.call("heartbeat_status", nil)
	if err != nil {
		return err
	}
	list, err := c.call("reminder_list", map[string]any{"limit": mostListed})
	if err != nil {
		return err
	}
	if r.IsError || list.IsError {
		return errors.New(r.Text)
	}
	w := &errWriter{out: out}
	printStatus(ui{out: w, color: colorful(out)}, r.Structured, list.Structured, c.agentsZone(slog.New(slog.DiscardHandler)))
	if watching {
		fmt.Fprintf(w, "\n%s; ends with Ctrl-C\n", time.Now().Format("15:04:05"))
	}
	return w.err
}
