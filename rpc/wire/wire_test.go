package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sourcegraph/jsonrpc2"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers a request with its method and params; "panic" panics, "twice" answers twice, "never" not at all.
type echo struct {
	mu    sync.Mutex
	noted []string
}

func (e *echo) Request(method string, params json.RawMessage, reply *Reply) {
	switch method {
	case "panic":
		panic("as asked")
	case "twice":
		reply.Result(1)
		reply.Result(2)
	case "error":
		reply.Error(-32000, "as <asked>", map[string]int{"n": 1})
	case "later":
		go reply.Result("late")
	default:
		reply.Result(map[string]any{"method": method, "params": params})
	}
}

func (e *echo) Notification(method string, params json.RawMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.noted = append(e.noted, method+string(params))
}

// converse runs a conversation over the whole input and returns the lines written.
func converse(t testing.TB, input string, o Options) []string {
	t.Helper()
	var out bytes.Buffer
	c := New(strings.NewReader(input), &out, &echo{}, o)
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Drain(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(out.String(), "\n")
	return lines[:len(lines)-1]
}

const (
	parseError = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"this line is not JSON"}}` + "\n"
	notObject  = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a message must be an object"}}` + "\n"
)

func ponged(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"method":"ping","params":{}}}` + "\n"
}

func refused(id, why string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32600,"message":` + why + `}}` + "\n"
}

// TestBadInputNeverEndsTheSession: every row is followed by a ping, which must be answered (SPEC 8.7).
func TestBadInputNeverEndsTheSession(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"a request", `{"jsonrpc":"2.0","id":7,"method":"ping"}`, ponged("7")},
		{"params come through as they were written", `{"jsonrpc":"2.0","id":7,"method":"m","params":{"b":1.0,"a":"<&>\u0041"}}`,
			`{"jsonrpc":"2.0","id":7,"result":{"method":"m","params":{"b":1.0,"a":"<&>\u0041"}}}` + "\n"},
		{"not JSON", `{"jsonrpc":`, parseError},
		{"not JSON at all", `hello`, parseError},
		{"deeply nested", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), parseError},
		{"a number", `7`, notObject},
		{"null", `null`, notObject},
		{"a string", `"x"`, notObject},
		{"an empty batch", `[]`, refused("null", `"an empty batch asks for nothing"`)},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"},7,{"jsonrpc":"2.0","method":"note"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`,
			ponged("1") + notObject + ponged("2")},
		{"a batch of nothing but garbage", `[1,[],{}]`, notObject + notObject + refused("null", `"method is missing"`)},
		{"no method", `{"jsonrpc":"2.0","id":7}`, refused("7", `"method is missing"`)},
		{"a method in the wrong case", `{"jsonrpc":"2.0","id":7,"Method":"ping"}`, refused("7", `"method is missing"`)},
		{"a method that is no string", `{"jsonrpc":"2.0","id":7,"method":7}`, refused("7", `"method must be a string"`)},
		{"another version", `{"jsonrpc":"1.0","id":7,"method":"ping"}`, refused("7", `"jsonrpc must be \"2.0\""`)},
		{"no version is forgiven", `{"id":7,"method":"ping"}`, ponged("7")},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, refused("null", `"id must be a string or a number"`)},
		{"id true", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, refused("null", `"id must be a string or a number"`)},
		{"id an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, refused("null", `"id must be a string or a number"`)},
		{"the last of two ids counts", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, ponged("2")},
		{"params null count as none", `{"jsonrpc":"2.0","id":7,"method":"ping","params":null}`, ponged("7")},
		{"a notification with params that are no object", `{"jsonrpc":"2.0","method":"note","params":7}`, ""},
		{"a response to nothing", `{"jsonrpc":"2.0","id":"hb-9","result":{}}`, ""},
		{"a malformed response", `{"jsonrpc":"2.0","id":{},"error":7}`, ""},
		{"a response without an id", `{"jsonrpc":"2.0","error":{"code":-32700,"message":"?"}}`, ""},
		{"carriage return", "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\r", ponged("7")},
		{"a byte order mark", "\ufeff{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}", ponged("7")},
		{"blank lines", "\n \n\r\n\t", ""},
		{"bytes that are not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", ponged("\"\ufffd\"")},
		{"a handler that panics", `{"jsonrpc":"2.0","id":7,"method":"panic"}`,
			`{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"internal error"}}` + "\n"},
		{"a second answer is dropped", `{"jsonrpc":"2.0","id":7,"method":"twice"}`, `{"jsonrpc":"2.0","id":7,"result":1}` + "\n"},
		{"an error with data", `{"jsonrpc":"2.0","id":7,"method":"error"}`,
			`{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"as <asked>","data":{"n":1}}}` + "\n"},
		{"an answer after the input's end", `{"jsonrpc":"2.0","id":7,"method":"later"}`, `{"jsonrpc":"2.0","id":7,"result":"late"}` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := converse(t, c.line+"\n"+`{"jsonrpc":"2.0","id":"end","method":"ping"}`, Options{})
			want := strings.SplitAfter(c.want, "\n")
			want[len(want)-1] = ponged(`"end"`)
			if !sameLines(got, want) {
				t.Errorf("got\n%swant\n%s", strings.Join(got, ""), strings.Join(want, ""))
			}
		})
	}
}

// sameLines compares without regard to order: an answer from another goroutine may come behind the next one.
func sameLines(a, b []string) bool {
	count := map[string]int{}
	for _, l := range a {
		count[l]++
	}
	for _, l := range b {
		count[l]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

func TestIDsComeBackByteForByte(t *testing.T) {
	ids := []string{`1`, `0`, `-1`, `1.0`, `1.5`, `1e2`, `9223372036854775808`, `123456789012345678901234567890`, `""`, `"x\u0041"`, `"\ud83d\ude00"`, `"<"`}
	for _, id := range ids {
		if got := converse(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`, Options{}); len(got) != 1 || got[0] != ponged(id) {
			t.Errorf("id %s came back in %q", id, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		id, err := json.Marshal(rapid.String().Draw(t, "id"))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		c := New(strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"ping"}`, id)), &out, &echo{}, Options{})
		if err := c.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := c.Drain(context.Background(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if out.String() != ponged(string(id)) {
			t.Fatalf("id %s came back in %q", id, out.String())
		}
	})
}

func TestLongLineIsRefusedAndTheNextIsRead(t *testing.T) {
	const most = 1 << 20
	const head = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{}`
	fits := head + strings.Repeat(" ", most-len(head)-1) + "}"
	got := converse(t, fits+"\n"+fits+" \n"+`{"jsonrpc":"2.0","id":2,"method":"ping"}`, Options{MaxLine: most})
	want := []string{ponged("1"), refused("null", `"a line may have 1048576 bytes at most; this one was longer and is ignored"`), ponged("2")}
	if !sameLines(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// peer is the other end of a conversation in a test.
type peer struct {
	t     *testing.T
	conn  *Conn
	in    *io.PipeWriter
	out   *io.PipeReader
	lines *bufio.Scanner
	ended chan error
}

func startPeer(t *testing.T, o Options) *peer {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &peer{t: t, in: inW, out: outR, lines: bufio.NewScanner(outR), ended: make(chan error, 1)}
	p.conn = New(inR, outW, &echo{}, o)
	go func() { p.ended <- p.conn.Run(context.Background()) }()
	return p
}

func (p *peer) send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) read() string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("no line: %v", p.lines.Err())
	}
	return p.lines.Text()
}

func (p *peer) end() {
	p.t.Helper()
	p.in.Close()
	go io.Copy(io.Discard, p.out)
	if err := <-p.ended; err != nil {
		p.t.Error(err)
	}
	if err := p.conn.Drain(context.Background(), time.Minute); err != nil {
		p.t.Error(err)
	}
	p.out.Close()
}

func (p *peer) call(answers chan<- Answer) {
	p.t.Helper()
	err := p.conn.Call("push", map[string]string{"text": "<b>"}, 30*time.Second, func(a Answer) { answers <- a })
	if err != nil {
		p.t.Fatal(err)
	}
}

func TestCallsAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPeer(t, Options{})
		answers := make(chan Answer, 2)
		for i, c := range []struct {
			response string
			want     func(Answer) bool
		}{
			{`"result":{"accepted":true}`, func(a Answer) bool { return string(a.Result) == `{"accepted":true}` }},
			{`"result":null`, func(a Answer) bool { return string(a.Result) == `null` && a.Err == nil }},
			{`"error":{"code":-32602,"message":"no"}`, func(a Answer) bool { return a.Err != nil && a.Err.Code == -32602 && a.Err.Message == "no" }},
			{`"error":{}`, func(a Answer) bool { return a.Err != nil && a.Err.Code == jsonrpc2.CodeInternalError }},
			{`"error":"broken"`, func(a Answer) bool { return a.Err != nil && a.Err.Message == `"broken"` }},
		} {
			p.call(answers)
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":"hb-%d","method":"push","params":{"text":"<b>"}}`, i+1)
			if got := p.read(); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"hb-%d",%s}`, i+1, c.response))
			if a := <-answers; !c.want(a) || a.Late || a.NoAnswer {
				t.Errorf("%s gave %+v", c.response, a)
			}
		}
		p.end()
	})
}

func TestUnansweredCallIsReportedAndALateAnswerStillCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPeer(t, Options{})
		answers := make(chan Answer, 2)
		p.call(answers)
		p.read()
		begun := time.Now()
		if a := <-answers; !a.NoAnswer || time.Since(begun) != 30*time.Second {
			t.Fatalf("after %v: %+v", time.Since(begun), a)
		}
		p.send(`{"jsonrpc":"2.0","id":"hb-1","error":null}`) // says nothing
		p.send(`{"jsonrpc":"2.0","id":"hb-1","result":{"ok":1}}`)
		if a := <-answers; !a.Late || a.NoAnswer || string(a.Result) != `{"ok":1}` {
			t.Fatalf("late: %+v", a)
		}
		p.send(`{"jsonrpc":"2.0","id":"hb-1","result":{"ok":2}}`)
		p.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		p.read()
		select {
		case a := <-answers:
			t.Fatalf("a third answer: %+v", a)
		default:
		}
		p.end()
	})
}

func TestPeerThatDoesNotReadCostsBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := startPeer(t, Options{MaxPending: 10_000, StallAfter: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
		sent := make(chan int)
		go func() {
			n := 0
			for ; n < 1000; n++ {
				fmt.Fprintf(p.in, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\",\"params\":{\"x\":%q}}\n", n, strings.Repeat("x", 100))
			}
			sent <- n
		}()
		synctest.Wait()
		if n := p.conn.Backlog(); n < 10_000 || n > 200_000 {
			t.Fatalf("%d bytes wait, with a limit of 10000", n)
		}
		if err := p.conn.Call("push", nil, time.Second, func(Answer) {}); err != ErrBackpressure {
			t.Errorf("a call on top of that: %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := log.String(); !strings.Contains(s, "does not read") {
			t.Errorf("the log says %q", s)
		}
		for range 1000 {
			p.read()
		}
		if n := <-sent; n != 1000 {
			t.Errorf("sent %d", n)
		}
		if s := log.String(); !strings.Contains(s, "reads again") {
			t.Errorf("the log says %q", s)
		}
		p.end()
	})
}

func TestWriteErrorEndsTheConversation(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	outR.Close()
	c := New(inR, outW, &echo{}, Options{})
	ended := make(chan error, 1)
	go func() { ended <- c.Run(context.Background()) }()
	fmt.Fprintln(inW, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), ErrPeerGone.Error()) {
		t.Fatalf("got %v", err)
	}
	inW.Close()
	_ = c.Drain(context.Background(), time.Minute) // says the same again
}

// TestAnswersLeaveBeforeAnythingIsWaitedFor: answers to what one read brought may leave together, but not only when those
// that come late are there.
func TestAnswersLeaveBeforeAnythingIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		name    string
		pending int // requests behind the ping that stay without an answer
	}{{"more input", 0}, {"room for requests without an answer", mostUnanswered + 10}} {
		t.Run(c.name, func(t *testing.T) {
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			h := &holding{}
			conn := New(inR, outW, h, Options{})
			ended := make(chan error, 1)
			go func() { ended <- conn.Run(context.Background()) }()
			go fmt.Fprint(inW, `{"jsonrpc":"2.0","id":7,"method":"ping"}`+"\n"+strings.Repeat(`{"jsonrpc":"2.0","id":8,"method":"later"}`+"\n", c.pending))
			lines := bufio.NewReader(outR)
			if line, err := lines.ReadString('\n'); line != ponged("7") {
				t.Fatalf("got %q, %v", line, err)
			}
			go io.Copy(io.Discard, lines)
			h.answer()
			inW.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if err := conn.Drain(t.Context(), time.Minute); err != nil {
				t.Error(err)
			}
			outW.Close()
		})
	}
}

// TestAnswersThatAPipeDoesNotTakeAtOnce: of what goes past the writer, the rest follows in order when the peer reads.
func TestAnswersThatAPipeDoesNotTakeAtOnce(t *testing.T) {
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer outR.Close()
	const calls = 5000 // whose answers are several times what a pipe holds
	var input, want strings.Builder
	for i := range calls {
		fmt.Fprintf(&input, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i)
		want.WriteString(ponged(strconv.Itoa(i)))
	}
	conn := New(piecewise{strings.NewReader(input.String())}, outW, &echo{}, Options{})
	if err := conn.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	drained := make(chan error, 1)
	go func() {
		drained <- conn.Drain(context.Background(), time.Minute)
		outW.Close()
	}()
	got, err := io.ReadAll(outR)
	if string(got) != want.String() || err != nil || <-drained != nil {
		t.Errorf("%d bytes instead of %d, %v", len(got), want.Len(), err)
	}
}

// TestRoomIsMadeByWhatThePeerTakesAtOnce: the writer, which has nothing left to do then, says so no more.
func TestRoomIsMadeByWhatThePeerTakesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutput(io.Discard, Options{MaxPending: 10}.withDefaults())
		o.now = func(p []byte) int { return len(p) }
		o.hold()
		if err := o.put([]byte("longer than may wait\n")); err != nil {
			t.Fatal(err)
		}
		if !o.room(nil) || o.waiting() != 0 {
			t.Errorf("%d bytes wait", o.waiting())
		}
		if err := o.drain(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// TestDrainWaitsForAPeerThatReads: however slowly, and no longer for one that does not.
func TestDrainWaitsForAPeerThatReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name  string
			every time.Duration // the peer reads one KiB in so much
			gone  bool
		}{{"slow", 100 * time.Millisecond, false}, {"not at all", time.Hour, true}} {
			outR, outW := io.Pipe()
			conn := New(strings.NewReader(strings.Repeat(`{"jsonrpc":"2.0","id":7,"method":"ping"}`+"\n", 1000)), outW, &echo{}, Options{})
			if err := conn.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			drained := make(chan error, 1)
			go func() {
				drained <- conn.Drain(context.Background(), 2*time.Second)
				outW.Close()
			}()
			read := 0
			for buffer := make([]byte, 1<<10); ; time.Sleep(c.every) {
				n, err := outR.Read(buffer)
				read += n
				if err != nil {
					break
				}
			}
			err := <-drained
			if whole := read == 1000*len(ponged("7")); whole == c.gone || errors.Is(err, ErrPeerGone) != c.gone {
				t.Errorf("%s: %d bytes were read, %v", c.name, read, err)
			}
		}
	})
}

// piecewise gives little at each read.
type piecewise struct{ r io.Reader }

func (p piecewise) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), 4<<10)]) }

// holding is an echo that answers "later" only when it is told.
type holding struct {
	echo
	mu   sync.Mutex
	held []*Reply
	told bool
}

func (h *holding) Request(method string, params json.RawMessage, reply *Reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if method == "later" && !h.told {
		h.held = append(h.held, reply)
		return
	}
	h.echo.Request("ping", params, reply)
}

func (h *holding) answer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = true
	for _, reply := range h.held {
		reply.Result("late")
	}
}

// FuzzValid holds what passes for JSON against encoding/json, for short lines and long ones.
func FuzzValid(f *testing.F) {
	for _, text := range []string{`{"a":[1,-0.5e+3,"\u00e9\n",true,false,null]}`, `{"a":1,}`, `01`, `"\x"`, "\"\t\"", `[1 2]`, `nul`, ``, `{"a"}`, `-`, `1.`, "\"\xff\"", `{}{}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, text := range [][]byte{text, append(bytes.Repeat([]byte(" "), 5000), text...)} {
			if valid(text) != json.Valid(text) {
				t.Fatalf("%q is JSON: %v", text, !valid(text))
			}
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	f.Add([]byte(`[{"id":1,"method":"m"},{"result":1,"id":"hb-1"}]`))
	f.Add([]byte("\xff\xfe{}\r\n[[[[\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := converse(t, string(data)+"\n"+`{"jsonrpc":"2.0","id":"the end","method":"ping"}`, Options{MaxLine: 1 << 16})
		ends := 0
		for _, l := range lines {
			if !json.Valid([]byte(l)) || strings.Count(l, "\n") != 1 {
				t.Fatalf("not one JSON line: %q", l)
			}
			if l == ponged(`"the end"`) {
				ends++
			}
		}
		if ends == 0 {
			t.Fatalf("the session ended early: %q", lines)
		}
	})
}

// BenchmarkLine takes one request's line apart.
func BenchmarkLine(b *testing.B) {
	line := []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"reminder_add","arguments":{"message":"Look at the build: is it green?","inSeconds":90000}}}`)
	s := newStream(nil, nil, Options{}, nil, nil)
	s.dispatch = func(string, json.RawMessage, json.RawMessage) { s.answered() }
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		s.line(line)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	line := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"b"}}` + "\n"
	c := New(strings.NewReader(strings.Repeat(line, b.N)), io.Discard, &echo{}, Options{})
	if err := c.Run(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := c.Drain(b.Context(), time.Minute); err != nil {
		b.Fatal(err)
	}
}
