package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"heartbeat-mcpl/journal"
)

// TestSessionsShareOneJournal: what one changes the others see at once (SPEC 13.1).
func TestSessionsShareOneJournal(t *testing.T) {
	h := newHome(t)
	first, second := h.open(), h.open()
	one := first.add(map[string]any{"inHours": 1, "message": "by the first"})
	two := second.add(map[string]any{"inHours": 2, "message": "by the second"})
	for _, s := range []*session{first, second} {
		contains(t, s.call("reminder_list", nil), "2 reminder(s):", one, two)
	}
	second.call("heartbeat_configure", map[string]any{"intervalHours": 3})
	contains(t, first.call("heartbeat_status", nil), "interval=10800s")
	first.call("reminder_cancel", map[string]any{"id": two})
	contains(t, second.call("reminder_list", nil), "1 reminder(s):", one)
	raw, err := second.Request(second.patience(), "resources/read", map[string]any{"uri": "heartbeat://reminders"})
	second.ok(err)
	contains(t, string(raw), one)
	second.end()
	first.end()
}

// TestWakeGoesToTheSessionThatSetIt, else to the one that called last of those that can be woken, and to the next where it is refused
// (SPEC 13.4).
func TestWakeGoesToTheSessionThatSetIt(t *testing.T) {
	h := newHome(t)
	first, second := h.open(), h.open()
	first.add(map[string]any{"inSeconds": 1, "message": "mine"})
	second.call("heartbeat_status", nil) // it called last
	push := first.push()
	contains(t, push.Text(), "mine")
	first.ok(push.Refuse("agent is busy"))
	again := second.push()
	contains(t, again.Text(), "mine")
	if push.EventID == again.EventID {
		t.Errorf("refused, and offered to the next under the same event id %s", push.EventID)
	}
	second.ok(again.Accept())

	plain := h.plain()
	plain.call("reminder_add", map[string]any{"inSeconds": 0, "message": "of one that cannot be woken"})
	push = second.push()
	contains(t, push.Text(), "of one that cannot be woken")
	second.ok(push.Accept())
	second.until("reminder_list", "No reminders set.")
	plain.end()
	second.end()
	first.end()
}

// TestHolderIsKilled: another session takes the journal over; those that stay keep their policy, and their calls are answered.
func TestHolderIsKilled(t *testing.T) {
	h := newHome(t)
	first, second, third := h.open(), h.open(), h.open()
	id := third.add(map[string]any{"inSeconds": 3, "message": "kept"})
	first.Kill()
	contains(t, second.call("reminder_list", nil), id)
	contains(t, third.call("heartbeat_configure", map[string]any{"intervalHours": 5}), "interval=18000s", "delivery=ok")
	push := third.push()
	contains(t, push.Text(), "kept")
	third.ok(push.Accept())
	second.until("reminder_list", "No reminders set.")
	second.end()
	third.end()
}

// TestPushThatIsOutWhenItsHolderDies is settled by its answer, and not offered again.
func TestPushThatIsOutWhenItsHolderDies(t *testing.T) {
	h := newHome(t)
	first, second := h.open(), h.open()
	second.add(map[string]any{"inSeconds": 0, "message": "out"})
	push := second.push()
	first.Kill()
	contains(t, second.call("reminder_list", nil), "1 reminder(s):")
	second.ok(push.Accept())
	second.until("reminder_list", "No reminders set.")
	second.end()
	if fires := h.events()[journal.KindFire]; len(fires) != 1 {
		t.Errorf("%d fires, want 1", len(fires))
	}
}

var (
	sessionKills = flag.Int("sessions.kills", 6, "how often the holder of a journal is killed under load")
	sessionCount = flag.Int("sessions.count", 5, "how many sessions there are")
)

// TestSessionsUnderKilledHolders: every answered change is there once, no call is done twice.
func TestSessionsUnderKilledHolders(t *testing.T) {
	h := newHome(t)
	var (
		mu       sync.Mutex
		answered = map[string]string{} // message: id
		asked    int
	)
	stop := make(chan struct{})
	var working sync.WaitGroup
	work := func(n int) *session {
		s := h.open()
		working.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				message := fmt.Sprintf("%d of session %d in process %d", i, n, s.PID())
				mu.Lock()
				asked++
				mu.Unlock()
				r, err := s.Call(s.patience(), "reminder_add", map[string]any{"message": message, "inHours": 9})
				if err != nil {
					return // it was killed
				}
				if r.IsError {
					t.Errorf("refused: %s", r.Text)
					return
				}
				mu.Lock()
				answered[message] = strings.Fields(r.Text)[1]
				mu.Unlock()
			}
		})
		return s
	}
	all := map[int]*session{}
	for n := range *sessionCount {
		s := work(n)
		all[s.PID()] = s
	}
	for range *sessionKills {
		time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond)
		pid := h.holder()
		if s := all[pid]; s != nil {
			s.Kill()
			delete(all, pid)
			s = work(len(all))
			all[s.PID()] = s
		}
	}
	close(stop)
	working.Wait()
	var last *session
	for _, s := range all {
		last = s
	}
	ids := map[string]string{}
	var list struct {
		Reminders []struct{ ID, Message string }
		More      int
	}
	for after := ""; ; after = list.Reminders[len(list.Reminders)-1].ID {
		arguments := map[string]any{"limit": 1000}
		if after != "" {
			arguments["after"] = after
		}
		r := last.result("reminder_list", arguments)
		if err := json.Unmarshal(r.Structured, &list); err != nil {
			t.Fatal(err)
		}
		for _, r := range list.Reminders {
			if other, twice := ids[r.Message]; twice {
				t.Errorf("%q was done twice: %s and %s", r.Message, other, r.ID)
			}
			ids[r.Message] = r.ID
		}
		if list.More == 0 {
			break
		}
	}
	for message, id := range answered {
		if ids[message] != id {
			t.Errorf("%q was answered as %s, and is %q", message, id, ids[message])
		}
	}
	t.Logf("%d calls, %d answered, %d kills", asked, len(answered), *sessionKills)
	if len(answered) == 0 {
		t.Error("nothing was answered")
	}
	for _, s := range all {
		s.end()
	}
}

// holder is the process that holds the journal.
func (h *home) holder() int {
	h.t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		var lock struct{ PID int }
		if json.Unmarshal([]byte(h.read(h.journal()+".lock")), &lock) == nil && lock.PID > 0 {
			return lock.PID
		}
	}
	h.t.Fatal("nobody holds the journal")
	return 0
}

// TestStoppedHolderIsSaid instead of hanging, and all works again once it goes on.
func TestStoppedHolderIsSaid(t *testing.T) {
	h := newHome(t)
	first, second := h.open(), h.open()
	second.call("heartbeat_status", nil)
	stop(t, first)
	contains(t, second.fail("heartbeat_status", nil), fmt.Sprintf("(%d) does not answer", first.PID()))
	first.ok(first.Signal(syscall.SIGCONT))
	for ctx := second.patience(); second.result("heartbeat_status", nil).IsError; {
		if ctx.Err() != nil {
			t.Fatal("it never answered again")
		}
	}
	second.end()
	first.end()
}

// stop stops a server, and returns once it stands still: the signal takes a moment.
func stop(t *testing.T, s *session) {
	t.Helper()
	s.ok(s.Signal(syscall.SIGSTOP))
	stat := fmt.Sprintf("/proc/%d/stat", s.PID())
	if _, err := os.Stat(stat); err != nil {
		t.Skip("nothing tells whether a process stands still: ", err)
	}
	for ctx := s.patience(); ctx.Err() == nil; {
		if data, err := os.ReadFile(stat); err == nil && strings.Contains(string(data), ") T ") {
			return
		}
	}
	t.Fatal("it does not stop")
}

// TestBadProgramOnTheSocketIsCutOff and harms nobody.
func TestBadProgramOnTheSocketIsCutOff(t *testing.T) {
	h := newHome(t)
	s := h.open()
	s.call("heartbeat_status", nil)
	good := `{"heartbeat":1,"kind":"session","pid":1}` + "\n"
	for _, c := range []struct{ name, say string }{
		{"garbage", "\x00\xff\xfe garbage\n"},
		{"no hello", `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"},
		{"another version", `{"heartbeat":99}` + "\n"},
		{"a hello that is too long", `{"heartbeat":1,"kind":"` + strings.Repeat("x", 10_000) + `"}` + "\n"},
		{"garbage after a hello", good + "not JSON\n"},
	} {
		conn, err := net.Dial("unix", h.journal()+".sock")
		s.ok(err)
		_, err = conn.Write([]byte(c.say))
		s.ok(err)
		s.ok(conn.SetReadDeadline(time.Now().Add(time.Minute)))
		in := bufio.NewReader(conn)
		for err == nil {
			_, err = in.ReadBytes('\n')
		}
		if os.IsTimeout(err) {
			t.Errorf("%s: it was not cut off", c.name)
		}
		s.ok(conn.Close())
	}
	s.logged("a program on the socket was cut off")
	contains(t, s.call("heartbeat_status", nil), "delivery=ok")
	s.end()
}

// TestSocketThatIsForeign: the server works without one.
func TestSocketThatIsForeign(t *testing.T) {
	h := newHome(t)
	h.write(h.journal()+".sock", "mine")
	s := h.open()
	s.logged("its socket cannot be made")
	s.add(map[string]any{"inHours": 1})
	s.end()
	if h.read(h.journal()+".sock") != "mine" {
		t.Error("it was touched")
	}
}

// TestSessionsOfTwoProtocolVersions on one journal.
func TestSessionsOfTwoProtocolVersions(t *testing.T) {
	h := newHome(t)
	first := h.open()
	second := h.start()
	raw, err := second.Initialize(second.patience(), true, "2024-11-05")
	second.ok(err)
	contains(t, string(raw), `"protocolVersion":"2024-11-05"`)
	first.add(map[string]any{"inHours": 1, "message": "x"})
	if r := second.result("reminder_list", nil); r.Structured != nil || !strings.Contains(r.Text, "1 reminder(s)") {
		t.Errorf("%+v", r)
	}
	first.Kill()
	if r := second.result("reminder_list", nil); r.Structured != nil || !strings.Contains(r.Text, "1 reminder(s)") {
		t.Errorf("after the holder's end: %+v", r)
	}
	second.end()
}

// TestSessionsAreKnownByName: in the journal, and to people (SPEC 13.3).
func TestSessionsAreKnownByName(t *testing.T) {
	h := newHome(t)
	first, second := h.open(), h.open()
	second.add(map[string]any{"inHours": 1, "message": "x"})
	adds := h.events()[journal.KindAdd]
	if len(adds) != 1 || !strings.Contains(adds[0].Body.(*journal.Add).Session, fmt.Sprintf("/%d/", second.PID())) {
		t.Errorf("%+v", adds)
	}
	contains(t, h.ctl("sessions"), fmt.Sprint(first.PID()), fmt.Sprint(second.PID()), "push/event", "holds the journal")
	second.end()
	first.end()
}
