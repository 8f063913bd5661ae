package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"sync"
)

//go:embed auditpage.html
var auditPageSource string

var auditPageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("audit").Parse(auditPageSource))
})

// auditPage is the report as one self-contained page: it asks for nothing from outside, and all texts of agents and hosts
// get into it as data, never as markup.
func auditPage(a *audit) ([]byte, error) {
	// Go's encoder writes <, > and & as escapes: nothing in the data can end the script element that holds it.
	data, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode the audit: %w", err)
	}
	var page bytes.Buffer
	err = auditPageTemplate().Execute(&page, map[string]any{"Data": template.JS(data), "Version": version()})
	if err != nil {
		return nil, fmt.Errorf("make the page: %w", err)
	}
	return page.Bytes(), nil
}
