package main

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"heartbeat-mcpl/cmd/internal/host"
)

var crashRounds = flag.Int("crash.rounds", 25, "how often the crash test kills the server")

// ledger is what the host knows: what was answered, and what was taken.
type ledger struct {
	mu        sync.Mutex
	set       map[string]bool  // reminders whose reminder_add was answered
	unsure    int              // reminder_adds that were not answered
	cancelled map[string]place // reminders whose cancel was answered, and where
	maybe     map[string]bool  // reminders whose cancel was not answered
	accepted  map[string]bool  // event ids of pushes that were accepted, in time or not
	taken     map[string]bool  // reminders whose push was accepted
	sent      map[string]string
}

// place is where the server said something: as which line of which round's process.
type place struct{ round, line int }

func (p place) after(q place) bool { return p.round > q.round || p.round == q.round && p.line > q.line }

// TestNothingAnsweredIsLostWhenTheServerIsKilled kills the server at random moments under load. Each time, after the
// restart: every answered reminder is there unless it was cancelled or its push accepted, what was cancelled stays away, and
// a push that went out without being accepted goes out again under the same event id.
func TestNothingAnsweredIsLostWhenTheServerIsKilled(t *testing.T) {
	h := newHome(t)
	l := &ledger{set: map[string]bool{}, cancelled: map[string]place{}, maybe: map[string]bool{}, accepted: map[string]bool{},
		taken: map[string]bool{}, sent: map[string]string{}}
	for round := range *crashRounds {
		s := h.start()
		s.OnPush(func(p *host.Push) { l.pushed(t, p, round) })
		s.initialize(true)
		s.policy(host.Grant)
		l.check(t, s, round)
		l.load(s, round)
		s.Kill()
	}
	s := h.start()
	s.OnPush(func(p *host.Push) { l.pushed(t, p, *crashRounds) })
	s.initialize(true)
	l.check(t, s, *crashRounds)
	s.end()
	h.events() // fails on damage: a killed process leaves none
}

// load works on the server until a random moment.
func (l *ledger) load(s *session, round int) {
	deadline := time.Now().Add(time.Duration(rand.IntN(60)) * time.Millisecond)
	var waiting sync.WaitGroup
	for time.Now().Before(deadline) {
		in := 3600.0
		if rand.IntN(3) == 0 {
			in = float64(rand.IntN(40)) / 1000
		}
		add, err := s.Send("tools/call", map[string]any{"name": "reminder_add", "arguments": map[string]any{"message": "m", "inSeconds": in}})
		if err != nil {
			break
		}
		waiting.Go(func() { l.added(s, add) })
		if id := l.any(); id != "" && rand.IntN(3) == 0 {
			cancel, err := s.Send("tools/call", map[string]any{"name": "reminder_cancel", "arguments": map[string]any{"id": id}})
			if err != nil {
				break
			}
			waiting.Go(func() { l.cancelAnswered(s, id, cancel, round) })
		}
		if rand.IntN(4) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	s.Host.Kill()
	waiting.Wait()
}

func (l *ledger) any() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.set {
		if !l.gone(id) && !l.maybe[id] && !l.taken[id] {
			l.maybe[id] = true // until the cancel is answered
			return id
		}
	}
	return ""
}

// gone says whether a reminder's cancel was answered.
func (l *ledger) gone(id string) bool {
	_, ok := l.cancelled[id]
	return ok
}

func (l *ledger) added(s *session, add *host.Pending) {
	raw, err := add.Wait(s.patience())
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.unsure++
		return
	}
	var r struct {
		Structured struct {
			ID    string
			Saved bool
		} `json:"structuredContent"`
	}
	if json.Unmarshal(raw, &r) == nil && r.Structured.Saved {
		l.set[r.Structured.ID] = true
	}
}

func (l *ledger) cancelAnswered(s *session, id string, cancel *host.Pending, round int) {
	raw, err := cancel.Wait(s.patience())
	if err != nil {
		return
	}
	r, err := host.ReadToolResult(raw)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && !r.IsError {
		l.cancelled[id] = place{round, cancel.Line()}
	}
}

// pushed accepts some pushes and leaves others without an answer.
func (l *ledger) pushed(t *testing.T, p *host.Push, round int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, _ := p.Origin["reminderId"].(string)
	if old, again := l.sent[id]; again && old != p.EventID {
		t.Errorf("reminder %s, never refused, was pushed as %s and as %s", id, old, p.EventID)
	}
	l.sent[id] = p.EventID
	if c, ok := l.cancelled[id]; ok && (place{round, p.Line}).after(c) {
		t.Errorf("reminder %s was pushed after its cancel was answered", id)
	}
	if rand.IntN(2) == 0 {
		return
	}
	l.accepted[p.EventID], l.taken[id] = true, true
	_ = p.Accept() // the server may be dead: then it will push again, which the host knows by the event id
}

func (l *ledger) check(t *testing.T, s *session, round int) {
	t.Helper()
	r := s.result("reminder_list", map[string]any{"limit": 10_000})
	var list struct{ Reminders []struct{ ID string } }
	s.ok(json.Unmarshal(r.Structured, &list))
	there := map[string]bool{}
	for _, one := range list.Reminders {
		there[one.ID] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.set {
		if !there[id] && !l.gone(id) && !l.maybe[id] && !l.taken[id] {
			t.Fatalf("round %d: reminder %s was answered and is gone", round, id)
		}
		if there[id] && l.gone(id) {
			t.Fatalf("round %d: reminder %s was cancelled and is back", round, id)
		}
	}
	if extra := len(there) - len(l.set); extra > l.unsure {
		t.Fatalf("round %d: %d reminders more than were set, %d were not answered", round, extra, l.unsure)
	}
}

// TestFullDiskLosesNothing fills the disk that the files are on, a small one made for it, until changes cannot be saved.
func TestFullDiskLosesNothing(t *testing.T) {
	h := newHome(t)
	if err := syscall.Mount("tmpfs", h.dir, "tmpfs", 0, "size=2m,mode=700"); err != nil {
		t.Skipf("a small disk cannot be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(h.dir, 0); err != nil {
			t.Log(err)
		}
	})
	s := h.open()
	var saved, unsaved []string
	text := strings.Repeat("x", 20_000)
	for len(unsaved) < 3 {
		reply := s.call("reminder_add", map[string]any{"message": text, "inHours": 1})
		if id := reminderID(t, reply); strings.Contains(reply, "This change is not saved") {
			unsaved = append(unsaved, id)
		} else {
			saved = append(saved, id)
		}
		if len(saved) > 200 {
			t.Fatal("the disk never got full")
		}
	}
	contains(t, s.call("reminder_list", nil), unsaved[0], "not saved")
	contains(t, s.call("heartbeat_status", nil), "not saved")
	s.logged("not saved: the journal cannot be written")

	// A restart while the disk is full finds all that was saved.
	s.Kill()
	s = h.open()
	full := s.call("reminder_list", nil)
	for _, id := range saved {
		if !strings.Contains(full, id) {
			t.Errorf("%s was saved, and is gone while the disk is full", id)
		}
	}
	for len(unsaved) < 6 {
		reply := s.call("reminder_add", map[string]any{"message": text, "inHours": 1})
		contains(t, reply, "not saved")
		unsaved = append(unsaved, reminderID(t, reply))
	}
	unsaved = unsaved[3:] // those before the restart were only in memory, as was said
	s.logged("not saved: the journal cannot be written")
	if err := syscall.Mount("tmpfs", h.dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	last := s.add(map[string]any{"inHours": 1})
	s.logged("saved: the journal can be written again")
	if list := s.call("reminder_list", nil); strings.Contains(list, "not saved") {
		t.Errorf("with space again it still says: %.200s", list)
	}
	s.Kill()
	s = h.open()
	list := s.call("reminder_list", nil)
	for _, id := range append(append(saved, unsaved...), last) {
		if !strings.Contains(list, id) {
			t.Errorf("%s is gone", id)
		}
	}
	s.end()
	h.events()
}
