package engine

import (
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/tools"
)

// The URIs of the server's MCP resources.
const (
	ConfigURI    = "heartbeat://config"
	RemindersURI = "heartbeat://reminders"
	HistoryURI   = "heartbeat://history"
)

// mostHistory is how many wakes the history resource holds.
const mostHistory = 200

// Resource reads a resource as JSON; answer is called once. False: the engine has ended, answer is never called.
func (e *Engine) Resource(uri string, answer func(text string, err error)) bool {
	return e.do(func() {
		if uri == HistoryURI {
			e.historyResource(answer)
			return
		}
		state := e.state()
		if uri == ConfigURI {
			answer(string(projection.ConfigView(state.Config, projection.ViewRef{})), nil)
			return
		}
		answer(string(projection.RemindersView(state.Reminders(), projection.ViewRef{})), nil)
	})
}

func (e *Engine) historyResource(answer func(string, error)) {
	go func() {
		found, more, err := readHistory(e.o.Store.Journal, tools.HistoryArgs{Limit: mostHistory}, e.openMessages)
		if err != nil {
			answer("", err)
			return
		}
		answer(string(historyData(found, more).JSON()), nil)
	}()
}

// changes are the resources that changed since the last notice, and when that was.
type changes struct {
	uris map[string]bool
	last time.Time
}

// note marks what a body changes.
func (c *changes) note(b journal.Body) {
	mark := func(uris ...string) {
		if c.uris == nil {
			c.uris = map[string]bool{}
		}
		for _, uri := range uris {
			c.uris[uri] = true
		}
	}
	switch b.(type) {
	case *journal.Configure:
		mark(ConfigURI)
	case *journal.Add, *journal.Cancel, *journal.Clock:
		mark(RemindersURI)
	case *journal.Ack:
		mark(RemindersURI, HistoryURI)
	case *journal.Fire, *journal.Refuse, *journal.Drop:
		mark(HistoryURI)
	}
}

// tellChanges tells of changed resources, not more often than the views are written.
func (e *Engine) tellChanges() {
	if len(e.sessions) == 0 || len(e.changes.uris) == 0 || time.Since(e.changes.last) < flushSpacing {
		return
	}
	var uris []string
	for _, uri := range []string{ConfigURI, RemindersURI, HistoryURI} {
		if e.changes.uris[uri] {
			uris = append(uris, uri)
		}
	}
	e.changes.uris, e.changes.last = nil, time.Now()
	for _, s := range e.sessions {
		s.host.Changed(uris)
	}
}
