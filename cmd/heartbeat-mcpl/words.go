package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heartbeat-mcpl/rpc/tools"
)

// didYouMean is the end of a sentence about a word that is none of the names; empty where none of them is like it.
func didYouMean(word, before string, names []string) string {
	near := tools.Meant(word, names)
	if len(near) == 0 {
		return ""
	}
	near = near[:min(3, len(near))]
	for i, name := range near {
		near[i] = before + name
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// noSuchCommand says that word is no command of cmd's, and which one is like it.
func noSuchCommand(cmd *cobra.Command, word string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" {
			names = append(names, c.Name())
		}
	}
	of, before := "", ""
	if cmd.HasParent() {
		of, before = " of "+cmd.Name(), cmd.Name()+" "
	}
	meant := didYouMean(word, before, names)
	if meant == "" {
		last := len(names) - 1
		meant = "; there are " + strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return usageError{fmt.Errorf("%q is no command%s%s", word, of, meant)}
}

// flagError says in our words what the library found wrong with a flag.
func flagError(flags *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	var wrong *pflag.InvalidValueError
	var odd *pflag.InvalidSyntaxError
	switch {
	case errors.As(err, &unknown):
		err = errors.New(unknownFlag(flags, unknown))
	case errors.As(err, &empty):
		err = fmt.Errorf("flag needs an argument: --%s%s", empty.GetFlag().Name, example(empty.GetFlag()))
	case errors.As(err, &wrong):
		err = fmt.Errorf("--%s %q: %s", wrong.GetFlag().Name, wrong.GetValue(), wants(wrong.GetFlag()))
	case errors.As(err, &odd):
		err = fmt.Errorf("%q is no flag: a flag is two dashes and a name, such as --json", odd.GetSpecifiedFlag())
	}
	return usageError{err}
}

func unknownFlag(flags *pflag.FlagSet, unknown *pflag.NotExistError) string {
	var names []string
	flags.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	if short := unknown.GetSpecifiedShortnames(); short != "" { // -json, -x
		name, _, _ := strings.Cut(short, "=")
		said := "unknown flag: -" + name
		if len(name) == 1 {
			return said
		}
		return said + didYouMean(name, "--", names)
	}
	name := unknown.GetSpecifiedName()
	return "unknown flag: --" + name + didYouMean(name, "--", names)
}

// wants says what the value of a flag has to be.
func wants(flag *pflag.Flag) string {
	switch flag.Value.Type() {
	case "bool":
		return "give true or false, or the flag alone"
	case "int", "uint64":
		return "give a whole number" + example(flag)
	case "stringSlice":
		return "give words with commas between them" + example(flag)
	}
	return "the value cannot be read"
}

// examples are values of flags, for who gave none or a wrong one.
var examples = map[string]string{
	"config-file": "data/heartbeat-config.json", "reminders-file": "data/heartbeat-reminders.json", "journal-dir": "data/heartbeat-journal",
	"timezone": "Europe/Berlin", "cron-zone": "Europe/Berlin", "keep": "90d", "mesh": "off", "mesh-url": "nats://host:4222",
	"in": "10m", "at": "2026-10-10T09:00", "every": "1h30m", "cron": `"0 9 * * 1-5"`, "until": "2026-12-31", "since": "24h",
	"severity": "high", "mode": "silent", "active-hours": "08:00-22:30", "count": "3", "limit": "20", "from": "1", "to": "100",
	"kind": "fire,ack", "html": "audit.html", "akashic": "~/.akashic/workspace",
	"wake-command": `'["notify-send", "{text}"]'`, "wake-timeout": "10m", "wake-retry": "30s",
}

func example(flag *pflag.Flag) string {
	if e := examples[flag.Name]; e != "" {
		return ", such as --" + flag.Name + " " + e
	}
	return ""
}

// noEmptyFlags refuses a flag that was given an empty text: a variable that is not set, in a script, means something else than
// no flag.
func noEmptyFlags(cmd *cobra.Command) error {
	var err error
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Value.String() == "" || flag.Value.String() == "[]" {
			err = usageError{fmt.Errorf("--%s is empty: give it a value, or leave it out", flag.Name)}
		}
		if flag.Value.Type() == "uint64" && flag.Value.String() == "0" {
			err = usageError{fmt.Errorf("--%s is 0: events are counted from 1", flag.Name)}
		}
	})
	return err
}

// words are the texts that stand behind a command, joined: a text needs no quotes.
func words(args []string) string { return strings.Join(args, " ") }

// atLeastOne refuses a command without words; what says what they are.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if strings.TrimSpace(words(args)) == "" {
			return usageError{errors.New("give " + what)}
		}
		return nil
	}
}

// one refuses a command that is not given one word; what says what it is.
func one(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usageError{errors.New("give " + what)}
		case len(args) > 1:
			return usageError{fmt.Errorf("%s takes one word, %s, and was given %d", cmd.Name(), what, len(args))}
		}
		return nil
	}
}
