package session

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/projection/rawjson"
	"heartbeat-mcpl/rpc/engine"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/tools"
	"heartbeat-mcpl/rpc/wire"
)

// The MCP versions that are spoken: those with a handshake (SPEC 8.1), newest last, and the stateless one (SPEC 8.2a).
var handshakeVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

const (
	newestHandshake = "2025-11-25"
	stateless       = "2026-07-28"
)

// What a stateless request carries in its _meta, and the error for a version that is not spoken (MCP 2026-07-28).
const (
	metaVersion            = "io.modelcontextprotocol/protocolVersion"
	metaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClientInfo         = "io.modelcontextprotocol/clientInfo"
	metaServerInfo         = "io.modelcontextprotocol/serverInfo"

	codeUnsupportedVersion = -32022
)

const instructions = "This server wakes you. A heartbeat comes periodically: see it with heartbeat_status, change its interval, " +
	"text or pause with heartbeat_configure. To be reminded of something at a time or after a while, once or again and again, " +
	"use reminder_add; see what is set with reminder_list, and take one back with reminder_cancel. What you set is kept " +
	"across restarts. A wake that begins with [reminder ...] or [current time: ...] comes from this server, not from a person."

// instructions are what a model is told of the server.
func (s *Session) instructions() string {
	if !s.o.Channel {
		return instructions
	}
	return instructions + " Wakes come as messages of a channel; where one asks for it, call acknowledge_events with its event_id, so that the server knows that they reach you."
}

// dialect is the protocol that one request speaks.
type dialect struct {
	protocol  string
	stateless bool
}

// call is what one request says of its protocol, and of the tool that it calls.
type call struct {
	dialect
	name, arguments json.RawMessage // nil where the params have none
	meta            json.RawMessage // its _meta; nil: it has none
	client          string          // a stateless client's name; empty: it does not say
}

// newCall reads a request's params. One that names a protocol version in its _meta is stateless and must say everything itself.
func newCall(negotiated string, params json.RawMessage) (c call, err error) {
	var meta json.RawMessage
	rawjson.Each(params, func(name []byte, value json.RawMessage) { // params in another shape have none; each method judges them itself
		switch string(name) {
		case "_meta":
			meta = value
		case "name":
			c.name = value
		case "arguments":
			c.arguments = value
		}
	})
	c.meta = meta
	raw := rawjson.Get(meta, metaVersion)
	if raw == nil {
		if c.protocol = negotiated; negotiated == "" {
			c.protocol = newestHandshake
		}
		return c, nil
	}
	var version string
	if json.Unmarshal(raw, &version) != nil {
		return call{}, &rpcError{jsonrpc2.CodeInvalidParams, "_meta: " + metaVersion + " must be a string", nil}
	}
	if version != stateless {
		return call{}, &rpcError{codeUnsupportedVersion, "unsupported protocol version " + short(version) + "; without a handshake this server speaks " + stateless,
			map[string]any{"supported": []string{stateless}, "requested": version}}
	}
	var capabilities map[string]json.RawMessage
	if json.Unmarshal(rawjson.Get(meta, metaClientCapabilities), &capabilities) != nil || capabilities == nil {
		return call{}, &rpcError{jsonrpc2.CodeInvalidParams, "_meta: " + metaClientCapabilities + " must be an object", nil}
	}
	c.protocol, c.stateless = version, true
	c.client = clientName(rawjson.Get(meta, metaClientInfo))
	return c, nil
}

// result is a result as the request's protocol wants it.
func (d dialect) result(fields map[string]any) map[string]any {
	if d.stateless {
		fields["resultType"] = "complete"
	}
	return fields
}

// toolResult is a tool's answer as the request's protocol knows it.
func (d dialect) toolResult(r tools.Reply) toolResult {
	if !structured(d.protocol) {
		r.Structured = nil
	}
	return toolResult{r, d.stateless}
}

// toolResult is MCP's CallToolResult. Every call ends with one: it writes itself.
type toolResult struct {
	tools.Reply
	stateless bool
}

// AppendJSON makes it a [rawjson.Appender].
func (r toolResult) AppendJSON(dst []byte) []byte {
	dst = rawjson.AppendText(append(dst, `{"content":[{"type":"text","text":`...), r.Text)
	dst = strconv.AppendBool(append(dst, `}],"isError":`...), r.IsError)
	if r.Structured != nil && !r.IsError {
		dst = append(append(dst, `,"structuredContent":`...), r.Structured...)
	}
	if r.stateless {
		dst = append(dst, `,"resultType":"complete"`...)
	}
	return append(dst, '}')
}

// listing is a result that a client may keep: it is the same for as long as the server runs.
func (d dialect) listing(fields map[string]any) map[string]any {
	if d.stateless {
		fields["ttlMs"], fields["cacheScope"] = 3600_000, "private"
	}
	return d.result(fields)
}

// changing is a result that a client must ask for anew each time.
func (d dialect) changing(fields map[string]any) map[string]any {
	if d.stateless {
		fields["ttlMs"], fields["cacheScope"] = 0, "private"
	}
	return d.result(fields)
}

func (s *Session) initialize(params json.RawMessage, reply *wire.Reply) {
	version, capable := rawjson.Get(params, "protocolVersion"), rawjson.Get(params, "capabilities")
	experimental := rawjson.Get(capable, "experimental")
	requested, isText := rawjson.Text(version)
	if !rawjson.IsObject(params) || !isText && !absent(version) || !isObject(capable) || !isObject(experimental) {
		reply.Error(jsonrpc2.CodeInvalidParams, "initialize needs params with protocolVersion (a string) and capabilities (an object)", nil)
		return
	}
	s.protocol = newestHandshake
	if slices.Contains(handshakeVersions, requested) {
		s.protocol = requested
	}
	session := sessionOf(rawjson.Get(experimental, "mcpl"))
	s.met, s.offers = true, session
	s.engine.Initialized(engine.Client{Name: clientName(rawjson.Get(params, "clientInfo")), Offers: session, Channel: s.o.Channel})
	reply.Result(map[string]any{
		"protocolVersion": s.protocol,
		"capabilities":    s.capabilities(session),
		"serverInfo":      s.info(),
		"instructions":    s.instructions(),
	})
}

// clientName is a client's name and version as its clientInfo says them.
func clientName(info json.RawMessage) string {
	name, _ := rawjson.Text(rawjson.Get(info, "name"))
	version, _ := rawjson.Text(rawjson.Get(info, "version"))
	return strings.TrimSpace(name + " " + version)
}

// sessionOf reads what a host says of MCPL. What is no object offers nothing beyond MCPL itself.
func sessionOf(raw json.RawMessage) mcpl.Session {
	return mcpl.Session{MCPL: said(raw), Lifecycle: said(rawjson.Get(raw, "inferenceLifecycle"))}
}

// said says whether a capability was named and not taken back.
func said(raw json.RawMessage) bool {
	return !absent(raw) && string(raw) != "false"
}

func (s *Session) capabilities(session mcpl.Session) map[string]any {
	c := map[string]any{"tools": map[string]any{}, "resources": map[string]any{"subscribe": true}, "prompts": map[string]any{}}
	experimental := map[string]any{}
	if session.MCPL {
		experimental["mcpl"] = mcpl.Manifest(session.Lifecycle)
	}
	if s.o.Channel {
		experimental["claude/channel"] = map[string]any{}
	}
	if len(experimental) > 0 {
		c["experimental"] = experimental
	}
	return c
}

func (s *Session) info() map[string]any {
	return map[string]any{"name": "heartbeat-mcpl", "title": "Heartbeat and reminders", "version": s.o.Version}
}

// discover answers a stateless client's first request (SPEC 8.2a).
func (s *Session) discover(c call, reply *wire.Reply) {
	if !c.stateless {
		reply.Error(jsonrpc2.CodeInvalidParams, "server/discover needs "+metaVersion+" and "+metaClientCapabilities+" in _meta", nil)
		return
	}
	reply.Result(c.listing(map[string]any{
		"supportedVersions": []string{stateless},
		"capabilities":      s.capabilities(mcpl.Session{}),
		"instructions":      s.instructions(),
		"_meta":             map[string]any{metaServerInfo: s.info()},
	}))
}

// structured says whether a protocol version knows structured results and titles.
func structured(protocol string) bool { return protocol >= "2025-06-18" }

// listing is the tools as the protocol version knows them, those for polling where the host cannot be pushed to.
func listing(protocol string, polling, channel, mesh bool) []map[string]any {
	var all []map[string]any
	for _, t := range tools.All() {
		if t.Polling && !polling && !(channel && t.Name == "acknowledge_events") || t.Mesh && !mesh {
			continue
		}
		one := map[string]any{"name": t.Name, "description": t.Description, "inputSchema": t.InputSchema()}
		if protocol >= "2025-03-26" {
			one["annotations"] = map[string]any{
				"title": t.Title, "readOnlyHint": t.ReadOnly, "destructiveHint": t.Destructive,
				"idempotentHint": t.Idempotent, "openWorldHint": false,
			}
		}
		if structured(protocol) {
			maps.Copy(one, map[string]any{"title": t.Title, "outputSchema": t.OutputSchema()})
		}
		all = append(all, one)
	}
	return all
}
