package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"heartbeat-mcpl/rpc/text"
)

const logPrefix = "[heartbeat-mcpl] "

// logHandler writes the lines that operators read on stderr: each starts "[heartbeat-mcpl] " (SPEC 1.1), warnings and
// errors say so, attributes follow in parentheses. One event is one line, whatever text it carries.
type logHandler struct {
	mu  *sync.Mutex
	out io.Writer
	had []slog.Attr
}

func newLogHandler(out io.Writer) *logHandler { return &logHandler{mu: new(sync.Mutex), out: out} }

func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var line bytes.Buffer
	line.WriteString(logPrefix)
	switch {
	case r.Level >= slog.LevelError:
		line.WriteString("ERROR: ")
	case r.Level >= slog.LevelWarn:
		line.WriteString("WARNING: ")
	}
	line.WriteString(oneLine(r.Message))
	var attrs []string
	add := func(a slog.Attr) bool {
		attrs = append(attrs, a.Key+": "+oneLine(fmt.Sprint(a.Value.Resolve().Any())))
		return true
	}
	for _, a := range h.had {
		add(a)
	}
	r.Attrs(add)
	if len(attrs) > 0 {
		line.WriteString(" (" + strings.Join(attrs, ", ") + ")")
	}
	line.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.out.Write(line.Bytes())
	return err
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{mu: h.mu, out: h.out, had: append(h.had[:len(h.had):len(h.had)], attrs...)}
}

// WithGroup keeps the attributes flat: lines are for people.
func (h *logHandler) WithGroup(string) slog.Handler { return h }

// oneLine is text that does nothing to the terminal that shows it, and breaks no line.
func oneLine(s string) string {
	return text.Safe(strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", " ").Replace(s))
}
