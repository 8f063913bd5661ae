package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"heartbeat-mcpl/cmd/internal/host"
	"heartbeat-mcpl/journal"
)

const localTime = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d-0[78]:00 \[America/Los_Angeles\]`

// The day and the time to go, and a further time with its weekday, as replies say them.
const (
	away  = `[A-Z][a-z]{2}, in [\dms ]+`
	dayAt = `[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?`
)

func matches(t *testing.T, text, form string) {
	t.Helper()
	if !regexp.MustCompile(`(?s)^` + form + `$`).MatchString(text) {
		t.Errorf("%q is not of the form %s", text, form)
	}
}

func TestRepliesHaveTheirFormats(t *testing.T) {
	s := newHome(t).open()
	matches(t, s.call("heartbeat_status", nil),
		`Heartbeat ACTIVE \| mode=message \| interval=14400s \(4\.00h\) \| next in ~143\d\ds \| reminders=0 \| delivery=ok \| message="\[heartbeat\].*"`)
	matches(t, s.call("heartbeat_configure", map[string]any{"intervalMinutes": 1.5, "message": "say \"hi\""}),
		`Updated\. Heartbeat ACTIVE \| mode=message \| interval=90s \(0\.03h\) \| next in ~\d\ds \| reminders=0 \| delivery=ok \| message="say \\"hi\\""`)
	matches(t, s.call("heartbeat_configure", map[string]any{"intervalSeconds": 90}), `No changes\. Heartbeat ACTIVE .*`)
	matches(t, s.call("heartbeat_configure", map[string]any{"paused": true}),
		`Updated\. Heartbeat PAUSED \| mode=message \| interval=90s \(0\.03h\) \| reminders=0 \| delivery=ok \| message=.*`)
	matches(t, s.call("reminder_list", nil), `No reminders set\.`)
	matches(t, s.call("reminder_add", map[string]any{"message": "tea", "inMinutes": 10}),
		`Reminder rem_\w+ set: next `+localTime+` \(~600s\) \| one-shot \| "tea"\nThat is \w+day, 10 minutes from now\.`)
	matches(t, s.call("reminder_add", map[string]any{"message": "stretch", "everyMinutes": 1, "everySeconds": 0.5}),
		`Reminder rem_\w+ set: next `+localTime+` \(~60s\) \| repeats every 60\.5s \| "stretch"\nThat is \w+day, 1 minute from now\. Then `+dayAt+`, `+dayAt+`, `+dayAt+`\.`)
	list := s.call("reminder_list", nil)
	matches(t, list, `2 reminder\(s\):\nrem_\w+ \| next `+localTime+` \(~\d+s\) \| repeats every 60\.5s \| "stretch" \| `+away+`\nrem_\w+ \| next `+localTime+` \(~\d+s\) \| one-shot \| "tea" \| `+away)
	id := reminderID(t, list)
	matches(t, s.call("reminder_cancel", map[string]any{"id": id}), `Cancelled `+id+`: "stretch"\. 1 reminder\(s\) remain\.`)
	contains(t, s.fail("reminder_cancel", map[string]any{"id": id}), "There is no reminder", "reminder_list", "rem_")
	s.end()
}

func TestReminderIsPushedAndGoesWhenItIsTaken(t *testing.T) {
	h := newHome(t)
	s := h.open()
	id := s.add(map[string]any{"message": "Ann: hello", "inSeconds": 0.2})
	p := s.push()
	matches(t, p.Text(), `\[reminder `+id+`, set `+localTime+` · current time: `+localTime+`\] Ann: hello`)
	if p.FeatureSet != "heartbeat" || p.Origin["source"] != "reminder" || p.Origin["reminderId"] != id || p.Origin["recurring"] != false {
		t.Errorf("push: %s", p.Raw)
	}
	if !slices.Equal(p.Tags, []string{"heartbeat:reminder"}) {
		t.Errorf("tags: %v", p.Tags)
	}
	if at, err := time.Parse("2006-01-02T15:04:05.000Z", p.Timestamp); err != nil || time.Since(at) > time.Minute {
		t.Errorf("timestamp %s: %v", p.Timestamp, err)
	}
	s.ok(p.Accept())
	s.until("reminder_list", "No reminders set.")
	s.end()
	ack := h.events()[journal.KindAck]
	if len(ack) != 1 || ack[0].Body.(*journal.Ack).InferenceID != "inf_"+p.EventID {
		t.Errorf("acks: %+v", ack)
	}
}

func TestRecurringReminderAdvancesAndSaysSo(t *testing.T) {
	s := newHome(t).open()
	s.call("reminder_add", map[string]any{"message": "again", "everySeconds": 3600, "inSeconds": 0})
	p := s.push()
	matches(t, p.Text(), `\[reminder rem_\w+, repeats every 3600s · current time: `+localTime+`\] again`)
	if p.Origin["recurring"] != true || !slices.Equal(p.Tags, []string{"heartbeat:reminder", "heartbeat:recurring"}) {
		t.Errorf("push: %s", p.Raw)
	}
	s.ok(p.Answer("result", nil)) // whatever is not accepted: false means taken
	s.until("reminder_list", "(~3")
	matches(t, s.call("reminder_list", nil), `1 reminder\(s\):\nrem_\w+ \| next .* \(~3[56]\d\ds\) \| repeats every 3600s \| "again" \| `+away)
	s.end()
}

func TestOverdueReminderSaysWhenItWasDue(t *testing.T) {
	s := newHome(t).open()
	s.call("reminder_add", map[string]any{"message": "old", "atIso": "2026-10-10T08:02:36-07:00"})
	p := s.push()
	matches(t, p.Text(), `\[reminder rem_\w+, set `+localTime+`, due 2026-10-10T08:02:36-07:00 \[America/Los_Angeles\] · current time: `+localTime+`\] old`)
	if !slices.Contains(p.Tags, "heartbeat:overdue") {
		t.Errorf("tags: %v", p.Tags)
	}
	s.ok(p.Accept())
	s.end()
}

func TestRefusedReminderStaysAndIsTriedAgainUnderAFreshID(t *testing.T) {
	s := newHome(t).open()
	id := s.add(map[string]any{"inSeconds": 0})
	p := s.push()
	s.ok(p.Refuse("the agent sleeps"))
	s.until("reminder_list", "refused by the host")
	contains(t, s.call("reminder_list", nil), id, "(overdue)", "the agent sleeps", "tried again")
	s.policy(host.Grant)
	again := s.push()
	if again.EventID == p.EventID {
		t.Error("a refused push went out again under the same event id")
	}
	s.ok(again.Fail(-32001, "Feature set not enabled"))
	s.until("reminder_list", "Feature set not enabled")
	s.call("reminder_add", map[string]any{"message": "other", "inHours": 1})
	s.ok(s.push().Accept())
	s.end()
}

func TestUnansweredPushKeepsItsIDOverACrashAndARestart(t *testing.T) {
	h := newHome(t)
	s := h.open()
	s.add(map[string]any{"inSeconds": 0})
	first := s.push()
	s.Kill()
	s = h.open()
	second := s.push()
	if second.EventID != first.EventID {
		t.Errorf("after a crash the event id is %s, not %s", second.EventID, first.EventID)
	}
	s.end()
	s = h.open()
	third := s.push()
	if third.EventID != first.EventID {
		t.Errorf("after a stop the event id is %s, not %s", third.EventID, first.EventID)
	}
	s.ok(third.Refuse("duplicate event"))
	s.until("reminder_list", "No reminders set.")
	s.end()
	acks := h.events()[journal.KindAck]
	if len(acks) != 1 || !acks[0].Body.(*journal.Ack).Duplicate {
		t.Errorf("acks: %+v", acks)
	}
}

func TestTriggerFiresAlsoWhilePausedAndSaysWhyItCannot(t *testing.T) {
	s := newHome(t).start()
	s.initialize(true)
	contains(t, s.fail("heartbeat_trigger", nil), "no valid featureSets/update request in force", "Request")
	s.policy(host.Grant)
	s.call("heartbeat_configure", map[string]any{"paused": true, "message": "look around"})
	matches(t, s.call("heartbeat_trigger", nil), `Heartbeat fired\. Heartbeat PAUSED .*`)
	p := s.push()
	matches(t, p.Text(), `\[current time: `+localTime+`\] look around`)
	if p.Origin["source"] != "heartbeat" || p.Origin["reason"] != "manual" || !slices.Equal(p.Tags, []string{"heartbeat:tick", "heartbeat:manual"}) {
		t.Errorf("push: %s", p.Raw)
	}
	s.ok(p.Accept())
	s.end()
}

func TestSilentHeartbeatAndItsFallback(t *testing.T) {
	for _, c := range []struct {
		name   string
		refuse func(*host.Push) error
	}{
		{"-32602", func(p *host.Push) error { return p.Fail(-32602, "content must not be empty") }},
		{"accepted: false", func(p *host.Push) error { return p.Refuse("empty content") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newHome(t).open()
			s.call("heartbeat_configure", map[string]any{"deliveryMode": "silent", "message": "hello"})
			for range 2 {
				s.call("heartbeat_trigger", nil)
				silent := s.push()
				if silent.Origin["silent"] != true || silent.Origin["scheduledAt"] == nil || len(silent.Payload.Content) != 0 {
					t.Fatalf("silent push: %s", silent.Raw)
				}
				s.ok(c.refuse(silent))
				loud := s.push()
				if loud.Origin["silentFallback"] != true || loud.Origin["silent"] != nil || loud.EventID == silent.EventID || !strings.HasSuffix(loud.Text(), "hello") {
					t.Fatalf("fallback: %s", loud.Raw)
				}
				s.ok(loud.Accept())
			}
			contains(t, s.call("heartbeat_status", nil), "mode=silent (the host refused a silent wake,")
			s.end()
			warnings := 0
			for _, l := range s.Stderr() {
				if strings.Contains(l, "WARNING: the host refused a silent heartbeat") {
					warnings++
				}
			}
			if warnings != 1 {
				t.Errorf("%d warnings", warnings)
			}
		})
	}
}

func TestBlockedWakesWaitAndSayWhy(t *testing.T) {
	grant := func(more map[string]any) map[string]any {
		p := map[string]any{"effectiveCapabilities": []string{"tools", "pushEvents"}}
		for k, v := range more {
			p[k] = v
		}
		return p
	}
	for _, c := range []struct {
		name   string
		policy map[string]any
		why    string
	}{
		{"nothing granted", map[string]any{}, "capability not granted: pushEvents"},
		{"not this capability", map[string]any{"effectiveCapabilities": []string{"tools", "pushEvents.x", "*.*"}}, "capability not granted: pushEvents"},
		{"disabled", grant(map[string]any{"disabled": []string{"heartbeat"}}), "feature set disabled by host"},
		{"not enabled", grant(map[string]any{"enabled": []string{"other"}}), "feature set not enabled by host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newHome(t).start()
			s.initialize(true)
			s.add(map[string]any{"inSeconds": 0})
			receipt := s.policy(c.policy)
			contains(t, receipt, `"accepted":true`, `"mode":"degraded"`, `"featureSet":"heartbeat"`, `"effect":"disabled"`, "will not be delivered")
			contains(t, s.call("heartbeat_status", nil), "delivery=BLOCKED ("+c.why)
			contains(t, s.call("reminder_list", nil), "(overdue)", "wait: "+c.why)
			contains(t, s.fail("heartbeat_trigger", nil), c.why)
			s.logged("1 reminder will wait while wakes are blocked")
			if got := s.policy(host.Grant); got != `{"accepted":true,"mode":"full","unavailableFeatures":[],"notes":[]}` {
				t.Errorf("receipt: %s", got)
			}
			s.ok(s.push().Accept())
			s.end()
		})
	}
}

func TestMalformedPolicyClearsTheGrant(t *testing.T) {
	s := newHome(t).open()
	for _, bad := range []any{
		map[string]any{"effectiveCapabilities": []string{"pushEvents"}, "deniedCapabilities": []string{"pushEvents"}},
		map[string]any{"effectiveCapabilities": []any{"pushEvents", 7}},
		map[string]any{"effectiveCapabilities": nil},
		map[string]any{"effectiveCapabilities": []string{"pushEvents"}, "enabled": "heartbeat"},
		[]string{"pushEvents"},
	} {
		s.policy(host.Grant)
		if _, err := s.Policy(s.patience(), bad); err == nil || !strings.Contains(err.Error(), "-32602") {
			t.Errorf("%v: %v", bad, err)
		}
		contains(t, s.call("heartbeat_status", nil), "delivery=BLOCKED (no valid featureSets/update request in force")
	}
	s.end()
}

func TestPolicyAsNotificationOnlyNarrows(t *testing.T) {
	s := newHome(t).start()
	s.initialize(true)
	s.ok(s.Notify("featureSets/update", host.Grant))
	s.logged("WARNING: featureSets/update came as a Notification")
	contains(t, s.call("heartbeat_status", nil), "delivery=BLOCKED (host sent featureSets/update only as a Notification")
	contains(t, s.call("reminder_add", map[string]any{"message": "x", "inHours": 1}), "No reminder will be pushed on this connection")
	s.policy(host.Grant)
	contains(t, s.call("heartbeat_status", nil), "delivery=ok")
	s.ok(s.Notify("featureSets/update", map[string]any{"disabled": []string{"heartbeat"}}))
	contains(t, s.call("heartbeat_status", nil), "delivery=BLOCKED (feature set disabled by host")
	s.ok(s.Notify("featureSets/update", host.Grant))
	contains(t, s.call("heartbeat_status", nil), "delivery=BLOCKED (feature set disabled by host")
	s.end()
}

func TestPlainMCPHostIsToldThatNothingIsPushed(t *testing.T) {
	s := newHome(t).start()
	s.initialize(false)
	contains(t, s.call("heartbeat_status", nil), "delivery=pollable (host is MCP-only")
	contains(t, s.call("reminder_add", map[string]any{"message": "x", "inSeconds": 0}), "No reminder will be pushed on this connection: host is MCP-only")
	contains(t, s.call("reminder_list", nil), "(overdue)", "No reminder will be pushed on this connection")
	contains(t, s.call("heartbeat_trigger", nil), "Heartbeat due now: nothing is pushed here (host is MCP-only)", "get_proactive_events")
	if events := s.polled(""); len(events) != 2 || events[1]["source_type"] != "heartbeat" {
		t.Errorf("polled: %v", events)
	}
	contains(t, s.call("heartbeat_status", nil), "delivery=polled (this host polls: get_proactive_events)")
	s.end()
}

func TestHostThatDoesNotReadLosesNothing(t *testing.T) {
	h := newHome(t)
	s := h.open()
	s.StopReading()
	const n = 3000
	var pending []*host.Pending
	for i := range n {
		p, err := s.Send("tools/call", map[string]any{"name": "reminder_add", "arguments": map[string]any{"message": fmt.Sprint("number ", i), "inHours": 1}})
		s.ok(err)
		pending = append(pending, p)
	}
	s.ResumeReading()
	for _, p := range pending {
		if _, err := p.Wait(s.patience()); err != nil {
			t.Fatal(err)
		}
	}
	var list struct{ Count int }
	s.ok(json.Unmarshal(s.result("reminder_list", nil).Structured, &list))
	if list.Count != n {
		t.Errorf("%d reminders of %d", list.Count, n)
	}
	s.end()
}
