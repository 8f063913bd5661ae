package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"heartbeat-mcpl/projection/rawjson"
	"heartbeat-mcpl/recovery"
)

// registerFlags are what `register` was asked for.
type registerFlags struct {
	settings
	akashic, name string
	dryRun        bool
}

func newRegister() *cobra.Command {
	var f registerFlags
	cmd := &cobra.Command{
		Use:   "register --akashic FOLDER",
		Short: "Register this server with an agent loop that polls (Akashic)",
		Long: "register writes this server into mcp_servers.json, and its channels (alert, content, context) into\n" +
			"proactive_sources.json, in the workspace folder of an Akashic agent. What else is in these files stays as it is.",
		Example: "  heartbeat-mcpl register --akashic ~/.akashic/workspace --config-file ~/data/heartbeat-config.json --dry-run",
		Args:    noArgs,
		RunE:    func(*cobra.Command, []string) error { return f.run(os.Stdout) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.akashic, "akashic", "", "the agent's workspace folder")
	flags.StringVar(&f.name, "name", "heartbeat", "the server's name there")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be written, and write nothing")
	f.registerOnly(flags, settingsTable...)
	return cmd
}

func (f *registerFlags) run(out io.Writer) error {
	if f.akashic == "" {
		return usageError{errors.New("--akashic FOLDER is missing: the workspace folder of the agent, such as ~/.akashic/workspace")}
	}
	if !serverName.MatchString(f.name) {
		return usageError{fmt.Errorf("--name %q: give letters, digits, dots, dashes and underscores; clients join it to ids with a colon", f.name)}
	}
	if info, err := os.Stat(f.akashic); err != nil || !info.IsDir() {
		return fmt.Errorf("--akashic %s: there is no such folder; give the workspace folder of the agent", f.akashic)
	}
	server, err := f.server()
	if err != nil {
		return err
	}
	edits := []struct {
		name string
		edit func(*jsonFile) error
		file *jsonFile
		data []byte
	}{
		{name: "mcp_servers.json", edit: func(j *jsonFile) error { return j.putServer(f.name, server) }},
		{name: "proactive_sources.json", edit: func(j *jsonFile) error { return j.putSources(f.name) }},
	}
	for i := range edits { // both are ready before either is written
		e := &edits[i]
		path := filepath.Join(f.akashic, e.name)
		if e.file, err = readJSONFile(path); err != nil {
			return err
		}
		if err = e.edit(e.file); err != nil {
			return fmt.Errorf("%s: %w; nothing was written", path, err)
		}
		if e.data, err = e.file.bytes(); err != nil {
			return err
		}
	}
	for _, e := range edits {
		if err := f.write(out, filepath.Join(f.akashic, e.name), e.file, e.data); err != nil {
			return err
		}
	}
	return nil
}

var serverName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

func (f *registerFlags) write(out io.Writer, path string, j *jsonFile, data []byte) (err error) {
	switch {
	case f.dryRun:
		_, err = fmt.Fprintf(out, "# %s\n%s", path, data)
		return err
	case bytes.Equal(data, j.was):
		_, err = fmt.Fprintf(out, "%s: as it should be\n", path)
		return err
	}
	// A link is written through, an existing file's mode is kept.
	target := recovery.Target(path)
	if err := renameio.WriteFile(target, data, 0o600, renameio.WithExistingPermissions(), renameio.WithTempDir(filepath.Dir(target))); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = fmt.Fprintf(out, "%s: written\n", path)
	return err
}

// server is what mcp_servers.json says of this server: the command, and the settings that were given, as absolute paths.
func (f *registerFlags) server() (*serverEntry, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's own file: %w", err)
	}
	f.fromEnvironment()
	if err := f.check(); err != nil {
		return nil, err
	}
	env := map[string]string{}
	for _, row := range settingsTable {
		value := *row.value(&f.settings)
		if value == "" {
			continue
		}
		if row.isPath {
			if value, err = filepath.Abs(value); err != nil {
				return nil, err
			}
		}
		env[row.variable] = value
	}
	return &serverEntry{command: []string{self, "--stdio"}, env: env}, nil
}

// serverEntry is this server in mcp_servers.json.
type serverEntry struct {
	command []string
	env     map[string]string
}

// jsonFile is a JSON object in a file whose members keep their order and their bytes, but for those that are set.
type jsonFile struct {
	was     []byte // empty: there is no file yet
	names   []string
	members map[string]json.RawMessage
}

func readJSONFile(path string) (*jsonFile, error) {
	j := &jsonFile{members: map[string]json.RawMessage{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, err
	}
	j.was = data
	if err := j.parse(data); err != nil {
		return nil, fmt.Errorf("%s is no JSON object (%w): mend it, nothing was written", path, err)
	}
	return j, nil
}

func (j *jsonFile) parse(data []byte) error {
	if err := json.Unmarshal(data, &j.members); err != nil {
		return err
	}
	if j.members == nil {
		return errors.New("it is null")
	}
	var odd error
	rawjson.Each(data, func(name []byte, value json.RawMessage) {
		if bytes.ContainsRune(name, utf8.RuneError) { // it could not be written as it is
			odd = cmp.Or(odd, fmt.Errorf("the name %q holds what is no character", name))
		}
		if slices.Contains(j.names, string(name)) {
			odd = cmp.Or(odd, fmt.Errorf("%q is there twice", name))
			return
		}
		j.names, j.members[string(name)] = append(j.names, string(name)), value
	})
	return odd
}

func (j *jsonFile) set(name string, value any) error {
	text, err := rawjson.Append(nil, value)
	if err != nil {
		return err
	}
	if _, has := j.members[name]; !has {
		j.names = append(j.names, name)
	}
	j.members[name] = text
	return nil
}

// bytes are the file's, two spaces indented.
func (j *jsonFile) bytes() ([]byte, error) {
	raw, err := j.compact()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func (j *jsonFile) compact() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range j.names {
		if i > 0 {
			b.WriteByte(',')
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		b.Write(quoted)
		b.WriteByte(':')
		b.Write(j.members[name])
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// part is a member that is an object; one that is missing is empty.
func (j *jsonFile) part(name string) (*jsonFile, error) {
	part := &jsonFile{members: map[string]json.RawMessage{}}
	if raw, ok := j.members[name]; ok {
		if err := part.parse(raw); err != nil {
			return nil, fmt.Errorf("its %s is no object (%w)", name, err)
		}
	}
	return part, nil
}

// setPart puts a member that is an object in its place.
func (j *jsonFile) setPart(name string, part *jsonFile) error {
	raw, err := part.compact()
	if err != nil {
		return err
	}
	return j.set(name, json.RawMessage(raw))
}

// putServer sets the command and our variables of the server of that name; what else its entry says stays.
func (j *jsonFile) putServer(name string, server *serverEntry) error {
	servers, err := j.part("servers")
	if err != nil {
		return err
	}
	entry, err := servers.part(name)
	if err != nil {
		return err
	}
	env, err := entry.part("env")
	if err != nil {
		return err
	}
	for _, variable := range slices.Sorted(maps.Keys(server.env)) {
		if err := env.set(variable, server.env[variable]); err != nil {
			return err
		}
	}
	return errors.Join(entry.set("command", server.command), entry.setPart("env", env), servers.setPart(name, entry), j.setPart("servers", servers))
}

// putSources makes sure that each channel of the server of that name is there; an entry that is there keeps what it says.
func (j *jsonFile) putSources(name string) error {
	var sources []json.RawMessage
	if raw, ok := j.members["sources"]; ok {
		if err := json.Unmarshal(raw, &sources); err != nil {
			return fmt.Errorf("its sources are no array (%w)", err)
		}
	}
	for _, channel := range channels {
		i := slices.IndexFunc(sources, func(raw json.RawMessage) bool {
			var s struct{ Server, Channel string }
			return json.Unmarshal(raw, &s) == nil && s.Server == name && s.Channel == channel
		})
		if i < 0 {
			i = len(sources)
			sources = append(sources, json.RawMessage(`{}`))
		}
		source := &jsonFile{members: map[string]json.RawMessage{}}
		if err := source.parse(sources[i]); err != nil {
			return err
		}
		for _, member := range sourceOf(name, channel) {
			if _, said := source.members[member.name]; !said {
				if err := source.set(member.name, member.value); err != nil {
					return err
				}
			}
		}
		raw, err := source.compact()
		if err != nil {
			return err
		}
		sources[i] = raw
	}
	return j.set("sources", sources)
}

type sourceMember struct {
	name  string
	value any
}

// sourceOf is what an entry for a channel must say.
func sourceOf(name, channel string) []sourceMember {
	members := []sourceMember{{"server", name}, {"channel", channel}}
	if channel == "context" {
		return append(members, sourceMember{"get_tool", "get_context"}, sourceMember{"enabled", true})
	}
	members = append(members, sourceMember{"get_tool", "get_proactive_events"}, sourceMember{"ack_tool", "acknowledge_events"})
	if channel == "content" {
		members = append(members, sourceMember{"poll_tool", "poll_feeds"})
	}
	return append(members, sourceMember{"enabled", true})
}

var channels = []string{"alert", "content", "context"}
