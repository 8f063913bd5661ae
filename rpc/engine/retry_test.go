package engine

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// taker is a host that turns wakes down until it takes them.
type taker struct {
	takes   time.Time // from then on
	silent  bool      // before that it does not answer at all
	answers map[string][]string
	ids     map[string]map[string]bool // event ids that were taken, by reminder
	taken   map[string]time.Time
	pushes  int
}

func newTaker(takes time.Time, silent bool) *taker {
	return &taker{takes: takes, silent: silent, ids: map[string]map[string]bool{}, taken: map[string]time.Time{}}
}

// serve answers until the rig's bubble ends; it is called with the host's lock free.
func (k *taker) serve(h *fakeHost, p *fakePush) {
	h.mu.Lock()
	k.pushes++
	h.all = nil
	takes := !time.Now().Before(k.takes)
	id := p.params.Origin.ReminderID
	if takes {
		if k.ids[id] == nil {
			k.ids[id], k.taken[id] = map[string]bool{}, time.Now()
		}
		k.ids[id][p.params.EventID] = true
	}
	h.mu.Unlock()
	switch {
	case takes:
		p.accept1()
	case !k.silent:
		p.refuse1("agent is busy")
	}
}

// TestWhatWasNotTakenComesByItself: a host that turns wakes down for ten minutes, and then takes everything, gets each once: what was
// due in the last minute within a minute, the rest within the pause (SPEC 6.5).
func TestWhatWasNotTakenComesByItself(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("silent %v", silent), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.open()
				start := time.Now()
				k := newTaker(start.Add(10*time.Minute), silent)
				r.host.answerWith(func(p *fakePush) { k.serve(r.host, p) })
				due := map[string]time.Duration{}
				for _, after := range []time.Duration{time.Second, 3 * time.Minute, 9*time.Minute + 10*time.Second, 9*time.Minute + 50*time.Second} {
					due[r.add(fmt.Sprintf(`{"message":"x","inSeconds":%d}`, int(after.Seconds())))] = after
				}
				r.pass(9*time.Minute + 55*time.Second)
				r.says("heartbeat_status", "delivery=ok", "not taken: ", "next try in ~")
				if len(k.taken) != 0 {
					t.Fatalf("taken before: %v", k.taken)
				}
				r.pass(12 * time.Minute)
				for id, after := range due {
					most := 9 * time.Minute // a pause of eight, and its tenth
					if after > 9*time.Minute {
						most = time.Minute
					}
					if at, ok := k.taken[id]; !ok || at.Sub(k.takes) > most {
						t.Errorf("due after %v: taken %v after the host takes again (%v), want within %v", after, at.Sub(k.takes), ok, most)
					}
					if len(k.ids[id]) != 1 {
						t.Errorf("due after %v: heard under the event ids %v", after, k.ids[id])
					}
				}
				r.says("reminder_list", "No reminders set.")
				r.says("heartbeat_status", "reminders=0", "delivery=ok")
			})
		})
	}
}

// TestTriesAreCountedOverARestart and told, with when the next one comes.
func TestTriesAreCountedOverARestart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.add(`{"message":"x","inSeconds":0}`)
		synctest.Wait()
		r.one().refuse("agent is busy")
		r.says("reminder_list", "refused by the host at", "agent is busy", "tried once, next try in ~3")
		r.pass(34 * time.Second)
		r.one().refuse("still busy")
		r.says("reminder_list", "still busy", "tried 2 times, next try in ~6")
		r.stop()
		r.start()
		r.open()
		synctest.Wait()
		r.one().refuse("and still")
		r.says("reminder_list", "and still", "tried 3 times, next try in ~1")
		r.pass(2*time.Minute - time.Second)
		r.none()
		r.pass(14 * time.Second)
		r.one().accept()
	})
}

// TestNothingComesOfAWakeThatIsOverBetweenTwoTries: cancelled, or blocked by the policy.
func TestNothingComesOfAWakeThatIsOverBetweenTwoTries(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		id := r.add(`{"message":"x","inSeconds":0}`)
		synctest.Wait()
		r.one().refuse("busy")
		r.call("reminder_cancel", fmt.Sprintf(`{"id":%q}`, id))
		r.pass(time.Hour)
		r.none()

		r.add(`{"message":"y","inSeconds":0}`)
		synctest.Wait()
		r.one().refuse("busy")
		r.policy(`{"effectiveCapabilities":["tools"]}`)
		r.pass(time.Hour)
		r.none()
		r.policy(grantAll)
		r.one().accept()
		r.pass(time.Hour)
		r.none()
	})
}

// TestHeartbeatIsTriedAgainUntilTheNextIsDue, whose text then says how many were missed (SPEC 6.2a, 6.5a).
func TestHeartbeatIsTriedAgainUntilTheNextIsDue(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"intervalMinutes":10}`)
		r.pass(10 * time.Minute)
		first := r.one()
		first.refuse("agent is busy")
		r.says("heartbeat_status", "not taken: 1 heartbeat (agent is busy), next try in ~3")
		r.pass(34 * time.Second)
		second := r.one()
		if second.params.EventID == first.params.EventID {
			t.Error("refused, and tried again under its event id")
		}
		second.accept()
		r.pass(9*time.Minute + 25*time.Second)
		r.none() // the schedule did not move
		r.pass(time.Second)
		r.host.answerWith(func(p *fakePush) { p.refuse1("agent is busy") })
		r.host.pushes()[0].refuse("agent is busy")
		r.pass(20 * time.Minute)
		r.host.answerWith(nil)
		r.host.pushes()
		r.policy(grantAll)
		text := r.one().params.Payload.Content[0].Text
		if !strings.Contains(text, " · 2 heartbeats since ") || !strings.Contains(text, " did not reach you: agent is busy]") {
			t.Errorf("text: %s", text)
		}
	})
}

var refused = flag.Int("refused.reminders", 20, "how many reminders a host refuses for a day")

// TestRefusingHostCostsLittle: reminders at a host that refuses for a day.
func TestRefusingHostCostsLittle(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		k := newTaker(time.Now().Add(48*time.Hour), false)
		r.host.answerWith(func(p *fakePush) { k.serve(r.host, p) })
		for range *refused {
			r.add(`{"message":"x","inHours":1}`)
		}
		before := journalBytes(t, r)
		r.pass(25 * time.Hour)
		size := journalBytes(t, r) - before
		t.Logf("%d pushes, %d bytes of journal", k.pushes, size)
		if each := k.pushes / *refused; each < 28 || each > 32 {
			t.Errorf("%d pushes of each", each)
		}
		if each := size / int64(k.pushes); each > 400 {
			t.Errorf("%d bytes of journal a push", each)
		}
	})
}

func journalBytes(t *testing.T, r *rig) (n int64) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(r.dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

func (p *fakePush) refuse1(reason string) {
	p.timer.Stop()
	p.session.Outcome(p.offer, refusedAnswer(reason))
}
