package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/rpc/command"
	"heartbeat-mcpl/rpc/engine"
	"heartbeat-mcpl/rpc/tools"
	"heartbeat-mcpl/rpc/wire"
)

// promptNames are the prompts: hosts show them as slash commands (SPEC 11.1).
var promptNames = []string{"heartbeat", "hb"}

func promptListing(protocol string) []map[string]any {
	all := []map[string]any{}
	for _, name := range promptNames {
		one := map[string]any{
			"name":        name,
			"description": "A heartbeat for this conversation: " + command.Usage,
			"arguments": []map[string]any{{
				"name": "command", "description": command.Usage + "; nothing is status", "required": false,
			}},
		}
		if structured(protocol) {
			one["title"] = "Heartbeat"
		}
		all = append(all, one)
	}
	return all
}

// getPrompt carries the command out, and gives the model the words to tell it.
func (s *Session) getPrompt(c call, params json.RawMessage, reply *wire.Reply) {
	var p struct {
		Name      string `json:"name"`
		Arguments struct {
			Command string `json:"command"`
		} `json:"arguments"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		reply.Error(jsonrpc2.CodeInvalidParams, "prompts/get needs params with a name and arguments whose values are texts", nil)
		return
	}
	if !slices.Contains(promptNames, p.Name) {
		reply.Error(jsonrpc2.CodeInvalidParams, fmt.Sprintf("unknown prompt %q; there are heartbeat and hb", short(p.Name)), nil)
		return
	}
	arguments, err := json.Marshal(map[string]string{"command": p.Arguments.Command})
	if err != nil {
		fail(reply, err)
		return
	}
	handed := s.engine.Call(engine.Call{By: journal.ByCLI, Tool: "heartbeat_command", Arguments: arguments}, func(r tools.Reply) {
		if r.IsError {
			reply.Error(jsonrpc2.CodeInvalidParams, r.Text, nil)
			return
		}
		text := fmt.Sprintf("The command /%s %s was carried out; the server says: %s\n\nTell that in one sentence. Nothing else has to be done now.", p.Name, cmp.Or(strings.TrimSpace(p.Arguments.Command), "status"), r.Text)
		reply.Result(c.result(map[string]any{
			"description": "The heartbeat of this conversation",
			"messages":    []map[string]any{{"role": "user", "content": map[string]any{"type": "text", "text": text}}},
		}))
	})
	if !handed {
		ending(reply)
	}
}
