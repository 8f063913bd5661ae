package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"heartbeat-mcpl/rpc/tools"
)

var update = flag.Bool("update", false, "bring the README's references up to date")

// TestREADMEReferences: what the README says of tools and settings is what the tables say, and what it shows of an audit is what is printed.
func TestREADMEReferences(t *testing.T) {
	path := filepath.Join("..", "..", "README.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	want := between(t, text, "tools", tools.Reference())
	want = between(t, want, "settings", settingsReference())
	want = between(t, want, "audit", auditSample(t))
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text != want {
		t.Error("the README's references are behind the tables: run go test ./cmd/heartbeat-mcpl -run README -update")
	}
}

// between is text with what stands between the marks of that name replaced.
func between(t *testing.T, text, name, content string) string {
	t.Helper()
	head, rest, ok := strings.Cut(text, "<!-- "+name+":")
	about, rest, ok2 := strings.Cut(rest, "-->\n")
	_, tail, ok3 := strings.Cut(rest, "<!-- /"+name+" -->")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("the README lacks the marks of %s", name)
	}
	return head + "<!-- " + name + ":" + about + "-->\n\n" + strings.TrimSpace(content) + "\n\n<!-- /" + name + " -->" + tail
}

func settingsReference() string {
	var b strings.Builder
	b.WriteString("| flag | variable | what it says | default |\n|---|---|---|---|\n")
	for _, row := range settingsTable {
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s |\n", row.flag, row.variable, row.about, row.standard)
	}
	return b.String()
}
