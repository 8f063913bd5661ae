package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"strings"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

//go:embed auditpage.html
var auditPageSource string

// auditPage is the report as one self-contained page: it asks for nothing from outside, and all texts of agents and hosts
// get into it as data, never as markup. No template package makes it: one that is linked keeps every exported method of
// every type, which would make the binary a third larger.
func auditPage(a *audit) ([]byte, error) {
	// Go's encoder writes <, > and & as escapes: nothing in the data can end the script element that holds it.
	data, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode the audit: %w", err)
	}
	words, err := json.Marshal(pageWords())
	if err != nil {
		return nil, fmt.Errorf("encode the words of the page: %w", err)
	}
	page := strings.NewReplacer("{{data}}", string(data), "{{words}}", string(words), "{{version}}", html.EscapeString(version())).Replace(auditPageSource)
	return []byte(page), nil
}

// pageWords are the words that the page shares with the terminal.
func pageWords() any {
	by := map[journal.Source]string{}
	for _, s := range []journal.Source{journal.ByTool, journal.ByFile, journal.ByCLI, journal.ByImport} {
		by[s] = setBy(s)
	}
	return map[string]any{"states": projection.WakeStates, "results": map[projection.Result]projection.WakeState{projection.ResultDue: projection.ResultDue.State()}, "by": by, "crashNote": crashNote}
}
