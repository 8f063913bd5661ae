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

// untilSignal is done when the process gets one of the signals.
func untilSignal(ctx context.Context, signals ...os.Signal) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, signals...)
}
