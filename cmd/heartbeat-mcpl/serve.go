package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc"
	"heartbeat-mcpl/rpc/engine"
)

// serve talks to a host on stdin and stdout until either ends (SPEC 1.1, 1.4). Nothing is answered before heeded is closed: who has
// an answer can end the server by a signal in good order.
func serve(ctx context.Context, heeded <-chan struct{}, s settings) error {
	// A stray print anywhere must not break the protocol: stdout is the host's alone.
	in, out := hostPipes()
	os.Stdout = os.Stderr

	log := slog.New(newLogHandler(os.Stderr))
	s.fromEnvironment()
	if err := s.checkServing(log); err != nil {
		return err
	}
	o, err := s.serving(log)
	if err != nil {
		return err
	}
	if err := rpc.Serve(ctx, after{heeded, in}, out, o); err != nil {
		return fmt.Errorf("end: %w", err)
	}
	return nil
}

// serving are the options of a process that serves.
func (s *settings) serving(log *slog.Logger) (rpc.Options, error) {
	zone := s.zone(log)
	mesh, err := s.mesher(log)
	command, wrong := s.wakeProgram()
	return rpc.Options{
		Channel: s.channel == "on",
		Version: version(),
		Log:     log,
		Mesh:    mesh,
		Pane:    panes(),
		Home:    homeOf(s.journalDir),
		Engine: engine.Options{
			Zone:      zone,
			Log:       log,
			Proactive: s.proactive,
			Command:   command,
			Retry:     lengthOf(s.wakeRetry),
			Store: recovery.Options{
				Files:   s.files(),
				Version: version(),
				PID:     os.Getpid(),
				Zone:    zone.String(),
				Keep:    s.keeping(log),
			},
		},
	}, errors.Join(err, wrong)
}

// after hands on what is read once a channel is closed.
type after struct {
	closed <-chan struct{}
	r      io.Reader
}

func (a after) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	<-a.closed
	return n, err
}
