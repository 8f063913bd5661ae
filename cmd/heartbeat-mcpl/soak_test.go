package main

import (
	"bufio"
	encoding "encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"heartbeat-mcpl/cmd/internal/host"
	"heartbeat-mcpl/journal"
)

var soakDays = flag.Int("soak.days", 0, "how many simulated days the soak test runs; 0: two hours, which show that it works")

// usage is what a process holds.
type usage struct {
	Heap, Resident, Disk    int64 // bytes
	Goroutines, Descriptors int64
}

// most is the larger of each.
func (u usage) most(o usage) usage {
	return usage{max(u.Heap, o.Heap), max(u.Resident, o.Resident), max(u.Disk, o.Disk), max(u.Goroutines, o.Goroutines), max(u.Descriptors, o.Descriptors)}
}

// TestSoakStaysFlat runs the real binary with a simulated clock: 60 recurring reminders that fire every ten minutes, a one-shot
// each ten minutes beside them, and a host that takes each wake. Every wake must come when it is due, to the second. Nothing that
// the server holds may be more in the last quarter of the time than it was in the second: heap, disk, goroutines, descriptors, the
// most of what is seen every hour (in a short run, every ten minutes). Each day has 8,784 wakes of reminders, each with two
// events on disk.
func TestSoakStaysFlat(t *testing.T) {
	s := startClocked(t, "HEARTBEAT_KEEP=3h")
	tens, look := 12, 1
	if *soakDays > 0 {
		tens, look = *soakDays*24*6, 6
	}
	const every = 10 * time.Minute
	due := map[string]time.Time{} // of each reminder, next
	for i := range 60 {
		due[s.add(fmt.Sprintf(`{"message":"Look at the build %d","inSeconds":%d,"everyMinutes":10}`, i, 10*i+1))] = s.now.Add(time.Duration(10*i+1) * time.Second)
	}
	wakes := 0
	var quarters [4]usage
	for n := range tens {
		due[s.add(`{"message":"Once","inSeconds":30}`)] = s.now.Add(30 * time.Second)
		for _, p := range s.pass(every) {
			if late := p.at.Sub(due[p.reminder]); late < 0 || late >= time.Second {
				t.Fatalf("%s came at %s, and was due at %s", p.reminder, p.at, due[p.reminder])
			}
			due[p.reminder] = due[p.reminder].Add(every)
			wakes++
		}
		if (n+1)%look == 0 {
			quarter := &quarters[4*n/tens]
			*quarter = quarter.most(s.usage())
		}
	}
	if want := tens * 61; wakes != want {
		t.Errorf("%d wakes, want %d", wakes, want)
	}
	t.Logf("%d wakes; the most in each quarter: %+v", wakes, quarters)
	if *soakDays == 0 {
		return // a quarter of two hours says nothing
	}
	early, late := quarters[1], quarters[3]
	const (
		segments = 4 << 20 // on disk: a few segments more or less, by where the clock stands
		buffers  = 2 << 20 // in memory: the log keeps its open segment there, and the one before it
	)
	s.end()
	if kept := len(s.home.events()[journal.KindFire]); kept >= wakes {
		t.Errorf("all %d fires are still in the journal", kept)
	}
	if late.Heap > early.Heap+buffers || late.Disk > early.Disk+segments || late.Goroutines > early.Goroutines || late.Descriptors > early.Descriptors {
		t.Errorf("it grew, from the second quarter's %+v to the last one's %+v", early, late)
	}
}

// clocked is a server whose clock the test has in its hand (pipes_faketime.go).
type clocked struct {
	t     *testing.T
	home  *home
	end   func() // closes stdin and waits
	pid   int
	in    io.Writer
	out   *bufio.Reader
	frame *frames
	now   time.Time
	calls int
	woken []clockedPush // since the last pass
	busy  bool          // it refuses wakes
}

// clockedPush is a wake of a reminder.
type clockedPush struct {
	reminder string
	at       time.Time
}

func startClocked(t *testing.T, env ...string) *clocked {
	t.Helper()
	h := newHome(t)
	path := filepath.Join(t.TempDir(), "heartbeat-mcpl")
	build := exec.Command("go", "build", "-tags", "faketime", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as users build it; with cgo the simulated clock stands still
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the binary with a simulated clock: %v\n%s", err, out)
	}
	cmd := exec.Command(path, "--stdio")
	cmd.Dir, cmd.Env = h.dir, slices.Concat(host.CleanEnv(), h.env, env)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &clocked{t: t, home: h, pid: cmd.Process.Pid, in: in, frame: &frames{r: bufio.NewReader(out)}}
	s.out = bufio.NewReader(s.frame)
	s.end = sync.OnceFunc(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, s.out) // until its end, which Wait judges
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server's end: %v", err)
		}
	})
	t.Cleanup(s.end)
	s.ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{"experimental":{"mcpl":{"version":"0.5","pushEvents":true}}},"clientInfo":{"name":"soak","version":"1"}}`)
	s.ask("featureSets/update", `{"effectiveCapabilities":["tools","pushEvents"]}`)
	s.pass(0)
	return s
}

func (s *clocked) write(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// read is the next line, or what follows the word of the clock; wakes that come before are taken.
func (s *clocked) read(word string) string {
	s.t.Helper()
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		if rest, is := strings.CutPrefix(line, word); is {
			return strings.TrimSpace(rest)
		}
		var push struct {
			ID     string
			Method string
			Params struct {
				Origin struct{ ReminderID string }
			}
		}
		if err := json.Unmarshal([]byte(line), &push); err != nil || push.Method != "push/event" {
			s.t.Fatalf("unexpected: %s, %v", line, err)
		}
		if s.busy {
			s.write(`{"jsonrpc":"2.0","id":"` + push.ID + `","result":{"accepted":false,"reason":"agent is busy"}}`)
			continue
		}
		s.write(`{"jsonrpc":"2.0","id":"` + push.ID + `","result":{"accepted":true}}`)
		if id := push.Params.Origin.ReminderID; id != "" { // else the heartbeat
			s.woken = append(s.woken, clockedPush{id, s.frame.at})
		}
	}
}

// ask is a call's result.
func (s *clocked) ask(method, params string) json.RawMessage {
	s.t.Helper()
	s.calls++
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, s.calls, method, params))
	var answer struct{ Result json.RawMessage }
	if err := json.Unmarshal([]byte("{"+s.read(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`, s.calls))), &answer); err != nil || answer.Result == nil {
		s.t.Fatalf("%s: %s, %v", method, answer.Result, err)
	}
	return answer.Result
}

// add adds a reminder, and returns its id.
func (s *clocked) add(arguments string) string {
	s.t.Helper()
	var r struct{ StructuredContent struct{ ID string } }
	if err := json.Unmarshal(s.ask("tools/call", `{"name":"reminder_add","arguments":`+arguments+`}`), &r); err != nil || r.StructuredContent.ID == "" {
		s.t.Fatalf("no reminder was added: %v", err)
	}
	return r.StructuredContent.ID
}

// pass lets time go on, and returns the reminders that woke meanwhile.
func (s *clocked) pass(d time.Duration) []clockedPush {
	s.t.Helper()
	for end := s.now.Add(d); ; {
		s.write("@pass " + end.Sub(s.now).String())
		ms, err := strconv.ParseInt(s.read("@now "), 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		if s.now = time.UnixMilli(ms); !s.now.Before(end) {
			break
		}
	}
	woken := s.woken
	s.woken = nil
	return woken
}

func (s *clocked) usage() usage {
	s.t.Helper()
	var u usage
	s.write("@usage")
	if err := json.Unmarshal([]byte(s.read("@usage ")), &u); err != nil {
		s.t.Fatal(err)
	}
	if open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.pid)); err == nil { // elsewhere than on Linux it stays 0
		u.Descriptors = int64(len(open))
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid)); err == nil {
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		var kb int64
		if _, err := fmt.Sscan(rest, &kb); err == nil {
			u.Resident = kb << 10
		}
	}
	err := filepath.WalkDir(s.home.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			u.Disk += info.Size()
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a segment that has just been removed
		s.t.Fatal(err)
	}
	return u
}

// frames takes what a program with a simulated clock writes out of the Go runtime's frames: 0 0 'P' 'B', the time in
// nanoseconds and the length, both big-endian, before each write.
type frames struct {
	r    *bufio.Reader
	left uint32    // of the frame that is being read
	at   time.Time // when it was written
}

func (f *frames) Read(p []byte) (int, error) {
	for f.left == 0 {
		var head struct {
			Mark   [4]byte
			Nanos  uint64
			Length uint32
		}
		if err := encoding.Read(f.r, encoding.BigEndian, &head); err != nil {
			return 0, err
		}
		if string(head.Mark[:]) != "\x00\x00PB" {
			return 0, fmt.Errorf("no frame begins with %q", head.Mark)
		}
		f.left, f.at = head.Length, time.Unix(0, int64(head.Nanos))
	}
	n, err := f.r.Read(p[:min(len(p), int(f.left))])
	f.left -= uint32(n)
	return n, err
}
