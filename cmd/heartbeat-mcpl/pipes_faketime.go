//go:build faketime

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// Built with -tags faketime, a program's clock is the Go runtime's simulated one: it stands still while anything runs or a system
// call is made, and jumps to the next timer when all goroutines wait. The host of such a server lets time pass by lines of its
// own, which begin with '@'.

// hostPipes are stdin and stdout of a host that has the clock in its hand.
func hostPipes() (io.Reader, io.Writer) {
	c := &clockedHost{in: bufio.NewReader(os.Stdin), out: os.Stdout, wrote: make(chan struct{}, 1)}
	return c, clockedWriter{c}
}

// untilSignal waits for none: the thread that does would keep the clock from going on.
func untilSignal(ctx context.Context, _ ...os.Signal) (_ context.Context, heeded <-chan struct{}) {
	ready := make(chan struct{})
	close(ready)
	return ctx, ready
}

// clockedHost hands on the host's lines but for the clock's. While it waits for one, time stands still.
type clockedHost struct {
	in    *bufio.Reader
	out   *os.File
	line  []byte        // of the host, as far as it was not read yet
	wrote chan struct{} // the server wrote something
}

func (c *clockedHost) Read(p []byte) (int, error) {
	for len(c.line) == 0 {
		line, err := c.in.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		if order, is := bytes.CutPrefix(line, []byte("@")); is {
			if err := c.obey(string(bytes.TrimSpace(order))); err != nil {
				return 0, err
			}
			continue
		}
		c.line = line
	}
	n := copy(p, c.line)
	c.line = c.line[n:]
	return n, nil
}

// obey does what the host wants of the clock: "pass 90s" lets so much time pass, or less if the server writes something, and is
// answered by "@now", in Unix milliseconds; "usage" is answered by "@usage" and what the process holds.
func (c *clockedHost) obey(order string) error {
	if order == "usage" {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		text, err := json.Marshal(map[string]uint64{"heap": m.HeapAlloc, "goroutines": uint64(runtime.NumGoroutine())})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.out, "@usage %s\n", text)
		return err
	}
	var length string
	if _, err := fmt.Sscanf(order, "pass %s", &length); err != nil {
		return fmt.Errorf("unknown order for the clock %q: %w", order, err)
	}
	d, err := time.ParseDuration(length)
	if err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.wrote:
	}
	_, err = fmt.Fprintf(c.out, "@now %d\n", time.Now().UnixMilli())
	return err
}

type clockedWriter struct{ c *clockedHost }

func (w clockedWriter) Write(p []byte) (int, error) {
	n, err := w.c.out.Write(p)
	select {
	case w.c.wrote <- struct{}{}:
	default:
	}
	return n, err
}
