package rpc

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/engine"
)

// options are for a server whose files are in dir.
func options(dir string) Options {
	return Options{
		Version: "test", Log: slog.New(slog.DiscardHandler),
		Engine: engine.Options{Zone: time.UTC, Log: slog.New(slog.DiscardHandler), Store: recovery.Options{
			Files: recovery.Files{Config: filepath.Join(dir, "c.json"), Reminders: filepath.Join(dir, "r.json"), Journal: filepath.Join(dir, "j")},
			Zone:  "UTC", Version: "test",
		}},
	}
}

// TestFirstLine: what the host says first is taken before anything is opened, and a host that says nothing holds that up no longer
// than a moment.
func TestFirstLine(t *testing.T) {
	for _, c := range []struct{ line, first string }{
		{`{"jsonrpc":"2.0","method":"unknown"}` + "\n", "heard"}, // it is logged
		{"", "opened"},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := options(t.TempDir())
			in, host := io.Pipe()
			happened := make(chan string, 1)
			first := func(what string) {
				select {
				case happened <- what:
				default:
				}
			}
			o.Log = slog.New(slog.NewTextHandler(written(func() { first("heard") }), nil))
			o.Engine.Wall = func() time.Time { // the loop asks for it before it opens anything
				first("opened")
				return time.Now()
			}
			go func() {
				_, err := io.WriteString(host, c.line)
				if got := <-happened; err != nil || got != c.first {
					t.Errorf("after %q: %s first, want %s (%v)", c.line, got, c.first, err)
				}
				host.Close()
			}()
			if err := Serve(t.Context(), in, io.Discard, o); err != nil {
				t.Error(err)
			}
		})
	}
}

// written is called with each write.
type written func()

func (w written) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}

// TestInitialize: which params are taken, and the protocol that they lead to.
func TestInitialize(t *testing.T) {
	for params, want := range map[string]string{
		`{"protocolVersion":"2025-03-26","capabilities":{}}`:                  `"protocolVersion":"2025-03-26"`,
		`{"protocolVersion":"1999-01-01","capabilities":{"experimental":{}}}`: `"protocolVersion":"2025-11-25"`,
		`{}`: `"protocolVersion":"2025-11-25"`,
		`{"protocolVersion":null,"capabilities":null}`:                                                `"protocolVersion":"2025-11-25"`,
		`{"protocolVersion":"2025-06-18","capabilities":{"experimental":{"mcpl":{"version":"0.5"}}}}`: `"mcpl":{`,
		`{"protocolVersion":"2025-06-18","capabilities":{"experimental":{"mcpl":true}}}`:              `"mcpl":{`,
		`{"protocolVersion":5}`:                   `"code":-32602`,
		`{"capabilities":[]}`:                     `"code":-32602`,
		`{"capabilities":{"experimental":"all"}}`: `"code":-32602`,
		`[1]`: `"code":-32602`,
	} {
		var out bytes.Buffer
		line := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + params + "}\n"
		if err := Serve(t.Context(), strings.NewReader(line), &out, options(t.TempDir())); err != nil {
			t.Error(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("initialize with %s: got %s, want %s", params, out.String(), want)
		}
	}
}

// benchmarkCalls has a server answer so many calls, from a host that sends 32 at once and reads their answers before the next.
func benchmarkCalls(b *testing.B, tool, arguments string) {
	call := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", tool, arguments)
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	o := options(b.TempDir())
	b.ReportAllocs()
	b.ResetTimer()
	if err := Serve(b.Context(), &inRounds{text: strings.Repeat(call, 32), rounds: b.N/32 + 1, answers: bufio.NewReader(r)}, w, o); err != nil {
		b.Fatal(err)
	}
}

// inRounds is a text so many times; what answers its lines is read before it comes again.
type inRounds struct {
	text    string
	rounds  int
	open    int // lines without an answer
	answers *bufio.Reader
}

func (r *inRounds) Read(p []byte) (int, error) {
	for ; r.open > 0; r.open-- {
		if _, err := r.answers.ReadSlice('\n'); err != nil {
			return 0, err
		}
	}
	if r.rounds == 0 {
		return 0, io.EOF
	}
	r.rounds--
	r.open = strings.Count(r.text, "\n")
	return copy(p, r.text), nil
}

func BenchmarkStatus(b *testing.B) { benchmarkCalls(b, "heartbeat_status", `{}`) }

func BenchmarkReminderAdd(b *testing.B) {
	benchmarkCalls(b, "reminder_add", `{"message":"Look at the build: is it green?","inSeconds":90000}`)
}
