package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// target is a server command.
type target struct {
	name    string
	command []string
}

// ownServer builds this project's server as the README says.
func ownServer(dir string) ([]string, error) {
	binary := filepath.Join(dir, "heartbeat-mcpl")
	build := exec.Command("go", "build", "-o", binary, "heartbeat-mcpl/cmd/heartbeat-mcpl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("build the server: %w: %s", err, out)
	}
	return []string{binary, "--stdio"}, nil
}

// client is one server process and the lines that go to and fro.
type client struct {
	dir   string // with the server's files
	cmd   *exec.Cmd
	in    io.WriteCloser
	start time.Time

	writing sync.Mutex
	mu      sync.Mutex
	waiting map[int]chan []byte
	pushed  func(line []byte, at time.Time)
	next    int
	ended   chan struct{}
}

const initializeLine = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"experimental":{"mcpl":{"version":"0.5","pushEvents":true}}},"clientInfo":{"name":"hbbench","version":"1"}}}` + "\n"

// begin starts a server in a folder and waits until initialize is answered; took is how long that was.
func begin(t *target, dir string) (c *client, took time.Duration, err error) {
	cmd := exec.Command(t.command[0], t.command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HEARTBEAT_CONFIG_FILE="+filepath.Join(dir, "heartbeat-config.json"),
		"HEARTBEAT_REMINDERS_FILE="+filepath.Join(dir, "heartbeat-reminders.json"), "HEARTBEAT_JOURNAL_DIR="+filepath.Join(dir, "heartbeat-journal"),
		"HEARTBEAT_MESH_DIR="+filepath.Join(dir, "mesh"))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	c = &client{dir: dir, cmd: cmd, in: in, waiting: map[int]chan []byte{}, ended: make(chan struct{}), next: 1}
	answered := make(chan []byte, 1)
	c.waiting[0] = answered
	c.start = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, 0, fmt.Errorf("start %s: %w", t.command[0], err)
	}
	if _, err := io.WriteString(in, initializeLine); err != nil {
		return nil, 0, err
	}
	go c.read(out)
	select {
	case <-answered:
		took = time.Since(c.start)
		c.send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"))
		return c, took, nil
	case <-c.ended:
		return nil, 0, errors.New("the server ended before it answered initialize")
	case <-time.After(2 * time.Minute):
		c.kill()
		return nil, 0, errors.New("the server did not answer initialize")
	}
}

var (
	pushMark = []byte(`"method":"push/event"`)
	idMark   = []byte(`"id":`)
)

func (c *client) read(out io.Reader) {
	defer close(c.ended)
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if bytes.Contains(line, pushMark) {
			c.push(line, time.Now())
			continue
		}
		c.mu.Lock()
		answer := c.waiting[idOf(line)]
		delete(c.waiting, idOf(line))
		c.mu.Unlock()
		if answer != nil {
			answer <- line
		}
	}
}

// push takes a push at once, and hands it to who counts them.
func (c *client) push(line []byte, at time.Time) {
	i := bytes.Index(line, idMark)
	rest := line[i+len(idMark):]
	id := rest[:bytes.IndexAny(rest, ",}")]
	c.send([]byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"accepted":true}}`+"\n", bytes.TrimSpace(id))))
	c.mu.Lock()
	f := c.pushed
	c.mu.Unlock()
	if f != nil {
		f(line, at)
	}
}

func idOf(line []byte) int {
	i := bytes.Index(line, idMark)
	if i < 0 {
		return -1
	}
	rest := bytes.TrimLeft(line[i+len(idMark):], ` "`)
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(string(rest[:end]))
	if err != nil {
		return -1
	}
	return n
}

func (c *client) send(line []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, _ = c.in.Write(line) // a server that is gone is noticed by its missing answer
}

// ask sends a request and returns where the answer comes.
func (c *client) ask(method, params string) chan []byte {
	answer := make(chan []byte, 1)
	c.mu.Lock()
	id := c.next
	c.next++
	c.waiting[id] = answer
	c.mu.Unlock()
	c.send([]byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)))
	return answer
}

func (c *client) tool(name, arguments string) chan []byte {
	return c.ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
}

// open does what an MCPL host does after initialize.
func (c *client) open() error {
	return c.await(c.ask("featureSets/update", `{"effectiveCapabilities":["tools","pushEvents"]}`))
}

// await waits for an answer, an error answer included.
func (c *client) await(answer chan []byte) error {
	_, err := c.answer(answer)
	return err
}

// answer is the line that answers, an error answer included.
func (c *client) answer(answer chan []byte) ([]byte, error) {
	select {
	case line := <-answer:
		return line, nil
	case <-c.ended:
		return nil, errors.New("the server ended")
	case <-time.After(3 * time.Minute):
		return nil, errors.New("the server did not answer")
	}
}

// times asks for so many calls.
func times(n int) func(sent int) bool { return func(sent int) bool { return sent < n } }

// many keeps so many requests outstanding for as long as more says so, until each is answered. It returns how many there were
// and how long that took.
func (c *client) many(more func(sent int) bool, outstanding int, name, arguments string) (n int, took time.Duration, err error) {
	begun := time.Now()
	answers := make(chan chan []byte, outstanding)
	failed := make(chan struct{})
	go func() {
		defer close(answers)
		for sent := 0; more(sent); sent++ {
			select {
			case answers <- c.tool(name, arguments):
			case <-failed:
				return
			}
		}
	}()
	for answer := range answers {
		if err := c.await(answer); err != nil {
			close(failed)
			return n, time.Since(begun), err
		}
		n++
	}
	return n, time.Since(begun), nil
}

// end closes stdin and waits.
func (c *client) end() error {
	_ = c.in.Close()
	select {
	case <-c.ended:
		_ = c.cmd.Wait() // how it ends is not what is measured
		return nil
	case <-time.After(time.Minute):
		c.kill()
		return errors.New("the server did not end")
	}
}

func (c *client) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
	_ = c.cmd.Wait()
}

// rss is the process's resident memory in MiB.
func (c *client) rss() (float64, error) {
	return c.status("VmRSS:")
}

func (c *client) status(field string) (float64, error) {
	if runtime.GOOS != "linux" {
		return 0, errors.New("memory is read from /proc, on Linux alone")
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("%s is not in /proc", field)
}

// cpu is the CPU time that the process has used: its threads' together, which the kernel counts to the nanosecond.
func (c *client) cpu() (total time.Duration, err error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", c.cmd.Process.Pid))
	if err != nil || len(tasks) == 0 {
		return 0, errors.Join(err, errors.New("no threads in /proc"))
	}
	for _, path := range tasks {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		n, err := strconv.ParseInt(strings.Fields(string(data))[0], 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(n)
	}
	return total, nil
}

// bare is the least that a server can be: it answers each request at once.
func bare() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		if id := idOf(line); id >= 0 {
			fmt.Printf(`{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"bare","version":"1"},"content":[]}}`+"\n", id)
		}
	}
}
