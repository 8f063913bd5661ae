package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

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
			updated := make(chan string, 100)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI },
			})
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
			checkResources(t, session, updated)
			id := ""
			for _, c := range []struct {
				tool      string
				arguments map[string]any
				fails     bool
			}{
				{"heartbeat_status", nil, false},
				{"heartbeat_configure", map[string]any{"intervalHours": 2, "paused": true}, false},
				{"heartbeat_trigger", nil, false}, // this host polls
				{"reminder_list", nil, false},
				{"reminder_add", map[string]any{"message": "once", "inHours": 1}, false},
				{"reminder_add", map[string]any{"message": "again", "everyHours": 1.5}, false},
				{"reminder_list", nil, false},
				{"wake_history", map[string]any{"limit": 5, "since": "2026-01-01"}, false},
				{"reminder_cancel", map[string]any{"id": "rem_none"}, true},
				{"reminder_cancel", map[string]any{"id": nil}, true},
				{"reminder_add", map[string]any{"message": "due", "inSeconds": 0, "title": "t", "severity": "high"}, false},
				{"get_proactive_events", nil, false},
				{"acknowledge_events", map[string]any{"event_ids": []string{"none"}}, false},
				{"get_context", nil, false},
				{"poll_feeds", nil, false},
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

// checkResources lists, reads and subscribes to the resources, and waits to hear of a change.
func checkResources(t *testing.T, session *mcp.ClientSession, updated chan string) {
	t.Helper()
	list, err := session.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 3 {
		t.Fatalf("resources %+v, %v", list, err)
	}
	for _, r := range list.Resources {
		got, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: r.URI})
		if err != nil || len(got.Contents) != 1 || !json.Valid([]byte(got.Contents[0].Text)) {
			t.Fatalf("%s: %+v, %v", r.URI, got, err)
		}
		if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: r.URI}); err != nil {
			t.Fatalf("subscribe to %s: %v", r.URI, err)
		}
	}
	if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "heartbeat://none"}); err == nil {
		t.Error("a resource that is none was read")
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "heartbeat_configure", Arguments: map[string]any{"intervalHours": 3}}); err != nil {
		t.Fatal(err)
	}
	select {
	case uri := <-updated:
		if uri != "heartbeat://config" {
			t.Errorf("%s was updated", uri)
		}
	case <-time.After(time.Minute):
		t.Error("a change of a resource was never told")
	}
	for _, r := range list.Resources {
		if err := session.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: r.URI}); err != nil {
			t.Errorf("unsubscribe from %s: %v", r.URI, err)
		}
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
