//go:build !faketime

package main

import (
	"context"
	"io"
	"os"
	"os/signal"
)

// hostPipes are what the host writes to and reads from.
func hostPipes() (io.Reader, io.Writer) { return os.Stdin, os.Stdout }

// untilSignal is done when the process gets one of the signals, once heeded is closed. To take them over starts threads, which
// need not be waited for until there is something that a signal could do harm to.
func untilSignal(ctx context.Context, signals ...os.Signal) (_ context.Context, heeded <-chan struct{}) {
	ctx, stop := context.WithCancel(ctx)
	ready := make(chan struct{})
	go func() {
		got := make(chan os.Signal, 1)
		signal.Notify(got, signals...)
		close(ready)
		<-got
		stop()
	}()
	return ctx, ready
}
