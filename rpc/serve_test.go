package rpc

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/engine"
)

// served runs a server over in-memory pipes; send writes a line, lines reads what comes back.
func served(tb testing.TB) (send func(string), lines *bufio.Reader) {
	tb.Helper()
	dir := tb.TempDir()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Serve(context.Background(), inR, outW, Options{
			Version: "test", Log: slog.New(slog.DiscardHandler),
			Engine: engine.Options{Zone: time.UTC, Log: slog.New(slog.DiscardHandler), Store: recovery.Options{
				Files: recovery.Files{Config: filepath.Join(dir, "c.json"), Reminders: filepath.Join(dir, "r.json"), Journal: filepath.Join(dir, "j")},
				Zone:  "UTC", Version: "test",
			}},
		})
		outW.Close()
	}()
	tb.Cleanup(func() {
		inW.Close()
		go io.Copy(io.Discard, outR)
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	return func(line string) {
		if _, err := io.WriteString(inW, line+"\n"); err != nil {
			tb.Error(err)
		}
	}, bufio.NewReaderSize(outR, 1<<20)
}

func benchmarkCalls(b *testing.B, tool, arguments string) {
	send, lines := served(b)
	slots := make(chan struct{}, 64)
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for i := range b.N {
			slots <- struct{}{}
			send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, i, tool, arguments))
		}
	}()
	for range b.N {
		if _, err := lines.ReadBytes('\n'); err != nil {
			b.Fatal(err)
		}
		<-slots
	}
}

func BenchmarkStatus(b *testing.B) { benchmarkCalls(b, "heartbeat_status", `{}`) }

func BenchmarkReminderAdd(b *testing.B) {
	benchmarkCalls(b, "reminder_add", `{"message":"Look at the build: is it green?","inSeconds":90000}`)
}
