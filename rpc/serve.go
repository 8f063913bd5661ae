// Package rpc wires a server together: a session with the host on stdin and stdout (package session), the engine of the journal,
// in this process or in the one that holds it (package attach), and the mesh (package agents). It holds nothing else.
//
// Start with [Serve], or with [Hold] where there is no host.
package rpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/agents"
	"heartbeat-mcpl/rpc/attach"
	"heartbeat-mcpl/rpc/engine"
	"heartbeat-mcpl/rpc/session"
	"heartbeat-mcpl/rpc/wire"
)

// drainLimit is how long a host may take none of the last replies once the server ends, and how long all of them may take after a
// signal.
const drainLimit = 2 * time.Second

// firstLine is how long the host's first line is waited for, before anything is opened.
const firstLine = 5 * time.Millisecond

// Options are what [Serve] needs to know.
type Options struct {
	Engine  engine.Options
	Version string // of this build
	Log     *slog.Logger
	Mesh    func() (agents.Mesh, error) // opens the mesh for one more agent; nil: its tools are neither listed nor served
	Pane    agents.Prompter             // nil: there are no panes
	Home    string                      // tells this server from others in the mesh
	Channel bool                        // wakes may go out as messages of a Claude Code channel
}

// Serve talks to the host on in and out until in ends, ctx is done or the host is gone; then everything is brought to
// disk. An error says what could not be.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	link := newLink(o)
	s := session.New(in, out, session.Options{Engine: link, Version: o.Version, Log: o.Log, Proactive: o.Engine.Proactive, Mesh: o.Mesh != nil, Channel: o.Channel})
	link.Serve(s)
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	select { // hosts wait for the first answer, which needs nothing of what comes next
	case <-s.Heard():
	case <-time.After(firstLine):
	}

	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	why := "stdin closed"
	stopped := make(chan error, 1)
	go func() { stopped <- link.Run(working, func() string { return why }) }()

	err := <-ran
	hostGone := errors.Is(err, wire.ErrPeerGone)
	switch {
	case ctx.Err() != nil:
		why, err = "signal", nil
	case hostGone:
		why, err = "the host is gone", nil
		o.Log.Info("the host is gone: nothing more can be written to it")
	}
	stop()
	err = errors.Join(err, <-stopped)
	drain, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainLimit, cancel) })()
	if unread := s.Drain(drain, drainLimit); unread != nil && !hostGone {
		o.Log.Warn("the last replies were given up; what they say is on disk", "why", unread)
	}
	return err
}

// Hold holds the journal without a host, until ctx is done (SPEC 13.5). While another process holds it, it waits.
func Hold(ctx context.Context, o Options) error {
	return newLink(o).Run(ctx, func() string { return "signal" })
}

func newLink(o Options) *attach.Link {
	return attach.New(attach.Options{
		Journal: o.Engine.Store.Journal, Version: o.Version, Log: o.Log,
		Open: func() (*engine.Engine, func(), error) { return open(o) },
	})
}

// open opens the journal, and what its holder serves beside the engine; close ends that.
func open(o Options) (e *engine.Engine, close func(), err error) {
	if e, err = engine.Open(o.Engine); err != nil {
		return nil, nil, err
	}
	unwatch, err := recovery.Watch(o.Engine.Store.Files, e.FilesChanged)
	if err != nil {
		o.Log.Info("edits of the files are looked for once a second", "why", err)
		unwatch = func() error { return nil }
	}
	services, err := openMesh(o, e)
	if err != nil {
		o.Log.Warn("there is no mesh", "why", err)
	}
	return e, func() {
		if services != nil {
			services.Close()
		}
		_ = unwatch() // the process ends
	}, nil
}

// openMesh serves the mesh's tools for the engine's sessions; nil where the settings want none.
func openMesh(o Options, e *engine.Engine) (*agents.Services, error) {
	if o.Mesh == nil {
		return nil, nil
	}
	mesh, err := o.Mesh()
	if err != nil {
		return nil, err
	}
	services := agents.NewServices(agents.Options{Mesh: mesh, Host: e, Zone: o.Engine.Zone, Log: o.Log, Pane: o.Pane, Home: o.Home}, o.Mesh)
	e.Join(services)
	services.Resume(e.Participants())
	return services, nil
}
