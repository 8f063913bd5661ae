package main

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"heartbeat-mcpl/cmd/internal/host"
	"heartbeat-mcpl/journal"
)

var realRetries = flag.Bool("retry.real", false, "run the test of a host that refuses for a while with the real clock, about two and a half minutes")

// TestHostThatIsBusyForTenMinutesGetsEachReminderOnce runs the real binary with a simulated clock: a host that refuses everything for
// ten minutes gets each reminder once, by itself: those of the last minute within a minute.
func TestHostThatIsBusyForTenMinutesGetsEachReminderOnce(t *testing.T) {
	s := startClocked(t)
	s.busy = true
	due := map[string]time.Time{}
	for i := range 20 {
		in := 30*i + 15
		due[s.add(fmt.Sprintf(`{"message":"m","inSeconds":%d}`, in))] = s.now.Add(time.Duration(in) * time.Second)
	}
	s.pass(10 * time.Minute)
	s.busy = false
	again := s.now
	got := map[string]int{}
	for _, p := range s.pass(20 * time.Minute) {
		got[p.reminder]++
		if late := p.at.Sub(again); again.Sub(due[p.reminder]) <= time.Minute && late > time.Minute || late > 9*time.Minute {
			t.Errorf("one that was due %s before the host took again came %s after that", again.Sub(due[p.reminder]), late)
		}
	}
	for id := range due {
		if got[id] != 1 {
			t.Errorf("%s was taken %d times", id, got[id])
		}
	}
	if more := s.pass(2 * time.Hour); len(more) > 0 {
		t.Errorf("taken, and again: %v", more)
	}
}

// TestHostThatIsBusyForAWhileInRealTime is the same without a simulated clock, for seventy seconds.
func TestHostThatIsBusyForAWhileInRealTime(t *testing.T) {
	if !*realRetries {
		t.Skip("no -retry.real")
	}
	s := newHome(t).open()
	begun, busy := time.Now(), 70*time.Second
	var mu sync.Mutex
	taken := map[string][]time.Duration{}
	all := make(chan struct{})
	const n = 8
	s.OnPush(func(p *host.Push) {
		if time.Since(begun) < busy {
			s.ok(p.Refuse("agent is busy"))
			return
		}
		mu.Lock()
		defer mu.Unlock()
		id := fmt.Sprint(p.Origin["reminderId"])
		taken[id] = append(taken[id], time.Since(begun))
		s.ok(p.Accept())
		if len(taken) == n {
			close(all)
		}
	})
	due := map[string]time.Duration{}
	for i := range n {
		in := 9 * i
		due[s.add(map[string]any{"inSeconds": in})] = time.Duration(in) * time.Second
	}
	select {
	case <-all:
	case <-time.After(5 * time.Minute):
	}
	s.until("reminder_list", "No reminders set.")
	s.end()
	mu.Lock()
	defer mu.Unlock()
	for id, at := range due {
		if len(taken[id]) != 1 {
			t.Errorf("the one that was due after %s was taken at %v", at, taken[id])
			continue
		}
		t.Logf("due after %s, taken after %s", at, taken[id][0])
		if late := taken[id][0] - busy; busy-at <= time.Minute && late > 66*time.Second || late > 2*time.Minute {
			t.Errorf("the one that was due after %s came %s after the host took again", at, late)
		}
	}
}

// TestTriesSurviveAKill: the server is killed between two tries, and none is forgotten or heard twice.
func TestTriesSurviveAKill(t *testing.T) {
	h := newHome(t)
	s := h.open()
	id := s.add(map[string]any{"inSeconds": 0})
	seen := map[string]bool{}
	for try := 1; try <= 3; try++ {
		p := s.push()
		if seen[p.EventID] {
			t.Errorf("refused, and tried again as %s", p.EventID)
		}
		seen[p.EventID] = true
		s.ok(p.Refuse("agent is busy"))
		tries := "1 try"
		if try > 1 {
			tries = fmt.Sprintf("%d tries", try)
		}
		contains(t, s.until("reminder_list", tries+", next in ~"), id, "(overdue)", "refused by the host at", "agent is busy | "+tries)
		contains(t, s.call("heartbeat_status", nil), "delivery=ok", "| not taken: 1 reminder (agent is busy), next try in ~")
		contains(t, h.ctl("status"), "wakes are delivered", "not taken: 1 reminder (agent is busy), next try in ", "not taken "+[]string{"once", "2 times", "3 times"}[try-1]+": agent is busy, next in ")
		s.Kill()
		s = h.open()
	}
	s.ok(s.push().Accept())
	s.until("reminder_list", "No reminders set.")
	if text := s.call("heartbeat_status", nil); strings.Contains(text, "not taken") {
		t.Error(text)
	}
	s.Kill()
	s = h.open()
	s.call("reminder_list", nil)
	s.end()
	events := h.events()
	out, err := h.command("audit", "--json").Output()
	s.ok(err)
	contains(t, string(out), `"pushes": 4`, `"refused": 3`, `"taken": 1`, `"waiting": 0`)
	if fires, acks := len(events[journal.KindFire]), len(events[journal.KindAck]); fires != 4 || acks != 1 {
		t.Errorf("%d fires, %d acks", fires, acks)
	}
}
