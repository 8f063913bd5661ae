package text

import (
	"testing"
	"time"

	"heartbeat-mcpl/projection"
)

func TestLines(t *testing.T) {
	la, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 10, 12, 20, 2, 36, 0, la).UnixMilli()
	set := time.Date(2026, 10, 10, 8, 2, 36, 0, la).UnixMilli()
	once := &projection.Reminder{ID: "rem_a", Message: "tea <b>\n", CreatedAt: set, FireAt: now}
	late := &projection.Reminder{ID: "rem_a", Message: "tea", CreatedAt: set, FireAt: now - 60_000}
	again := &projection.Reminder{ID: "rem_b", Message: "m", CreatedAt: set, FireAt: now + 7500, EveryMs: 7500}
	odd := &projection.Reminder{ID: "a\n] b", Message: "m", CreatedAt: set, FireAt: now + 7500, EveryMs: 7500} // out of a file
	refused := &projection.Reminder{ID: "rem_c", Message: "m", CreatedAt: set, FireAt: set,
		Attempt: &projection.Attempt{Outcome: projection.Refused, At: now, Reason: "busy\nrem_x | \"no\""}}
	paused := projection.DefaultConfig()
	paused.Paused, paused.IntervalMs, paused.Message = true, 90_500, "x"
	for _, c := range []struct{ got, want string }{
		{Agent(set, la), "2026-10-10T08:02:36-07:00 [America/Los_Angeles]"},
		{Quote("a\u009b2J\u202eb\u0085\x7f\x1b👩\u200d💻"), `"a\u009b2J\u202eb\u0085\u007f\u001b👩` + "\u200d" + `💻"`},
		{OneLine("x\r\n\u2066\"y\""), `x\r\n\u2066"y"`},
		{Protocol(set + 7), "2026-10-10T15:02:36.007Z"},
		{ReminderWake(once, now, la), "[reminder rem_a, set 2026-10-10T08:02:36-07:00 [America/Los_Angeles] · current time: 2026-10-12T20:02:36-07:00 [America/Los_Angeles]] tea <b>\n"},
		{ReminderWake(late, now, la), "[reminder rem_a, set 2026-10-10T08:02:36-07:00 [America/Los_Angeles], due 2026-10-12T20:01:36-07:00 [America/Los_Angeles] · current time: 2026-10-12T20:02:36-07:00 [America/Los_Angeles]] tea"},
		{ReminderWake(again, now, la), "[reminder rem_b, repeats every 7.5s · current time: 2026-10-12T20:02:36-07:00 [America/Los_Angeles]] m"},
		{ReminderWake(odd, now, la), `[reminder a\n] b, repeats every 7.5s · current time: 2026-10-12T20:02:36-07:00 [America/Los_Angeles]] m`},
		{ReminderLine(odd, Again{}, now, la), `a\n] b | next 2026-10-12T20:02:43-07:00 [America/Los_Angeles] (~7s) | repeats every 7.5s | "m" | Mon, in 7s`},
		{HeartbeatWake(&projection.Config{Message: "hi"}, projection.Missed{}, now, la), "[current time: 2026-10-12T20:02:36-07:00 [America/Los_Angeles]] hi"},
		{HeartbeatWake(&projection.Config{Message: "hi"}, projection.Missed{Count: 1, Since: set, Why: "agent is\nbusy"}, now, la),
			`[current time: 2026-10-12T20:02:36-07:00 [America/Los_Angeles] · 1 heartbeat since 2026-10-10T08:02:36-07:00 [America/Los_Angeles] did not reach you: agent is\nbusy] hi`},
		{HeartbeatWake(&projection.Config{Message: "look", IntervalMs: 600_000, Standing: true}, projection.Missed{Count: 12, Since: set, Why: "no answer within 30 s"}, now, la)[:221],
			"[current time: 2026-10-12T20:02:36-07:00 [America/Los_Angeles] · recurring instruction, every 10m · 12 heartbeats since 2026-10-10T08:02:36-07:00 [America/Los_Angeles] did not reach you: no answer within 30 s] look\n\n(Th"},
		{HeartbeatWake(&projection.Config{Message: "look", IntervalMs: 600_000, Standing: true}, projection.Missed{}, now, la), "[current time: 2026-10-12T20:02:36-07:00 [America/Los_Angeles] · recurring instruction, every 10m] look\n\n(This is a recurring instruction, every 10m. If nothing has changed since last time, reply briefly; do not invent work.)"},
		{Status{Config: projection.Config{IntervalMs: 60_000, Message: "m", Active: "08:00-22:30"}, Mode: "message", NextMs: 1000, Beats: projection.Beats{Taken: 3, LastMs: set}, Zone: la}.String(),
			`Heartbeat ACTIVE | mode=message | interval=60s (0.02h) | next in ~1s | reminders=0 | delivery=ok | message="m" | hours=08:00-22:30 | taken=3 | last=2026-10-10T08:02:36-07:00 [America/Los_Angeles]`},
		{Status{Config: projection.Config{IntervalMs: 60_000, Message: "m", Paused: true, Cleared: true}, Mode: "message", Reminders: 2, Blocked: "why"}.String(),
			"Heartbeat NOT SET | mode=message | reminders=2 | delivery=BLOCKED (why)"},
		{Status{Config: projection.Config{IntervalMs: 60_000, Message: "m"}, Mode: "message", NotTaken: NotTaken{Reminders: 1, Reason: "agent is busy", Next: 30_000}}.String(),
			`Heartbeat ACTIVE | mode=message | interval=60s (0.02h) | next in ~0s | reminders=0 | delivery=ok | message="m" | not taken: 1 reminder (agent is busy), next try in ~30s`},
		{Status{Config: projection.Config{Cleared: true, Paused: true}, Mode: "message", Blocked: "why", NotTaken: NotTaken{Reminders: 2, Messages: 1, Heartbeat: true, Reason: "x\ny", Next: 1, When: "when wakes can be sent"}}.String(),
			`Heartbeat NOT SET | mode=message | reminders=0 | delivery=BLOCKED (why) | not taken: 2 reminders, 1 message, the heartbeat (x\ny), next try when wakes can be sent`},
		{Status{Config: projection.Config{Cleared: true, Paused: true}, Mode: "message", Blocked: "why", Polled: "polled (how)", NotTaken: NotTaken{Reminders: 1, Reason: "x", Out: true}}.String(),
			`Heartbeat NOT SET | mode=message | reminders=0 | delivery=polled (how) | not taken: 1 reminder (x), tried again now`},
		{ReminderSet(again, now, la), `Reminder rem_b set: next 2026-10-12T20:02:43-07:00 [America/Los_Angeles] (~7s) | repeats every 7.5s | "m"`},
		{ReminderLine(once, Again{}, now, la), `rem_a | next 2026-10-12T20:02:36-07:00 [America/Los_Angeles] (overdue) | one-shot | "tea <b>\n" | Mon, now`},
		{ReminderLine(refused, Again{Tries: 3, Next: now + 240_500}, now, la), `rem_c | next 2026-10-10T08:02:36-07:00 [America/Los_Angeles] (overdue) | one-shot | "m" | refused by the host at 2026-10-12T20:02:36-07:00 [America/Los_Angeles]: busy\nrem_x | "no" | 3 tries, next in ~240s | Sat, 2d 12h ago`},
		{Again{Tries: 1, Next: now - 1}.words(now), "1 try, next in ~0s"},
		{Again{Tries: 2, Out: true}.words(now), "2 tries, one more is out now"},
		{Again{Tries: 2, Next: now, When: "when wakes can be sent"}.words(now), "2 tries, next when wakes can be sent"},
		{Status{Config: projection.Config{IntervalMs: 14_400_000, Message: "m"}, Mode: "message", NextMs: 14_399_500, Reminders: 2}.String(),
			`Heartbeat ACTIVE | mode=message | interval=14400s (4.00h) | next in ~14399s | reminders=2 | delivery=ok | message="m"`},
		{Status{Config: paused, Mode: "message", Blocked: "why"}.String(),
			`Heartbeat PAUSED | mode=message | interval=90.5s (0.03h) | reminders=0 | delivery=BLOCKED (why) | message="x"`},
	} {
		if c.got != c.want {
			t.Errorf("got\n%s\nwant\n%s", c.got, c.want)
		}
	}
}
