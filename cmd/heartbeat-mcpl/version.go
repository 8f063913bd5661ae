package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

// release is the version of the CHANGELOG that this source is, or becomes. A release build may say another one with
// -ldflags "-X main.release=1.2.3".
var release = "0.1.0"

// version is what --version, serverInfo and the journal say: the same number however the program was built.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	return versionOf(info.Main.Version)
}

// pseudo is the end of a version that the Go command makes up for a commit without a tag, and the mark of one that was changed.
var pseudo = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`-(?:[0-9A-Za-z.]+\.)?\d{14}-[0-9a-f]{12}(?:\+.*)?$`)
})

// versionOf is the version of a build whose module has that version: a tag's, else the source's own. One that was made up for a commit
// says less than the source does, and `go run` has none.
func versionOf(module string) string {
	if module == "" || module == "(devel)" || pseudo().MatchString(module) {
		return release
	}
	tag, _, _ := strings.Cut(strings.TrimPrefix(module, "v"), "+")
	return tag
}

// build is what is known of how this program was built.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the source differed from the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: version(), Go: strings.TrimPrefix(runtime.Version(), "go"), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	return b
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "Show the version, and how this program was built", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(b)
			}
			built := ""
			if b.Commit != "" {
				built = ", commit " + cutTo(b.Commit, 12)
			}
			if b.Modified {
				built += " with changes"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "heartbeat-mcpl %s (Go %s, %s%s)\n", b.Version, b.Go, b.Platform, built)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}
