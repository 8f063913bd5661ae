package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/text"
)

// offers is what the shell offers where a flag's value is typed. For one that is not here it offers nothing: no value but a path is the
// name of a file.
var offers = map[string]cobra.CompletionFunc{
	"config-file":    cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt),
	"reminders-file": cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt),
	"html":           cobra.FixedCompletions([]string{"html"}, cobra.ShellCompDirectiveFilterFileExt),
	"journal-dir":    cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
	"mesh-dir":       cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
	"akashic":        cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
	"timezone":       offerZones,
	"cron-zone":      offerZones,
	"kind":           offerKinds,
	"reminder":       offerReminders,
	"id":             offerReminders,
	"mesh":           oneOf("on", "off"),
	"channel":        oneOf("on", "off"),
	"mode":           oneOf(projection.ModeMessage, projection.ModeSilent),
	"severity":       oneOf("normal", projection.SeverityHigh),
	"paused":         oneOf("true", "false"),
	"active-hours":   oneOf("always", "08:00-22:30"),
}

func oneOf(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// completeWords has the shell offer for each command below cmd what it takes, and the names of files only where it takes one.
func completeWords(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		offer := offers[flag.Name]
		if offer == nil {
			offer = cobra.NoFileCompletions
		}
		_ = cmd.RegisterFlagCompletionFunc(flag.Name, offer) // fails for a flag of a command above, which has it already
	})
	for _, c := range cmd.Commands() {
		if c.ValidArgsFunction == nil && c.Name() != "try" { // behind that stands a command of any kind
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
		completeWords(c)
	}
}

func offerZones(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return zoneNames(), cobra.ShellCompDirectiveNoFileComp
}

// offerCommands offers the commands below the one that was typed.
func offerCommands(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	above, rest, err := cmd.Root().Find(args)
	var names []string
	if err == nil && len(rest) == 0 {
		for _, c := range above.Commands() {
			names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// offerKinds offers kinds of events behind those that were typed.
func offerKinds(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndex(typed, ",")+1]
	kinds := journal.Kinds()
	for i, kind := range kinds {
		kinds[i] = before + kind
	}
	return kinds, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// offerReminders offers the ids of the reminders that are open, with what they say.
func offerReminders(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if cmd.Name() == "cancel" && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var s settings
	for _, row := range settingsTable {
		if flag := cmd.Flags().Lookup(row.flag); flag != nil {
			*row.value(&s) = flag.Value.String()
		}
	}
	s.fromEnvironment()
	var ids []string
	for _, r := range openReminders(s.journalDir) {
		ids = append(ids, cobra.CompletionWithDesc(r.id, text.OneLine(short(r.message, mostMessage))))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// zoneFolders are where systems keep their time zones.
var zoneFolders = []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"}

// zoneNames are the names of the time zones that the system lists. The database in the binary (SPEC 1.3) cannot be listed.
var zoneNames = sync.OnceValue(func() []string {
	for _, root := range append([]string{os.Getenv("ZONEINFO")}, zoneFolders...) {
		if names := zonesIn(root); len(names) > 0 {
			return names
		}
	}
	return nil
})

func zonesIn(root string) []string {
	var names []string
	if root == "" {
		return nil
	}
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error { // what cannot be read has no names to offer
		if err != nil {
			return nil
		}
		name, err := filepath.Rel(root, path)
		switch first := name[0]; {
		case err != nil || name == ".":
		case first < 'A' || first > 'Z': // posix, right, tzdata.zi: not zones, or the same again
			if entry.IsDir() {
				return fs.SkipDir
			}
		case !entry.IsDir() && !strings.Contains(name, "."):
			names = append(names, filepath.ToSlash(name))
		}
		return nil
	})
	slices.Sort(names)
	return names
}
