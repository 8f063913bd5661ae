package engine

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/wire"
)

// moody is a host that refuses, or does not answer, until it takes.
type moody struct {
	mu      sync.Mutex
	silent  bool
	why     string // it refuses
	takes   bool
	pushed  int
	taken   map[string][]time.Time // by reminder, "" for the heartbeat
	seconds map[int64]int          // pushes in each second
}

func (r *rig) moody(silent bool) *moody { return r.moodyFor(silent, "agent is busy") }

func (r *rig) moodyFor(silent bool, why string) *moody {
	m := &moody{silent: silent, why: why, taken: map[string][]time.Time{}, seconds: map[int64]int{}}
	r.host.answerWith(m.answer)
	return m
}

func (m *moody) answer(p *fakePush) {
	m.mu.Lock()
	m.pushed++
	m.seconds[p.at.Unix()]++
	takes := m.takes
	if takes {
		m.taken[p.params.Origin.ReminderID] = append(m.taken[p.params.Origin.ReminderID], time.Now())
	}
	m.mu.Unlock()
	switch {
	case takes:
		p.accept1()
	case !m.silent:
		p.refuse1(m.why)
	}
}

func (m *moody) take() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.takes = true
}

// refuse1 answers from a goroutine of its own, without waiting for the bubble.
func (p *fakePush) refuse1(reason string) {
	p.timer.Stop()
	p.reply(wire.Answer{Result: json.RawMessage(fmt.Sprintf(`{"accepted":false,"reason":%q}`, reason))})
}

// TestHostThatTakesAgainGetsEachReminderOnceByItself: after ten minutes in which it refused all, or answered none.
func TestHostThatTakesAgainGetsEachReminderOnceByItself(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("silent %v", silent), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.open()
				m := r.moody(silent)
				begun, limit := time.Now(), time.Minute
				if silent {
					limit += 3 * time.Second // it takes 30 s to know that it was not answered, and then up to a tenth more than 30 s
				}
				due := map[string]time.Time{}
				for i := range 61 {
					after := 10 * i
					if i == 60 {
						after = 599
					}
					due[r.add(fmt.Sprintf(`{"message":"m","inSeconds":%d}`, after))] = begun.Add(time.Duration(after) * time.Second)
				}
				r.pass(10 * time.Minute)
				again := time.Now()
				m.take()
				r.pass(20 * time.Minute)
				for id, at := range due {
					got := m.taken[id]
					if len(got) != 1 {
						t.Errorf("the one that was due %s before it took again was taken %d times", again.Sub(at), len(got))
						continue
					}
					late := got[0].Sub(again)
					if since := again.Sub(at); since <= time.Minute && late > limit || late > 8*time.Minute*11/10+limit {
						t.Errorf("the one that was due %s before it took again came %s after that", since, late)
					}
				}
				r.says("reminder_list", "No reminders set.")
				r.pass(2 * time.Hour)
				for id := range due {
					if n := len(m.taken[id]); n != 1 {
						t.Errorf("%s was taken %d times in the end", id, n)
					}
				}
			})
		})
	}
}

// TestPausesGrowAndGoOnOverRestarts: 30 s, 1, 2, 4, 8, 15, 30 minutes, then an hour each, each up to a tenth longer. A restart tries at
// once and forgets no try.
func TestPausesGrowAndGoOnOverRestarts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"paused":true}`)
		r.moody(false)
		r.add(`{"message":"m","inSeconds":0}`)
		synctest.Wait()
		last := time.Now()
		for i, pause := range []time.Duration{0, 30 * time.Second, time.Minute, 2 * time.Minute, 0, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, time.Hour} {
			if i > 0 && pause == 0 {
				r.stop()
				r.start()
				r.says("reminder_list", "| refused by the host", "4 tries, next when wakes can be sent")
				r.moody(false)
				r.open()
				last = time.Now()
			}
			if pause > 0 {
				r.pass(time.Until(last.Add(pause - time.Second)))
				r.none()
				r.pass(pause/10 + 2*time.Second)
			}
			p := r.one()
			if wait := p.at.Sub(last); wait < pause || pause > 0 && wait > pause+pause/10+time.Second {
				t.Errorf("try %d came after %s, want %s", i+1, wait, pause)
			}
			last = p.at
			tries := "1 try"
			if i > 0 {
				tries = fmt.Sprintf("%d tries", i+1)
			}
			r.says("reminder_list", "agent is busy | "+tries+", next in ~", "tried again by itself (next try in ~")
			r.says("heartbeat_status", "| not taken: 1 reminder (agent is busy), next try in ~")
			validated(t, "reminder_list", r.call("reminder_list", ""))
			validated(t, "heartbeat_status", r.call("heartbeat_status", ""))
		}
		r.says("wake_history", "| refused |", "11 pushes")
		r.host.answerWith((*fakePush).accept1)
		r.pass(67 * time.Minute)
		r.says("reminder_list", "No reminders set.")
		if text := r.call("heartbeat_status", "").Text; strings.Contains(text, "not taken") {
			t.Errorf("taken, and status says %s", text)
		}
	})
}

func TestWakeThatIsCancelledOrMovedBetweenTwoTries(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"paused":true}`)
		cancelled := r.add(`{"message":"a","inSeconds":0}`)
		synctest.Wait()
		r.one().refuse("agent is busy")
		r.call("reminder_cancel", fmt.Sprintf(`{"id":%q}`, cancelled))
		r.pass(3 * time.Hour)
		r.none()

		moved := r.add(`{"message":"b","inSeconds":0}`)
		synctest.Wait()
		first := r.one()
		r.pass(31 * time.Second) // nobody answers it
		to := time.Now().Add(time.Hour)
		r.write("reminders.json", fmt.Sprintf(`[{"id":%q,"message":"b","createdAt":1,"fireAt":%q,"everySeconds":null}]`, moved, to.UTC().Format(time.RFC3339Nano)))
		r.pass(time.Until(to) - time.Second)
		r.none()
		r.pass(2 * time.Second)
		second := r.one()
		if second.params.EventID == first.params.EventID {
			t.Error("another time is another wake, and has the event id of the one before")
		}
		second.accept()
		first.late() // it is another occurrence's
		r.pass(3 * time.Hour)
		r.none()
		r.says("reminder_list", "No reminders set.")
	})
}

func TestPolicyThatIsTakenBackBetweenTwoTries(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"paused":true}`)
		r.add(`{"message":"m","inSeconds":0}`)
		synctest.Wait()
		r.one().refuse("agent is busy")
		r.policy(`{}`)
		r.pass(3 * time.Hour)
		r.none()
		r.says("heartbeat_status", "not taken: 1 reminder (agent is busy), next try when wakes can be sent")
		r.policy(grantAll)
		r.one().accept()
	})
}

// TestOneThatIsAlwaysRefusedHoldsBackNoOther, also where wakes go out one by one, between the host's turns.
func TestOneThatIsAlwaysRefusedHoldsBackNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.s.Initialized(Client{Offers: mcpl.Session{MCPL: true}})
		r.policy(`{"effectiveCapabilities":["tools","pushEvents","inferenceLifecycle"]}`)
		r.call("heartbeat_configure", `{"paused":true}`)
		bad := map[string]bool{}
		for range 50 {
			bad[r.add(`{"message":"bad","inSeconds":1}`)] = true
		}
		taken := map[string]time.Duration{}
		var mu sync.Mutex
		begun := time.Now()
		r.host.answerWith(func(p *fakePush) {
			id := p.params.Origin.ReminderID
			if bad[id] {
				return // it is not even answered, which takes 30 s each
			}
			mu.Lock()
			taken[id] = time.Since(begun)
			mu.Unlock()
			p.accept1()
		})
		r.pass(45 * time.Minute) // all have been tried
		begun = time.Now()
		var good []string
		for i := range 10 {
			good = append(good, r.add(fmt.Sprintf(`{"message":"good","inSeconds":%d}`, 60*i)))
		}
		r.pass(20 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for i, id := range good {
			at, was := taken[id]
			if late := at - time.Duration(i)*time.Minute; !was || late > answerLimit+time.Second {
				t.Errorf("good one %d was taken %s after it was due", i, late)
			}
		}
	})
}

var refusedReminders = flag.Int("refused.reminders", 40, "how many reminders a host refuses: 1000 for a day, fewer for three hours")

// TestManyThatAreRefusedForLong costs a bounded number of pushes and bytes, and no two seconds in which they all come.
func TestManyThatAreRefusedForLong(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"paused":true}`)
		m := r.moody(false)
		for range *refusedReminders {
			r.add(`{"message":"Look at the build","inSeconds":60}`)
		}
		r.pass(59 * time.Second)
		before := r.journalBytes()
		r.pass(2 * time.Second)
		n := *refusedReminders
		if m.pushed != n {
			t.Fatalf("%d first pushes", m.pushed)
		}
		m.mu.Lock()
		clear(m.seconds)
		m.mu.Unlock()
		hours := 3
		if n >= 1000 {
			hours = 24
		}
		r.pass(time.Duration(hours) * time.Hour)
		bytes := r.journalBytes() - before
		most := 0
		for _, n := range m.seconds {
			most = max(most, n)
		}
		t.Logf("%d reminders at a host that refuses for %d hours: %d pushes, %d bytes of journal, at most %d pushes in one second after the first", n, hours, m.pushed, bytes, most)
		each := 7 + hours // in the first hour eight, then one an hour
		if m.pushed < (each-3)*n || m.pushed > each*n {
			t.Errorf("%d pushes", m.pushed)
		}
		if bytes > int64(500*each*n) {
			t.Errorf("%d bytes of journal", bytes)
		}
		if most > n/2+5 {
			t.Errorf("%d pushes in one second", most)
		}
		m.take()
		r.pass(67 * time.Minute)
		r.says("reminder_list", "No reminders set.")
		if len(m.taken) != n {
			t.Errorf("%d were taken", len(m.taken))
		}
	})
}

func (r *rig) journalBytes() (n int64) {
	r.t.Helper()
	segments, err := filepath.Glob(filepath.Join(r.dir, "journal", "0*"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, path := range segments {
		err := filepath.Walk(path, func(_ string, info fs.FileInfo, err error) error {
			if err == nil {
				n += info.Size()
			}
			return err
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return n
}

// TestAThousandAtOnceMindTheLimit: a reason lets all go, as many at once as may be without an answer.
func TestAThousandAtOnceMindTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		for range 1500 {
			r.add(`{"message":"m","inSeconds":60}`)
		}
		m := r.moody(false)
		r.pass(61 * time.Second)
		if m.pushed != 1500 {
			t.Fatalf("%d first pushes", m.pushed)
		}
		m.mu.Lock()
		m.pushed, m.silent = 0, true
		m.mu.Unlock()
		r.policy(grantAll)
		if m.pushed != mostInFlight {
			t.Errorf("%d are out, at most %d may be", m.pushed, mostInFlight)
		}
		m.take()
		r.pass(10 * time.Minute)
		r.says("reminder_list", "No reminders set.")
	})
}

func TestRecurringOneComesAtItsNextSlotAtTheLatest(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"paused":true}`)
		r.add(`{"message":"again","everyMinutes":10}`)
		r.pass(10 * time.Minute)
		r.one().refuse("agent is busy")
		r.moody(false)
		r.pass(10*time.Minute - time.Millisecond)
		if n := len(r.host.pushes()); n != 4 { // after 30 s, 1, 2 and 4 minutes; the next pause would be eight
			t.Errorf("%d more tries", n)
		}
		r.host.answerWith(nil)
		r.pass(time.Millisecond)
		p := r.one()
		p.accept()
		if !slices.Contains(p.params.Tags, "heartbeat:overdue") || !strings.Contains(p.params.Payload.Content[0].Text, ", due 2000-01-01T00:10:00") {
			t.Errorf("push: %+v", p.params)
		}
		r.pass(10 * time.Minute)
		r.one().accept()
	})
}

// TestHeartbeatThatWasNotTakenComesAgain until the next one is due, which says how many did not reach the agent.
func TestHeartbeatThatWasNotTakenComesAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"intervalMinutes":5,"message":"look"}`)
		begun := time.Now()
		r.pass(5 * time.Minute)
		first := r.one()
		first.refuse("agent is busy")
		r.says("heartbeat_status", "not taken: the heartbeat (agent is busy), next try in ~3", "next in ~300s")
		r.pass(34 * time.Second)
		second := r.one()
		if second.params.EventID == first.params.EventID || !strings.HasPrefix(said(second), "[current time: 2000-01-01T00:05:") || strings.Contains(said(second), "did not reach") {
			t.Errorf("tried again: %+v", second.params)
		}
		r.pass(30 * time.Second) // nobody answers
		r.pass(67 * time.Second)
		third := r.one()
		if third.params.EventID != second.params.EventID {
			t.Errorf("not answered as %s, and tried again as %s", second.params.EventID, third.params.EventID)
		}
		third.refuse("no budget")
		r.moodyFor(false, "no budget")
		r.pass(time.Until(begun.Add(10*time.Minute)) - time.Second)
		r.host.pushes()
		r.host.answerWith(nil)
		r.pass(time.Second)
		next := r.one() // its phase is kept
		if want := "· 1 heartbeat since 2000-01-01T00:05:00+00:00 [UTC] did not reach you: no budget] look"; !strings.HasSuffix(said(next), want) {
			t.Errorf("the next one says %s", said(next))
		}
		next.accept()
		r.pass(5 * time.Minute)
		last := r.one()
		if strings.Contains(said(last), "did not reach") {
			t.Errorf("one that follows a heartbeat that was taken: %s", said(last))
		}
		last.accept()
		r.says("wake_history", "3 wake(s)", "| heartbeat | refused | due 2000-01-01T00:05:00", "no budget")
	})
}

func said(p *fakePush) string {
	if len(p.params.Payload.Content) == 0 {
		return ""
	}
	return p.params.Payload.Content[0].Text
}

func TestDroppedHeartbeatsAreSaidToTheNextOne(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_command", `{"command":"every 1h Look at the builds"}`)
		r.pass(time.Hour)
		r.one().refuse("agent is busy")
		r.policy(`{}`)
		r.pass(2 * time.Hour)
		r.policy(grantAll)
		r.stop()
		r.start() // the journal knows
		r.open()
		r.none()
		r.pass(time.Hour)
		p := r.one()
		if !strings.Contains(said(p), "· recurring instruction, every 1h · 3 heartbeats since 2000-01-01T01:00:00+00:00 [UTC] did not reach you: capability not granted: pushEvents] Look at the builds") {
			t.Errorf("%s", said(p))
		}
		p.accept()
		r.pass(time.Hour)
		if p := r.one(); strings.Contains(said(p), "did not reach") {
			t.Errorf("%s", said(p))
		}
	})
}

// TestHeartbeatOverARestart is tried again at once: under its event id where nobody answered it.
func TestHeartbeatOverARestart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.pass(4 * time.Hour)
		first := r.one()
		r.pass(time.Second)
		r.stop()
		r.start()
		r.open()
		second := r.one()
		if second.params.EventID != first.params.EventID {
			t.Errorf("%s, and after the restart %s", first.params.EventID, second.params.EventID)
		}
		second.refuse("duplicate event")
		if acks := r.events(journal.KindAck); len(acks) != 1 || !acks[0].Body.(*journal.Ack).Duplicate {
			t.Errorf("acks: %+v", acks)
		}
		r.pass(4*time.Hour - 2*time.Second)
		r.none()
		r.pass(time.Second)
		r.one().accept() // the phase is that of the first push
	})
}

func TestHeartbeatIsNotRetriedWhereItIsNotWanted(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"paused":     func(r *rig) { r.call("heartbeat_configure", `{"paused":true}`) },
		"configured": func(r *rig) { r.call("heartbeat_configure", `{"intervalHours":100}`) },
		"late":       func(r *rig) { r.host.all = nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.open()
				r.pass(4 * time.Hour)
				p := r.one()
				if name == "late" {
					r.pass(31 * time.Second)
					p.late()
				} else {
					p.refuse("agent is busy")
				}
				end(r)
				r.pass(3 * time.Hour)
				r.none()
			})
		})
	}
}

func TestHeartbeatOutsideOfItsHoursWaits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"intervalHours":24,"activeHours":"23:00-00:10"}`)
		r.pass(24 * time.Hour) // midnight
		r.one().refuse("agent is busy")
		r.host.answerWith(func(p *fakePush) { p.refuse1("agent is busy") })
		r.pass(11 * time.Minute)
		r.host.pushes()
		r.pass(22*time.Hour + 48*time.Minute)
		r.none()
		r.pass(2 * time.Minute)
		r.one()
	})
}

// TestTriggeredHeartbeatIsTriedAgain, also while the heartbeat is paused.
func TestTriggeredHeartbeatIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"paused":true}`)
		r.call("heartbeat_trigger", "")
		synctest.Wait()
		r.one().refuse("agent is busy")
		r.pass(34 * time.Second)
		p := r.one()
		if p.params.Origin.Reason != "manual" {
			t.Errorf("%+v", p.params)
		}
		p.accept()
		r.pass(2 * time.Hour)
		r.none()
	})
}

func TestSilentHeartbeatIsTriedAgainSilently(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"deliveryMode":"silent","intervalHours":1}`)
		r.pass(time.Hour)
		r.one().refuse("agent is busy")
		r.pass(34 * time.Second)
		silent := r.one()
		if !silent.params.Origin.Silent || len(silent.params.Payload.Content) != 0 {
			t.Errorf("%+v", silent.params)
		}
		silent.refuse("empty content")
		loud := r.one()
		loud.refuse("agent is busy") // it counts as the second try: that the host takes no silent one is none
		r.pass(67 * time.Second)
		again := r.one()
		if !again.params.Origin.SilentFallback || len(again.params.Payload.Content) != 1 {
			t.Errorf("%+v", again.params)
		}
		again.accept()
		r.pass(58*time.Minute + 20*time.Second)
		if p := r.one(); !p.params.Origin.Silent {
			t.Errorf("the next tick: %+v", p.params)
		}
	})
}

// TestMessagesAreTriedAgainByTheSameRule.
func TestMessagesAreTriedAgainByTheSameRule(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.e.Letters("", []projection.Letter{{ID: "msg_1", From: "b", Text: "hello", SentMs: 1}})
		synctest.Wait()
		last := time.Now()
		for _, pause := range []time.Duration{0, 30 * time.Second, time.Minute, 2 * time.Minute} {
			if pause > 0 {
				r.pass(pause - time.Second)
				r.none()
				r.pass(pause/10 + 2*time.Second)
			}
			p := r.one()
			if wait := p.at.Sub(last); wait < pause {
				t.Errorf("came after %s, want %s", wait, pause)
			}
			last = time.Now()
			p.refuse("agent is busy")
			r.says("heartbeat_status", "not taken: 1 message (agent is busy), next try in ~")
		}
		r.policy(grantAll)
		r.one().accept()
	})
}

// TestClockThatIsSetBackDelaysNoTry.
func TestClockThatIsSetBackDelaysNoTry(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"paused":true}`)
		r.add(`{"message":"m","atIso":"1999-12-31T00:00:00Z"}`)
		synctest.Wait()
		r.one().refuse("agent is busy")
		r.step.Store(int64(-5 * time.Minute))
		r.pass(time.Second)
		r.one().refuse("agent is busy")
		r.pass(34 * time.Second)
		r.one().accept()
	})
}

func TestHeartbeatThatIsAskedForWhereItIsPolled(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.s.Initialized(Client{})
		r.says("heartbeat_status", "delivery=pollable (host is MCP-only: what is due waits for get_proactive_events)")
		polled := func() []polledEvent {
			t.Helper()
			var events []polledEvent
			if err := json.Unmarshal([]byte(r.call("get_proactive_events", "").Text), &events); err != nil {
				t.Fatal(err)
			}
			return events
		}
		if events := polled(); len(events) != 0 {
			t.Fatalf("%+v", events)
		}
		r.says("heartbeat_status", "delivery=polled (this host polls: get_proactive_events)")
		r.call("heartbeat_configure", `{"paused":true}`)
		reply := r.call("heartbeat_trigger", "")
		if reply.IsError || !strings.Contains(reply.Text, "Heartbeat due now: nothing is pushed here (host is MCP-only), and the next get_proactive_events returns it.") ||
			!field[bool](t, reply, "toBePolled") || field[bool](t, reply, "fired") {
			t.Errorf("%+v", reply)
		}
		validated(t, "heartbeat_trigger", reply)
		r.stop()
		r.start() // the journal knows
		r.s.Initialized(Client{})
		events := polled()
		if len(events) != 1 || events[0].SourceType != "heartbeat" {
			t.Fatalf("%+v", events)
		}
		if reply := r.call("acknowledge_events", fmt.Sprintf(`{"event_ids":[%q]}`, events[0].EventID)); !strings.Contains(reply.Text, `"acked":1`) {
			t.Errorf("%s", reply.Text)
		}
		if events := polled(); len(events) != 0 {
			t.Errorf("taken, and again: %+v", events)
		}
		r.says("wake_history", "1 wake(s)", "| heartbeat | taken, asked for |")
		r.says("heartbeat_status", "PAUSED", "taken=1")
		r.pass(11 * time.Minute)
		r.says("heartbeat_status", "delivery=pollable")
	})
}
