package rpc

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
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

// benchmarkCalls has a server answer so many calls, which come 32 at once.
func benchmarkCalls(b *testing.B, tool, arguments string) {
	call := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", tool, arguments)
	o := options(b.TempDir())
	b.ReportAllocs()
	b.ResetTimer()
	if err := Serve(b.Context(), &repeated{text: strings.Repeat(call, 32), times: b.N/32 + 1}, io.Discard, o); err != nil {
		b.Fatal(err)
	}
}

// repeated is a text so many times, each read apart.
type repeated struct {
	text  string
	times int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.times == 0 {
		return 0, io.EOF
	}
	r.times--
	return copy(p, r.text), nil
}

func BenchmarkStatus(b *testing.B) { benchmarkCalls(b, "heartbeat_status", `{}`) }

func BenchmarkReminderAdd(b *testing.B) {
	benchmarkCalls(b, "reminder_add", `{"message":"Look at the build: is it green?","inSeconds":90000}`)
}
