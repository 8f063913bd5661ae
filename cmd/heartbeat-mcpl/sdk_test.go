package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"heartbeat-mcpl/rpc/tools"
)

// TestOfficialClient drives the server with the official Go SDK's client, as it comes (it asks server/discover first) and
// held to each older protocol version: it lists the tools, calls each, and validates what it gets against the declared schemas.
func TestOfficialClient(t *testing.T) {
	for _, version := range []string{"", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		t.Run("version "+version, func(t *testing.T) {
			h := newHome(t)
			cmd := exec.Command(binary, "--stdio")
			cmd.Dir, cmd.Env = h.dir, append(os.Environ(), h.env...)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
			session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if got := session.InitializeResult().ProtocolVersion; version != "" && got != version || version == "" && got != "2026-07-28" {
				t.Errorf("negotiated %s", got)
			}
			list, err := session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			outputs := map[string]any{}
			for _, tool := range list.Tools {
				outputs[tool.Name] = tool.OutputSchema
			}
			if len(outputs) != len(tools.All()) {
				t.Errorf("%d tools", len(outputs))
			}
			id := ""
			for _, c := range []struct {
				tool      string
				arguments map[string]any
				fails     bool
			}{
				{"heartbeat_status", nil, false},
				{"heartbeat_configure", map[string]any{"intervalHours": 2, "paused": true}, false},
				{"heartbeat_trigger", nil, true}, // this host cannot be pushed to
				{"reminder_list", nil, false},
				{"reminder_add", map[string]any{"message": "once", "inHours": 1}, false},
				{"reminder_add", map[string]any{"message": "again", "everyHours": 1.5}, false},
				{"reminder_list", nil, false},
				{"wake_history", map[string]any{"limit": 5, "since": "2026-01-01"}, false},
				{"reminder_cancel", map[string]any{"id": "rem_none"}, true},
				{"reminder_cancel", map[string]any{"id": nil}, true},
			} {
				r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.arguments})
				if err != nil {
					t.Fatalf("%s: %v", c.tool, err)
				}
				if r.IsError != c.fails {
					t.Errorf("%s %v: is an error: %v (%+v)", c.tool, c.arguments, r.IsError, r.Content[0])
				}
				if version == "" || version >= "2025-06-18" {
					id = validated(t, c.tool, r, outputs[c.tool], id)
				}
			}
			if id == "" {
				return
			}
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "reminder_cancel", Arguments: map[string]any{"id": id}})
			if err != nil || r.IsError {
				t.Fatalf("reminder_cancel: %v, %+v", err, r)
			}
			validated(t, "reminder_cancel", r, outputs["reminder_cancel"], id)
		})
	}
}

// validated holds structured content against its schema, and returns the reminder's id in it, or the last one.
func validated(t *testing.T, tool string, r *mcp.CallToolResult, schema any, last string) string {
	t.Helper()
	if r.IsError {
		return last
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatalf("%s: the output schema %s: %v", tool, raw, err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := resolved.Validate(r.StructuredContent); err != nil {
		t.Errorf("%s: %v in %v", tool, err, r.StructuredContent)
	}
	if content, ok := r.StructuredContent.(map[string]any); ok && content["id"] != nil {
		return content["id"].(string)
	}
	return last
}
