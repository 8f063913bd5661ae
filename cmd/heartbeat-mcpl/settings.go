package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/thlib/go-timezone-local/tzlocal"

	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/agents"
	"heartbeat-mcpl/rpc/tools"
)

// settings are what flags and the environment say (SPEC 1.2); a flag wins over its variable, a variable over the
// default.
type settings struct {
	configFile    string
	remindersFile string
	journalDir    string
	timezone      string
	keep          string
	mesh          string
	meshDir       string
	meshURL       string
	wakeCommand   string
	wakeTimeout   string
	wakeRetry     string
	channel       string
	proactive     bool

	flags *pflag.FlagSet // that these were registered in
}

// setting is one row of the table that flags, variables and the README's reference come from.
type setting struct {
	flag     string
	variable string
	standard string // the default, as people read it
	about    string
	value    func(*settings) *string
	isPath   bool
	file     string                   // of a path that leads to a file: its usual name
	serving  bool                     // only what delivers wakes takes it
	bare     string                   // what the flag alone says; empty: it needs a value
	wrong    func(value string) error // says what is wrong with a value; nil: nothing is, or it is said elsewhere
}

var settingsTable = []setting{
	{
		flag: "config-file", variable: "HEARTBEAT_CONFIG_FILE", standard: "./heartbeat-config.json", about: "the config view",
		value: func(s *settings) *string { return &s.configFile }, isPath: true, file: "heartbeat-config.json",
	},
	{
		flag: "reminders-file", variable: "HEARTBEAT_REMINDERS_FILE", standard: "heartbeat-reminders.json beside the config file", about: "the reminders view",
		value: func(s *settings) *string { return &s.remindersFile }, isPath: true, file: "heartbeat-reminders.json",
	},
	{
		flag: "journal-dir", variable: "HEARTBEAT_JOURNAL_DIR", standard: "heartbeat-journal beside the config file", about: "the journal's folder",
		value: func(s *settings) *string { return &s.journalDir }, isPath: true,
	},
	{
		flag: "timezone", variable: "AGENT_TIMEZONE", standard: "the system's time zone, else UTC", about: "the agent's time zone, an IANA name such as Europe/Berlin",
		value: func(s *settings) *string { return &s.timezone },
	},
	{
		flag: "keep", variable: "HEARTBEAT_KEEP", standard: "everything", about: "how long old events stay in the journal, such as 90d or 36h",
		value: func(s *settings) *string { return &s.keep },
	},
	{
		flag: "mesh", variable: "HEARTBEAT_MESH", standard: "on", about: "off: the tools by which agents see each other are not listed",
		value: func(s *settings) *string { return &s.mesh },
	},
	{
		flag: "mesh-dir", variable: "HEARTBEAT_MESH_DIR", standard: "heartbeat-mcpl/mesh in the user's state folder", about: "the folder that the agents on this machine share",
		value: func(s *settings) *string { return &s.meshDir }, isPath: true,
	},
	{
		flag: "mesh-url", variable: "HEARTBEAT_MESH_URL", standard: "none", about: "nats://HOST:PORT: the mesh of many machines",
		value: func(s *settings) *string { return &s.meshURL },
	},
	{
		flag: "wake-command", variable: "HEARTBEAT_WAKE_COMMAND", standard: "none", about: "a program that is started for each wake that no session takes: a JSON array of arguments, or one line in words",
		value: func(s *settings) *string { return &s.wakeCommand }, serving: true, wrong: wrongCommand,
	},
	{
		flag: "wake-timeout", variable: "HEARTBEAT_WAKE_TIMEOUT", standard: "15m", about: "how long the wake command may run",
		value: func(s *settings) *string { return &s.wakeTimeout }, serving: true, wrong: wrongLength,
	},
	{
		flag: "wake-retry", variable: "HEARTBEAT_WAKE_RETRY", standard: "60s", about: "how long a wake command that said not now (status 75) is left alone, twice as long each time up to 1h",
		value: func(s *settings) *string { return &s.wakeRetry }, serving: true, wrong: wrongLength,
	},
	{
		flag: "channel", variable: "HEARTBEAT_CHANNEL", standard: "off", about: "on: wakes reach Claude Code as messages of a channel",
		value: func(s *settings) *string { return &s.channel }, serving: true, wrong: wrongSwitch, bare: "on",
	},
}

// register registers what a command needs that changes the files or looks at them.
func (s *settings) register(flags *pflag.FlagSet) {
	s.registerOnly(flags, slices.DeleteFunc(slices.Clone(settingsTable), func(row setting) bool { return row.serving })...)
}

// registerServing registers what a server needs.
func (s *settings) registerServing(flags *pflag.FlagSet) {
	s.registerOnly(flags, settingsTable...)
	flags.BoolVar(&s.proactive, "proactive", false, "list the tools for hosts that poll on every connection, also where wakes are pushed")
}

// registerReading registers what a command that only reads needs.
func (s *settings) registerReading(flags *pflag.FlagSet) {
	s.registerOnly(flags, slices.DeleteFunc(slices.Clone(settingsTable), func(row setting) bool {
		return row.serving || row.flag == "keep" || strings.HasPrefix(row.flag, "mesh")
	})...)
}

func (s *settings) registerOnly(flags *pflag.FlagSet, rows ...setting) {
	s.flags = flags
	for _, row := range rows {
		flags.StringVar(row.value(s), row.flag, "", fmt.Sprintf("%s (or %s; default %s)", row.about, row.variable, row.standard))
		flags.Lookup(row.flag).NoOptDefVal = row.bare
	}
}

// fromEnvironment fills in what no flag said: for the server and for every command, so that all of them look at the same files.
func (s *settings) fromEnvironment() {
	for _, row := range settingsTable {
		if v := row.value(s); *v == "" {
			*v = os.Getenv(row.variable)
		}
	}
	if s.configFile == "" {
		s.configFile = "heartbeat-config.json"
	}
	if s.remindersFile == "" {
		s.remindersFile = besideConfig(s.configFile)
	}
	if s.journalDir == "" {
		s.journalDir = recovery.DefaultJournalDir(s.configFile)
	}
}

// check finds settings that cannot be meant: a path that leads to something else, a flag with a wrong value, two that contradict each
// other. A wrong value of a variable is warned about where it is used.
func (s *settings) check() error {
	for _, row := range settingsTable {
		if err := s.checkPath(row); err != nil {
			return err
		}
	}
	if s.given("timezone") && loadZone(s.timezone) == nil {
		return usageError{fmt.Errorf("--timezone %q is no time zone; give an IANA name such as Europe/Berlin%s", s.timezone, didYouMean(s.timezone, "", zoneNames()))}
	}
	if s.given("keep") && s.keepFor() == 0 {
		return usageError{fmt.Errorf("--keep %q is no length; give a number and its unit, such as 90d or 36h", s.keep)}
	}
	if err := s.checkValues(); err != nil {
		return err
	}
	return s.contradictions()
}

// checkServing is check for a server, which a host waits for: it starts whatever its files are (SPEC 1.4, 3.1), and a wrong zone never
// stops it (SPEC 1.2). A path that a flag names is no state of the files: with a wrong one the journal would be in a wrong place.
func (s *settings) checkServing(log *slog.Logger) error {
	for _, row := range settingsTable {
		err := s.checkPath(row)
		if err != nil && s.given(row.flag) {
			return err
		}
		if err != nil {
			log.Warn(err.Error())
		}
	}
	if err := s.checkValues(); err != nil {
		return err
	}
	return s.contradictions()
}

// given says whether a flag named the setting, not a variable or the default.
func (s *settings) given(flag string) bool { return s.flags.Changed(flag) }

// knows says whether the command takes the setting.
func (s *settings) knows(flag string) bool { return s.flags.Lookup(flag) != nil }

// checkPath makes sure that a view is no folder, and that a folder is one.
func (s *settings) checkPath(row setting) error {
	path := *row.value(s)
	if !row.isPath || path == "" || !s.knows(row.flag) {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil // it is not there yet; or whoever opens it says why it cannot be
	}
	name := row.variable
	if s.given(row.flag) {
		name = "--" + row.flag
	}
	switch isFolder := row.file == ""; {
	case info.IsDir() && !isFolder:
		return usageError{fmt.Errorf("%s %s is a folder; did you mean %s?", name, path, filepath.Join(path, row.file))}
	case !info.IsDir() && isFolder:
		return usageError{fmt.Errorf("%s %s is a file; give %s", name, path, row.about)}
	}
	return nil
}

// checkValues finds values that cannot be meant. One of a flag is refused; one of a variable is warned about, and the default is used.
func (s *settings) checkValues() error {
	for _, row := range settingsTable {
		value := row.value(s)
		if row.wrong == nil || *value == "" || !s.knows(row.flag) {
			continue
		}
		err := row.wrong(*value)
		if err != nil && s.given(row.flag) {
			return usageError{fmt.Errorf("--%s %q: %w", row.flag, *value, err)}
		}
		if err != nil {
			slog.New(newLogHandler(os.Stderr)).Warn(fmt.Sprintf("%s %q: %s (the default is used: %s)", row.variable, *value, err, row.standard))
			*value = ""
		}
	}
	return nil
}

// contradictions finds settings that contradict each other.
func (s *settings) contradictions() error {
	if recovery.SameFile(s.configFile, s.remindersFile) {
		return usageError{fmt.Errorf("the config view and the reminders view are the same file (%s): give two with --config-file and --reminders-file, or their variables", s.configFile)}
	}
	if !s.knows("mesh") {
		return nil
	}
	if on, err := s.hasMesh(); !on || err != nil || s.meshURL == "" {
		return err
	}
	if err := agents.CheckNATS(s.meshURL); err != nil {
		return usageError{err}
	}
	return nil
}

// besideConfig is the reminders view where only the config view is named: the one beside it. A set-up of the Node.js server, which
// looked in the working folder, goes on with that one: where none is beside the config view, and no other config view stands there
// that it belongs to.
func besideConfig(config string) string {
	beside := filepath.Join(filepath.Dir(config), recovery.RemindersName)
	if recovery.SameFile(beside, recovery.RemindersName) || !missing(beside) || missing(recovery.RemindersName) {
		return beside
	}
	log := slog.New(newLogHandler(os.Stderr))
	if !missing("heartbeat-config.json") && !recovery.SameFile(config, "heartbeat-config.json") {
		log.Warn(fmt.Sprintf("the reminders are in %s, beside the config file; the %s in the working folder is left alone, as it stands beside another config file (to use it, name it with HEARTBEAT_REMINDERS_FILE or --reminders-file)", beside, recovery.RemindersName))
		return beside
	}
	log.Info(fmt.Sprintf("the reminders are in the working folder's %s: only the config file %s is named, and no reminders file is beside it", recovery.RemindersName, config))
	return recovery.RemindersName
}

// readingEnvironment is fromEnvironment for a command that only reads: where the journal alone is named, the views are
// looked for beside it.
func (s *settings) readingEnvironment() {
	journalDir := cmp.Or(s.journalDir, os.Getenv("HEARTBEAT_JOURNAL_DIR"))
	if s.configFile = cmp.Or(s.configFile, os.Getenv("HEARTBEAT_CONFIG_FILE")); s.configFile == "" && journalDir != "" {
		s.configFile = filepath.Join(filepath.Dir(journalDir), "heartbeat-config.json")
	}
	s.fromEnvironment()
}

// zoneFromJournal takes the agent's zone from the journal where nothing else names it.
func (s *settings) zoneFromJournal() error {
	if s.timezone != "" {
		return nil
	}
	name, err := recovery.ZoneOf(s.journalDir)
	s.timezone = name
	return err
}

// readable makes sure that what is there can be read: of files that cannot, no state is made up.
func (s *settings) readable() error {
	entries, err := os.ReadDir(s.journalDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return asItsUser(err)
	}
	paths := []string{s.configFile, s.remindersFile}
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			paths = append(paths, filepath.Join(s.journalDir, entry.Name()))
		}
	}
	for _, path := range paths {
		if err := opens(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return asItsUser(err)
		}
	}
	return nil
}

// opens says why a file cannot be read; what is no file is left to who reads it.
func opens(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return file.Close()
}

// asItsUser says what to do about what this user may not read.
func asItsUser(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; run it as the user of the server", err)
	}
	return err
}

func (s *settings) files() recovery.Files {
	return recovery.Files{Config: s.configFile, Reminders: s.remindersFile, Journal: s.journalDir}
}

// zone is the agent's time zone. A name that is none is warned about and never stops the server (SPEC 1.2).
func (s *settings) zone(log *slog.Logger) *time.Location {
	if s.timezone == "" {
		return systemZone()
	}
	if zone := loadZone(s.timezone); zone != nil {
		return zone
	}
	zone := systemZone()
	log.Warn(fmt.Sprintf("AGENT_TIMEZONE (or --timezone) %q is no time zone (give an IANA name such as Europe/Berlin): %s is used", s.timezone, zone))
	return zone
}

// loadZone is the zone of an IANA name, nil where there is none. "Local" would load as a nameless zone; it is no IANA name.
func loadZone(name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil
	}
	return zone
}

// systemZone is the system's zone by its IANA name, UTC where it has none. The library reads the name off the link
// /etc/localtime; what it does not know is a TZ that is a path, and a system that names its zone in /etc/timezone.
func systemZone() *time.Location {
	name := ""
	if tz, ok := os.LookupEnv("TZ"); ok {
		var isPath bool
		if _, name, isPath = strings.Cut(tz, "zoneinfo/"); !isPath {
			name = strings.TrimPrefix(tz, ":")
		}
	} else if local, err := tzlocal.LocalTZ(); err == nil {
		name = local
	} else if text, err := os.ReadFile("/etc/timezone"); err == nil {
		name = strings.TrimSpace(string(text))
	}
	if zone := loadZone(name); zone != nil {
		return zone
	}
	return time.UTC
}

// keeping is how long old events are kept, 0 for ever. A length that is none is warned about: keeping everything loses
// nothing.
func (s *settings) keeping(log *slog.Logger) time.Duration {
	if s.keep == "" {
		return 0
	}
	kept := s.keepFor()
	if kept == 0 {
		log.Warn(fmt.Sprintf("HEARTBEAT_KEEP (or --keep) %q is no length (give a number and its unit, such as 90d or 36h): everything is kept", s.keep))
	}
	return kept
}

// keepFor is the length that the setting says, 0 where it says none.
func (s *settings) keepFor() time.Duration { return lengthOf(s.keep) }

// lengthOf is the length of time that a text says, 0 where it says none.
func lengthOf(text string) time.Duration {
	ms, err := tools.ParseLength(text)
	if err != nil {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
