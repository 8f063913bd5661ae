package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/wire"
)

const grantIdle = `{"effectiveCapabilities":["tools","pushEvents","inferenceLifecycle"]}`

func (r *rig) openIdle() {
	r.t.Helper()
	r.s.Initialized(Client{Offers: mcpl.Session{MCPL: true, Lifecycle: true}})
	r.policy(grantIdle)
}

// turn tells of a turn's phase.
func (r *rig) turn(id, phase string) {
	r.t.Helper()
	r.s.Lifecycle(json.RawMessage(fmt.Sprintf(`{"inferenceId":%q,"conversationId":"c","turnIndex":1,"phase":%q}`, id, phase)))
	synctest.Wait()
}

func (p *fakePush) acceptAs(inference string) {
	p.timer.Stop()
	p.reply(wire.Answer{Result: json.RawMessage(fmt.Sprintf(`{"accepted":true,"inferenceId":%q}`, inference))})
	synctest.Wait()
}

func TestWakesAreHeldWhileATurnRuns(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.openIdle()
		r.call("heartbeat_configure", `{"intervalSeconds":60}`)
		r.turn("a", "started")
		second := r.add(`{"message":"second","inSeconds":30}`)
		first := r.add(`{"message":"first","inSeconds":10}`)
		r.pass(3 * time.Minute) // several heartbeats fall due, too
		r.none()
		r.turn("b", "started") // they may overlap
		r.turn("a", "completed")
		r.pass(time.Second)
		r.none()
		r.turn("a", "failed") // an end that is told twice changes nothing
		r.turn("b", "aborted")
		// One by one: each begins a turn of its own. In the order of their times, the heartbeat last and once.
		for i, want := range []string{first, second, ""} {
			p := r.one()
			if p.params.Origin.ReminderID != want {
				t.Errorf("push %d is of %q, want %q", i, p.params.Origin.ReminderID, want)
			}
			inference := fmt.Sprint("turn", i)
			p.acceptAs(inference)
			r.pass(time.Second)
			r.none() // its turn runs, as the answer said
			r.turn(inference, "started")
			r.turn(inference, "completed")
		}
		r.pass(time.Second)
		r.none()
		if acks := r.events(journal.KindAck); len(acks) != 3 {
			t.Errorf("%d acks", len(acks))
		}
	})
}

func TestATurnWhoseEndIsNeverToldHoldsNothingForEver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.openIdle()
		r.turn("lost", "started")
		r.add(`{"message":"x","inSeconds":1}`)
		r.pass(turnLimit - time.Second)
		r.none()
		r.pass(2 * time.Second)
		r.one().accept()
		r.logged("the host never told the end of a turn", 1)
		r.turn("lost", "started") // told late: it is over
		r.add(`{"message":"y","inSeconds":1}`)
		r.pass(2 * time.Second)
		r.none() // held by the turn that the first push began
		r.turn("inf_1", "completed")
		r.one()
	})
}

func TestARefusedPushHoldsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.openIdle()
		r.add(`{"message":"x","inSeconds":1}`)
		r.add(`{"message":"y","inSeconds":2}`)
		r.pass(5 * time.Second)
		r.one().refuse("busy")
		r.one().refuse("busy")
		r.none()
	})
}

// TestAHostThatDoesNotOfferItSeesNoDifference: neither in the manifest, nor in the receipt, nor in what is pushed when.
func TestAHostThatDoesNotOfferItSeesNoDifference(t *testing.T) {
	if manifest := string(mcpl.Manifest(false)); strings.Contains(manifest, "idle") || !strings.Contains(string(mcpl.Manifest(true)), mcpl.IdleFeatureSet) {
		t.Errorf("the manifest: %s", manifest)
	}
	bubble(t, func(t *testing.T, r *rig) {
		r.s.Initialized(Client{Offers: mcpl.Session{MCPL: true}})
		var receipt mcpl.Receipt
		r.s.UpdatePolicy(json.RawMessage(grantIdle), func(got mcpl.Receipt, err error) { receipt = got })
		synctest.Wait()
		if data, err := json.Marshal(receipt); err != nil || string(data) != `{"accepted":true,"mode":"full","unavailableFeatures":[],"notes":[]}` {
			t.Errorf("the receipt: %s, %v", data, err)
		}
		r.turn("a", "started")
		r.add(`{"message":"x","inSeconds":1}`)
		r.pass(time.Second)
		r.one().accept()
	})
	bubble(t, func(t *testing.T, r *rig) { // offered, and not granted
		r.s.Initialized(Client{Offers: mcpl.Session{MCPL: true, Lifecycle: true}})
		var receipt mcpl.Receipt
		r.s.UpdatePolicy(json.RawMessage(grantAll), func(got mcpl.Receipt, err error) { receipt = got })
		synctest.Wait()
		if receipt.Mode != "degraded" || len(receipt.Unavailable) != 1 || receipt.Unavailable[0].FeatureSet != mcpl.IdleFeatureSet {
			t.Errorf("the receipt: %+v", receipt)
		}
		r.turn("a", "started")
		r.add(`{"message":"x","inSeconds":1}`)
		r.pass(time.Second)
		r.one().accept()
	})
}

func TestTheCommandSetsPausesResumesAndClears(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		say := func(line string, parts ...string) {
			t.Helper()
			reply := r.call("heartbeat_command", fmt.Sprintf(`{"command":%q}`, line))
			for _, p := range parts {
				if !strings.Contains(reply.Text, p) {
					t.Errorf("%s: %q is missing in %s", line, p, reply.Text)
				}
			}
		}
		say("every 10m Check the build", "Updated. Heartbeat ACTIVE", "interval=600s", "next in ~600s", `message="Check the build"`)
		r.pass(10 * time.Minute)
		p := r.one()
		text := p.params.Payload.Content[0].Text
		if !strings.Contains(text, "recurring instruction, every 10m] Check the build") || !strings.Contains(text, "do not invent work") {
			t.Errorf("what is pushed: %s", text)
		}
		p.accept()
		say("status", "taken=1", "last=2000-01-01T00:10:00+00:00 [UTC]", "next in ~600s")
		// A fire that the host does not admit does not count, and the schedule is kept.
		r.pass(10 * time.Minute)
		r.one().refuse("not now")
		say("", "taken=1", "next in ~600s")
		say("pause", "PAUSED")
		r.pass(time.Hour)
		r.none()
		say("resume", "ACTIVE", "next in ~600s") // never overdue at once
		r.pass(time.Second)
		r.none()
		r.pass(10 * time.Minute)
		r.one().accept()
		say("clear", "Updated. Heartbeat NOT SET")
		say("status", "Heartbeat NOT SET")
		say("resume", "no heartbeat is set")
		if reply := r.call("heartbeat_trigger", ""); !reply.IsError || !strings.Contains(reply.Text, "none is set") {
			t.Errorf("trigger: %s", reply.Text)
		}
		r.pass(time.Hour)
		r.none()
		r.stop()
		r.start()
		r.open()
		say("status", "Heartbeat NOT SET")
		say("every 1h Look", "Heartbeat ACTIVE", "interval=3600s")
		if strings.Contains(r.call("heartbeat_status", "").Text, "taken=") {
			t.Error("the count of the one before goes on")
		}
		say("every 45s x", "Nothing was changed: 45s is shorter than the least, 60s")
		// A text of one's own is no recurring instruction any more.
		r.call("heartbeat_configure", `{"message":"plain"}`)
		r.pass(time.Hour)
		if text := r.one().params.Payload.Content[0].Text; !strings.HasSuffix(text, "] plain") {
			t.Errorf("%s", text)
		}
	})
}

func TestNoHeartbeatOutsideItsHours(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) { // it is midnight
		r.open()
		r.call("heartbeat_configure", `{"intervalHours":1,"activeHours":"08:00-10:30"}`)
		r.says("heartbeat_status", "hours=08:00-10:30", "next in ~28800s")
		for _, want := range []time.Duration{8 * time.Hour, 9 * time.Hour, 10 * time.Hour, 32 * time.Hour} {
			begun := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			time.Sleep(time.Until(begun.Add(want)) - time.Second)
			synctest.Wait()
			r.none()
			r.pass(2 * time.Second)
			r.one().accept()
		}
		r.call("heartbeat_configure", `{"activeHours":"always"}`)
		r.says("heartbeat_status", "next in ~35")
	})
}
