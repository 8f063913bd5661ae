package tools

import (
	"fmt"
	"strings"
)

// Reference is the table in Markdown, as it stands in the README.
func Reference() string {
	var b strings.Builder
	for _, t := range table() {
		fmt.Fprintf(&b, "#### `%s`\n\n%s\n\n", t.Name, t.Description)
		if len(t.Args) == 0 {
			continue
		}
		b.WriteString("| argument | type | what it does |\n|---|---|---|\n")
		for _, a := range t.Args {
			kind := map[argKind]string{aText: "text", aChoice: strings.Join(a.Choices, " or "), aBool: "bool", aLength: "number", aTime: "time", aCount: "whole number", aTexts: "array of texts", aHours: "number", aSpan: "length"}[a.Kind]
			if a.Required {
				kind += ", required"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", a.Name, kind, a.Description)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
