package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"strings"
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
	page := strings.NewReplacer("{{data}}", string(data), "{{version}}", html.EscapeString(version())).Replace(auditPageSource)
	return []byte(page), nil
}
