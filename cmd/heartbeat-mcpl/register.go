package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
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
	f.register(flags)
	return cmd
}

func (f *registerFlags) run(out io.Writer) error {
	if f.akashic == "" {
		return usageError{errors.New("--akashic FOLDER is missing: the workspace folder of the agent, such as ~/.akashic/workspace")}
	}
	if f.name == "" {
		return usageError{errors.New("--name must not be empty")}
	}
	if info, err := os.Stat(f.akashic); err != nil || !info.IsDir() {
		return fmt.Errorf("--akashic %s: there is no such folder; give the workspace folder of the agent", f.akashic)
	}
	server, err := f.server()
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		edit func(*jsonFile) error
	}{
		{"mcp_servers.json", func(j *jsonFile) error { return j.putServer(f.name, server) }},
		{"proactive_sources.json", func(j *jsonFile) error { return j.putSources(f.name) }},
	} {
		if err := f.edit(out, filepath.Join(f.akashic, file.name), file.edit); err != nil {
			return err
		}
	}
	return nil
}

func (f *registerFlags) edit(out io.Writer, path string, edit func(*jsonFile) error) error {
	j, err := readJSONFile(path)
	if err != nil {
		return err
	}
	if err := edit(j); err != nil {
		return fmt.Errorf("%s: %w; nothing was written to it", path, err)
	}
	data, err := j.bytes()
	switch {
	case err != nil:
		return err
	case f.dryRun:
		_, err = fmt.Fprintf(out, "# %s\n%s", path, data)
		return err
	case bytes.Equal(data, j.was):
		_, err = fmt.Fprintf(out, "%s: as it should be\n", path)
		return err
	}
	// A link is written through, an existing file's mode is kept.
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		target = path
	}
	if err := renameio.WriteFile(target, data, 0o600, renameio.WithExistingPermissions(), renameio.WithTempDir(filepath.Dir(target))); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = fmt.Fprintf(out, "%s: written\n", path)
	return err
}

// server is what mcp_servers.json says of this server: the command, and the settings that were given, as absolute paths.
func (f *registerFlags) server() (any, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's own file: %w", err)
	}
	f.fromEnvironment()
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
	return map[string]any{"command": []string{self, "--stdio"}, "env": env}, nil
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
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var skipped json.RawMessage
		if err := dec.Decode(&skipped); err != nil {
			return err
		}
		if text := name.(string); !slices.Contains(j.names, text) {
			j.names = append(j.names, text)
		}
	}
	return nil
}

func (j *jsonFile) set(name string, value any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return err
	}
	if _, has := j.members[name]; !has {
		j.names = append(j.names, name)
	}
	j.members[name] = b.Bytes()
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

func (j *jsonFile) putServer(name string, server any) error {
	servers := &jsonFile{members: map[string]json.RawMessage{}}
	if raw, ok := j.members["servers"]; ok {
		if err := servers.parse(raw); err != nil {
			return fmt.Errorf("its servers are no object (%w)", err)
		}
	}
	if err := servers.set(name, server); err != nil {
		return err
	}
	raw, err := servers.compact()
	if err != nil {
		return err
	}
	return j.set("servers", json.RawMessage(raw))
}

// putSources replaces the channels of the server of that name, and leaves all others.
func (j *jsonFile) putSources(name string) error {
	var have []json.RawMessage
	if raw, ok := j.members["sources"]; ok {
		if err := json.Unmarshal(raw, &have); err != nil {
			return fmt.Errorf("its sources are no array (%w)", err)
		}
	}
	sources := slices.DeleteFunc(have, func(raw json.RawMessage) bool {
		var s struct{ Server, Channel string }
		return json.Unmarshal(raw, &s) == nil && s.Server == name && slices.Contains(channels, s.Channel)
	})
	for _, channel := range channels {
		source := map[string]any{"server": name, "channel": channel, "enabled": true}
		switch channel {
		case "context":
			source["get_tool"] = "get_context"
		default:
			source["get_tool"], source["ack_tool"] = "get_proactive_events", "acknowledge_events"
		}
		if channel == "content" {
			source["poll_tool"] = "poll_feeds"
		}
		raw, err := json.Marshal(source)
		if err != nil {
			return err
		}
		sources = append(sources, raw)
	}
	return j.set("sources", sources)
}

var channels = []string{"alert", "content", "context"}
