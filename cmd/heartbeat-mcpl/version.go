package main

import (
	"runtime/debug"
	"strings"
)

// release is the version of the CHANGELOG that this source is, or becomes.
const release = "0.1.0"

// version is what --version and serverInfo say: the module's version where the build knows one, else the release with
// the commit that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return strings.TrimPrefix(v, "v")
	}
	var commit, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			commit = "+" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ".modified"
		}
	}
	if commit == "" {
		return release
	}
	return release + commit + dirty
}
