package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/rpc/engine"
	"heartbeat-mcpl/rpc/wire"
)

const (
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
	mostListens      = 64 // subscriptions of a stateless client at once

	codeResourceNotFound = -32002 // MCP before 2026-07-28, which wants -32602
)

// resource is one of the server's MCP resources.
type resource struct {
	uri, name, title, description string
}

var resources = []resource{
	{engine.ConfigURI, "config", "Heartbeat settings", "The heartbeat's settings, as heartbeat-config.json shows them."},
	{engine.RemindersURI, "reminders", "Reminders", "All reminders that are set, as heartbeat-reminders.json shows them."},
	{engine.HistoryURI, "history", "What woke the agent", "The newest 200 wakes that were sent, taken, refused or dropped, the newest first."},
}

func known(uri string) bool {
	return slices.ContainsFunc(resources, func(r resource) bool { return r.uri == uri })
}

func (s *Session) listResources(c call, reply *wire.Reply) {
	all := []map[string]any{}
	for _, r := range resources {
		one := map[string]any{"uri": r.uri, "name": r.name, "description": r.description, "mimeType": "application/json"}
		if structured(c.protocol) {
			one["title"] = r.title
		}
		all = append(all, one)
	}
	reply.Result(c.listing(map[string]any{"resources": all}))
}

// uriIn is the uri that a request's params name; where it names none of ours the request is answered.
func (s *Session) uriIn(c call, params json.RawMessage, reply *wire.Reply) (string, bool) {
	var p struct {
		URI *string `json:"uri"`
	}
	if err := json.Unmarshal(params, &p); err != nil || p.URI == nil {
		reply.Error(jsonrpc2.CodeInvalidParams, "params must have the uri of a resource, a string", nil)
		return "", false
	}
	if !known(*p.URI) {
		code := int64(codeResourceNotFound)
		if c.stateless {
			code = jsonrpc2.CodeInvalidParams
		}
		reply.Error(code, "there is no resource "+short(*p.URI)+"; resources/list names them", map[string]any{"uri": short(*p.URI)})
		return "", false
	}
	return *p.URI, true
}

func (s *Session) readResource(c call, params json.RawMessage, reply *wire.Reply) {
	uri, ok := s.uriIn(c, params, reply)
	if !ok {
		return
	}
	handed := s.engine.Resource(uri, func(text string, err error) {
		if err != nil {
			reply.Error(jsonrpc2.CodeInternalError, uri+" cannot be read: "+err.Error(), nil)
			return
		}
		result := map[string]any{"contents": []map[string]any{{"uri": uri, "mimeType": "application/json", "text": text}}}
		reply.Result(c.changing(result))
	})
	if !handed {
		ending(reply)
	}
}

// subscriptions are what the client wants to hear of: by resources/subscribe, or, a stateless one, by a
// subscriptions/listen request that is answered when the server ends.
type subscriptions struct {
	mu      sync.Mutex
	uris    map[string]bool
	listens []listen
}

type listen struct {
	id   json.RawMessage // the request's, as the client wrote it
	uris []string
}

func (s *Session) subscribe(c call, params json.RawMessage, reply *wire.Reply, wanted bool) {
	uri, ok := s.uriIn(c, params, reply)
	if !ok {
		return
	}
	s.subs.mu.Lock()
	defer s.subs.mu.Unlock()
	if s.subs.uris == nil {
		s.subs.uris = map[string]bool{}
	}
	s.subs.uris[uri] = wanted
	reply.Result(c.result(map[string]any{}))
}

// listen opens a stateless client's subscription: what of it is honoured is said in its first message.
func (s *Session) listen(c call, params json.RawMessage, reply *wire.Reply) {
	var p struct {
		Notifications *struct {
			ResourceSubscriptions []string `json:"resourceSubscriptions"`
		} `json:"notifications"`
	}
	if err := json.Unmarshal(params, &p); err != nil || p.Notifications == nil || !c.stateless {
		reply.Error(jsonrpc2.CodeInvalidParams, "subscriptions/listen needs _meta and params with notifications (an object)", nil)
		return
	}
	s.subs.mu.Lock()
	defer s.subs.mu.Unlock()
	if len(s.subs.listens) >= mostListens {
		reply.Error(jsonrpc2.CodeInvalidRequest, fmt.Sprintf("there are %d subscriptions already: cancel one", mostListens), nil)
		return
	}
	l := listen{id: reply.Hold(), uris: slices.DeleteFunc(p.Notifications.ResourceSubscriptions, func(uri string) bool { return !known(uri) })}
	s.subs.listens = append(s.subs.listens, l)
	honoured := map[string]any{}
	if len(l.uris) > 0 {
		honoured["resourceSubscriptions"] = l.uris
	}
	s.notify("notifications/subscriptions/acknowledged", map[string]any{"notifications": honoured, "_meta": l.meta()})
}

func (l listen) meta() map[string]any { return map[string]any{metaSubscription: l.id} }

// cancelled ends the subscription that a cancelled request opened.
func (s *Session) cancelled(params json.RawMessage) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	if s.waitEnded(string(p.RequestID)) {
		s.engine.CancelWait(string(p.RequestID))
		return
	}
	s.subs.mu.Lock()
	defer s.subs.mu.Unlock()
	s.subs.listens = slices.DeleteFunc(s.subs.listens, func(l listen) bool { return string(l.id) == string(p.RequestID) })
}

// Changed tells subscribers that resources have changed; it implements [engine.Host].
func (s *Session) Changed(uris []string) {
	s.subs.mu.Lock()
	defer s.subs.mu.Unlock()
	for _, uri := range uris {
		if s.subs.uris[uri] {
			s.notify("notifications/resources/updated", map[string]any{"uri": uri})
		}
		for _, l := range s.subs.listens {
			if slices.Contains(l.uris, uri) {
				s.notify("notifications/resources/updated", map[string]any{"uri": uri, "_meta": l.meta()})
			}
		}
	}
}

func (s *Session) notify(method string, params any) {
	if err := s.conn.Notify(method, params); err != nil {
		s.o.Log.Debug("a notification could not be sent", "method", method, "err", err)
	}
}

// endListens answers the subscriptions that are open: the server ends.
func (s *Session) endListens() {
	s.subs.mu.Lock()
	defer s.subs.mu.Unlock()
	for _, l := range s.subs.listens {
		if err := s.conn.Answer(l.id, map[string]any{"resultType": "complete", "_meta": l.meta()}); err != nil {
			s.o.Log.Debug("a subscription could not be ended", "err", err)
		}
	}
	s.subs.listens = nil
}
