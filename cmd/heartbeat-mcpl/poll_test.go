package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"heartbeat-mcpl/cmd/internal/host"
	"heartbeat-mcpl/journal"
)

// polled is the answer to get_proactive_events, read as a client in use does: the text blocks are joined, and what is not an
// array of objects of the kind is dropped without a word.
func (s *session) polled(kind string) []map[string]any {
	s.t.Helper()
	arguments := map[string]any{}
	if kind != "" {
		arguments["kind"] = kind
	}
	r := s.result("get_proactive_events", arguments)
	if r.IsError || r.Blocks != 1 {
		s.t.Fatalf("%d blocks: %s", r.Blocks, r.Text)
	}
	var list []map[string]any
	if !strings.HasPrefix(r.Text, "[") || json.Unmarshal([]byte(r.Text), &list) != nil || list == nil {
		s.t.Fatalf("no array: %s", r.Text)
	}
	for _, e := range list {
		id, _ := e["event_id"].(string)
		if id == "" || strings.ContainsAny(id, ": \t\n") || e["kind"] != "alert" && e["kind"] != "content" {
			s.t.Errorf("an event that a client drops or cannot acknowledge: %v", e)
		}
		for _, must := range []string{"source_type", "source_name", "title", "content"} {
			if text, _ := e[must].(string); text == "" {
				s.t.Errorf("%s is missing in %v", must, e)
			}
		}
		if metrics, ok := e["metrics"].(map[string]any); ok && len(metrics) > 8 {
			s.t.Errorf("%d metrics", len(metrics))
		}
	}
	return list
}

// ack acknowledges, and says how many were taken and which are unknown.
func (s *session) ack(arguments map[string]any) (int, []string) {
	s.t.Helper()
	var answer struct {
		OK      bool
		Acked   int
		Unknown []string
	}
	if err := json.Unmarshal([]byte(s.call("acknowledge_events", arguments)), &answer); err != nil || !answer.OK || answer.Unknown == nil {
		s.t.Fatalf("%+v, %v", answer, err)
	}
	return answer.Acked, answer.Unknown
}

func idsOf(events []map[string]any) []string {
	ids := []string{}
	for _, e := range events {
		ids = append(ids, e["event_id"].(string))
	}
	return ids
}

// plain opens a connection without MCPL.
func (h *home) plain(args ...string) *session {
	s := h.start(args...)
	s.initialize(false)
	return s
}

func TestPollingHostGetsItsWakes(t *testing.T) {
	h := newHome(t)
	s := h.plain()
	if events := s.polled(""); len(events) != 0 {
		t.Fatalf("of nothing: %v", events)
	}
	reply := s.call("reminder_add", map[string]any{"message": "Tea: now\nand a second line", "atIso": "2020-01-01T00:00Z", "severity": "high"})
	contains(t, reply, "No reminder will be pushed on this connection: host is MCP-only", "get_proactive_events")
	once := reminderID(t, reply)
	again := s.add(map[string]any{"message": "pulse", "atIso": "2021-01-01T00:00Z", "everyHours": 1, "title": "The pulse"})
	page := s.add(map[string]any{"message": "read this", "atIso": "2022-01-01T00:00Z", "url": "https://example.org/x?y=1"})
	s.add(map[string]any{"message": "later", "inHours": 1})

	events := s.polled("")
	if len(events) != 3 {
		t.Fatalf("%d events: %v", len(events), events)
	}
	first, second, third := events[0], events[1], events[2]
	if first["title"] != "Tea: now" || first["severity"] != "high" || first["source_type"] != "reminder" || !strings.HasPrefix(first["content"].(string), "[reminder "+once+", set ") {
		t.Errorf("the most overdue: %v", first)
	}
	if second["title"] != "The pulse" || second["severity"] != "normal" || !strings.Contains(second["content"].(string), "repeats every 3600s") {
		t.Errorf("the recurring one: %v", second)
	}
	if third["kind"] != "content" || third["url"] != "https://example.org/x?y=1" || third["published_at"] != "2022-01-01T00:00:00.000Z" || third["severity"] != nil {
		t.Errorf("the one with a page: %v", third)
	}
	if alerts, content := s.polled("alert"), s.polled("content"); len(alerts) != 2 || len(content) != 1 {
		t.Errorf("%d alerts, %d contents", len(alerts), len(content))
	}
	// It is returned at each call, not only once, and after a kill under the same id.
	ids := idsOf(events)
	if got := idsOf(s.polled("")); fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("the second time: %v, want %v", got, ids)
	}
	s.Kill()
	s = h.plain()
	if got := idsOf(s.polled("")); fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("after a kill: %v, want %v", got, ids)
	}
	acked, unknown := s.ack(map[string]any{"event_ids": []string{ids[0], ids[0], ids[1], "nonsense"}, "ttl_hours": 168})
	if acked != 2 || fmt.Sprint(unknown) != "[nonsense]" {
		t.Errorf("%d acked, unknown %v", acked, unknown)
	}
	// An acknowledgement that was answered survives a kill.
	s.Kill()
	s = h.plain()
	if got := idsOf(s.polled("")); fmt.Sprint(got) != fmt.Sprint(ids[2:]) {
		t.Errorf("after acknowledging and a kill: %v", got)
	}
	list := s.call("reminder_list", nil)
	contains(t, list, again, page, "3 reminder(s)")
	if strings.Contains(list, once) {
		t.Errorf("a one-shot that was acknowledged is not done: %s", list)
	}
	if acked, unknown := s.ack(map[string]any{"event_ids": []string{ids[0], ids[2]}}); acked != 1 || len(unknown) != 1 {
		t.Errorf("%d acked, unknown %v", acked, unknown)
	}
	contains(t, s.call("wake_history", nil), "| "+once+" | taken", "| "+again+" | taken")
	s.end()
	for _, e := range h.events()[journal.KindAck] {
		if e.By() != journal.ByTool {
			t.Errorf("an ack by %s", e.By())
		}
	}
	contains(t, h.read(h.reminders()), `"title": "The pulse"`)
}

// TestHeartbeatWaitsToBePolled: several missed ones are one, and the next comes an interval after it was acknowledged.
func TestHeartbeatWaitsToBePolled(t *testing.T) {
	h := newHome(t)
	h.write(h.config(), `{"intervalSeconds": 60, "message": "[heartbeat] look"}`)
	s := h.plain()
	s.end()
	h.backdate(t, 10*time.Minute)
	s = h.plain()
	events := s.polled("")
	if len(events) != 1 || events[0]["source_type"] != "heartbeat" || !strings.HasSuffix(events[0]["content"].(string), "] [heartbeat] look") {
		t.Fatalf("events %v", events)
	}
	contains(t, s.call("heartbeat_status", nil), "next in ~0s")
	s.Kill()
	s = h.plain()
	if got := idsOf(s.polled("")); fmt.Sprint(got) != fmt.Sprint(idsOf(events)) {
		t.Errorf("after a kill: %v", got)
	}
	if acked, _ := s.ack(map[string]any{"event_ids": idsOf(events)}); acked != 1 {
		t.Errorf("%d acked", acked)
	}
	if events := s.polled(""); len(events) != 0 {
		t.Errorf("after it was acknowledged: %v", events)
	}
	contains(t, s.call("heartbeat_status", nil), "next in ~")
	s.end()
	if drops := h.events()[journal.KindDrop]; len(drops) != 0 {
		t.Errorf("%d were dropped", len(drops))
	}
}

// backdate makes the journal as if it had been written some time ago.
func (h *home) backdate(t *testing.T, by time.Duration) {
	t.Helper()
	s, err := journal.NewScanner(h.journal())
	if err != nil {
		t.Fatal(err)
	}
	var events []journal.Event
	for s.Next() {
		e := s.Event()
		e.Time -= by.Milliseconds()
		events = append(events, e)
	}
	begin := *events[0].Body.(*journal.Begin)
	if err := os.RemoveAll(h.journal()); err != nil {
		t.Fatal(err)
	}
	l, err := journal.Create(h.journal(), begin, events[0].Time, journal.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(events[1:]); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPollingToolsAreListedWhereNothingCanBePushed(t *testing.T) {
	for _, c := range []struct {
		mcpl bool
		args []string
		want bool
	}{{false, nil, true}, {true, nil, false}, {true, []string{"--proactive"}, true}} {
		h := newHome(t)
		s := h.start(c.args...)
		s.initialize(c.mcpl)
		raw, err := s.Request(s.patience(), "tools/list", map[string]any{})
		s.ok(err)
		for _, tool := range []string{"get_proactive_events", "acknowledge_events", "get_context", "poll_feeds"} {
			if strings.Contains(string(raw), `"`+tool+`"`) != c.want {
				t.Errorf("MCPL %v, %v: %s is listed: %v", c.mcpl, c.args, tool, !c.want)
			}
		}
		s.polled("") // callable at any time
		s.end()
	}
}

func TestContextAndFeeds(t *testing.T) {
	h := newHome(t)
	s := h.plain()
	for i := range 4 {
		s.add(map[string]any{"message": fmt.Sprint("number ", i), "inHours": i + 1})
	}
	s.add(map[string]any{"message": "overdue", "atIso": "2020-01-01"})
	var context struct {
		Available bool
		TimeZone  string `json:"time_zone"`
		Heartbeat struct {
			IntervalSeconds float64 `json:"interval_seconds"`
			Paused          bool
			NextAt          string `json:"next_at"`
		}
		Reminders, Waiting int
		Next               []struct{ Title, At string }
	}
	if err := json.Unmarshal([]byte(s.call("get_context", nil)), &context); err != nil {
		t.Fatal(err)
	}
	if !context.Available || context.TimeZone == "" || context.Heartbeat.IntervalSeconds != 14400 || context.Heartbeat.NextAt == "" ||
		context.Reminders != 5 || context.Waiting != 1 || len(context.Next) != 3 || context.Next[0].Title != "overdue" || context.Next[1].Title != "number 0" {
		t.Errorf("%+v", context)
	}
	if got := s.call("poll_feeds", nil); got != "ok" {
		t.Errorf("poll_feeds: %s", got)
	}
	view := h.shows("number 3")
	h.write(h.reminders(), strings.Replace(view, "number 3", "edited", 1))
	s.call("poll_feeds", nil)
	contains(t, s.call("reminder_list", nil), `"edited"`)
	s.end()
	h.write(h.reminders(), "not JSON")
	s = h.plain()
	contains(t, s.call("poll_feeds", nil), "error: heartbeat-reminders.json could not be used")
	contains(t, s.call("get_context", nil), `"notes":["heartbeat-reminders.json could not be used`)
	// What the files make it say is an alert of its own, until it is acknowledged, for as long as that holds.
	events := s.polled("")
	var alert string
	for _, e := range events {
		if e["source_type"] == "store" {
			alert = e["event_id"].(string)
			contains(t, e["content"].(string), "could not be used")
		}
	}
	if alert == "" {
		t.Fatalf("no alert among %v", events)
	}
	if acked, _ := s.ack(map[string]any{"event_ids": []string{alert}, "ttl_hours": 0.00001}); acked != 1 {
		t.Errorf("%d acked", acked)
	}
	for limit := time.Now().Add(time.Minute); !strings.Contains(fmt.Sprint(idsOf(s.polled(""))), alert); {
		if time.Now().After(limit) { // it was acknowledged for 36 ms
			t.Fatal("its time is over, and it does not come back")
		}
	}
	s.ack(map[string]any{"event_ids": []string{alert}})
	if got := fmt.Sprint(idsOf(s.polled(""))); strings.Contains(got, alert) {
		t.Errorf("it comes back: %s", got)
	}
	s.end()
}

// TestWakeIsTakenOnce: a push is in flight while a poll takes the wake, and the other way round.
func TestWakeIsTakenOnce(t *testing.T) {
	h := newHome(t)
	s := h.start("--proactive")
	s.initialize(true)
	s.policy(host.Grant)
	once := s.add(map[string]any{"message": "once", "inSeconds": 0})
	again := s.add(map[string]any{"message": "again", "inSeconds": 0, "everyHours": 1})
	first, second := s.push(), s.push()
	ids := idsOf(s.polled(""))
	if len(ids) != 2 {
		t.Fatalf("in flight: %v", ids)
	}
	if acked, _ := s.ack(map[string]any{"event_ids": ids}); acked != 2 {
		t.Errorf("%d acked", acked)
	}
	s.ok(first.Accept())
	s.ok(second.Refuse("busy"))
	list := s.call("reminder_list", nil)
	contains(t, list, again, "1 reminder(s)")
	if strings.Contains(list, once) || strings.Contains(list, "overdue") || strings.Contains(list, "refused") {
		t.Errorf("after both: %s", list)
	}
	third := s.add(map[string]any{"message": "third", "inSeconds": 0})
	push := s.push()
	ids = idsOf(s.polled(""))
	s.ok(push.Accept())
	s.until("reminder_list", "1 reminder(s)")
	if acked, unknown := s.ack(map[string]any{"event_ids": ids}); acked != 0 || len(unknown) != 1 {
		t.Errorf("%s was pushed and accepted, and then %d acked, unknown %v", third, acked, unknown)
	}
	s.end()
	audit, err := h.command("audit", "--json").Output()
	s.ok(err)
	contains(t, string(audit), `"taken": 3`)
}

// TestPolledAnswerStaysBelowAMebibyte: the rest comes after these are acknowledged.
func TestPolledAnswerStaysBelowAMebibyte(t *testing.T) {
	h := newHome(t)
	s := h.plain()
	text := strings.Repeat("“x”\n", 8000)
	for range 60 {
		s.add(map[string]any{"message": text, "atIso": "2020-01-01"})
	}
	seen := map[string]bool{}
	for round := 0; len(seen) < 60; round++ {
		raw, err := s.Request(s.patience(), "tools/call", map[string]any{"name": "get_proactive_events"})
		s.ok(err)
		if len(raw) > 1<<20 {
			t.Fatalf("%d bytes", len(raw))
		}
		ids := idsOf(s.polled(""))
		if len(ids) == 0 || round > 60 {
			t.Fatalf("round %d: %d of 60 came", round, len(seen))
		}
		for _, id := range ids {
			seen[id] = true
		}
		s.ack(map[string]any{"event_ids": ids})
	}
	s.end()
}

func TestWrongArgumentsOfPollingToolsAreNamed(t *testing.T) {
	h := newHome(t)
	s := h.plain()
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		want      string
	}{
		{"get_proactive_events", map[string]any{"kind": "Alert"}, `kind must be one of "alert" and "content"`},
		{"acknowledge_events", map[string]any{"event_ids": 1}, "event_ids must be an array of texts"},
		{"acknowledge_events", map[string]any{"event_ids": []any{1}, "ttl_hours": -1}, "event_ids must hold texts alone; ttl_hours must be 0 or more"},
		{"acknowledge_events", map[string]any{"ids": []string{"x"}}, "did you mean event_ids"},
		{"acknowledge_events", nil, "event_ids is missing"},
		{"reminder_add", map[string]any{"message": "x", "inHours": 1, "url": "ftp://x", "severity": "urgent"}, "url must be an absolute http or https URL"},
	} {
		contains(t, s.fail(c.tool, c.arguments), c.want)
	}
	s.end()
}
