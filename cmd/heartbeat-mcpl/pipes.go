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

// untilSignal is done when the process gets one of the signals. That they are taken over is not waited for: it starts threads,
// and until then there is nothing that a signal could do harm to.
func untilSignal(ctx context.Context, signals ...os.Signal) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		got := make(chan os.Signal, 1)
		signal.Notify(got, signals...)
		<-got
		stop()
	}()
	return ctx, stop
}
