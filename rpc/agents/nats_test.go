package agents

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"heartbeat-mcpl/projection"
)

// natsServer is a real server in this process, with its files in dir; port -1: any.
func natsServer(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server did not start")
	}
	t.Cleanup(s.Shutdown)
	return s
}

func portOf(s *server.Server) int { return s.Addr().(*net.TCPAddr).Port }

func joined(t *testing.T, url string) *NATS {
	t.Helper()
	n, err := NewNATS(url, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	eventually(t, "connect", func() bool { return n.connected() == nil })
	return n
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("never: %s", what)
		}
	}
}

// here checks an agent in and follows its inbox.
func here(t *testing.T, m Mesh, id string, caps ...string) {
	t.Helper()
	if _, err := m.CheckIn(projection.Agent{ID: id, Role: "tester", Caps: caps, TTLMs: 3600_000}); err != nil {
		t.Fatal(err)
	}
	follow(t, m, id)
}

func follow(t *testing.T, m Mesh, id string) {
	t.Helper()
	stop := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() { m.Follow(id, stop, func() {}) })
	t.Cleanup(func() {
		close(stop)
		ended.Wait()
	})
}

func waits(t *testing.T, m Mesh, id string, want ...string) {
	t.Helper()
	eventually(t, "in the inbox of "+id+": "+strings.Join(want, ", "), func() bool {
		letters, err := m.Inbox(id)
		var got []string
		for _, l := range letters {
			got = append(got, l.Text)
		}
		return err == nil && strings.Join(got, "|") == strings.Join(want, "|")
	})
}

func sendText(t *testing.T, m Mesh, text string, to ...string) {
	t.Helper()
	if err := m.Send(projection.Letter{ID: "msg_" + text, From: "a", Text: text}, to); err != nil {
		t.Fatal(err)
	}
}

func TestNATSCarriesPresenceAndMessages(t *testing.T) {
	url := natsServer(t, t.TempDir(), -1).ClientURL()
	a, b := joined(t, url), joined(t, url)
	here(t, a, "a")
	here(t, b, "b.dotted", "merge")
	all, err := a.Agents()
	if err != nil || len(all) != 2 || all[0].ID != "a" || all[1].ID != "b.dotted" || all[1].Caps[0] != "merge" {
		t.Fatalf("%+v, %v", all, err)
	}
	sendText(t, a, "1", "b.dotted")
	sendText(t, a, "2", "b.dotted", "a")
	waits(t, b, "b.dotted", "1", "2")
	waits(t, a, "a", "2")
	if n, err := a.Waiting("b.dotted"); err != nil || n != 2 {
		t.Errorf("%d wait, %v", n, err)
	}
	if n, err := b.Acknowledge("b.dotted", []string{"msg_1", "msg_none"}); err != nil || len(n) != 1 {
		t.Errorf("%q acknowledged, %v", n, err)
	}
	waits(t, b, "b.dotted", "2")
	// A renewal keeps the inbox.
	if _, err := b.CheckIn(projection.Agent{ID: "b.dotted", Status: "busy", TTLMs: 3600_000}); err != nil {
		t.Fatal(err)
	}
	waits(t, b, "b.dotted", "2")
	if err := a.Send(projection.Letter{ID: "msg_x"}, []string{"nobody"}); err == nil || !strings.Contains(err.Error(), "nobody has just left") {
		t.Errorf("to nobody: %v", err)
	}
	if err := a.Touch("nobody"); err == nil || !strings.Contains(err.Error(), "check in again") {
		t.Errorf("touch nobody: %v", err)
	}
}

// TestNATSKeepsWhatCameWhileTheReceiverWasDown: and what was handed out to a process that died comes again.
func TestNATSKeepsWhatCameWhileTheReceiverWasDown(t *testing.T) {
	url := natsServer(t, t.TempDir(), -1).ClientURL()
	a, b := joined(t, url), joined(t, url)
	here(t, a, "a")
	if _, err := b.CheckIn(projection.Agent{ID: "b", TTLMs: 3600_000}); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	sendText(t, a, "down", "b")
	again := joined(t, url)
	follow(t, again, "b")
	waits(t, again, "b", "down")
	// One that was stale begins anew, with an empty inbox.
	if _, err := again.CheckIn(projection.Agent{ID: "b", TTLMs: -1}); err != nil {
		t.Fatal(err)
	}
	if _, err := again.CheckIn(projection.Agent{ID: "b", TTLMs: 3600_000}); err != nil {
		t.Fatal(err)
	}
	waits(t, again, "b")
}

func TestNATSServerRestarts(t *testing.T) {
	dir := t.TempDir()
	s := natsServer(t, dir, -1)
	port := portOf(s)
	a, b := joined(t, s.ClientURL()), joined(t, s.ClientURL())
	here(t, a, "a")
	here(t, b, "b")
	sendText(t, a, "before", "b")
	waits(t, b, "b", "before")
	s.Shutdown()
	s.WaitForShutdown()
	if _, err := a.Agents(); err == nil {
		t.Error("a server that is away answered")
	}
	if err := a.Send(projection.Letter{ID: "x"}, []string{"b"}); err == nil {
		t.Error("a message was sent to a server that is away")
	}
	natsServer(t, dir, port)
	eventually(t, "both are back", func() bool { return a.nc.IsConnected() && b.nc.IsConnected() })
	eventually(t, "it answers", func() bool { all, err := a.Agents(); return err == nil && len(all) == 2 })
	sendText(t, a, "after", "b")
	waits(t, b, "b", "before", "after")
	eventually(t, "both can be acknowledged", func() bool {
		_, err := b.Acknowledge("b", []string{"msg_before", "msg_after"})
		return err == nil
	})
}

// cable is a connection to a server that can be cut.
type cable struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	cut      bool
	open     []net.Conn
}

func newCable(t *testing.T, target string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{listener: l, target: target}
	t.Cleanup(func() {
		_ = l.Close()
		c.set(true)
	})
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			c.carry(in)
		}
	}()
	return c
}

func (c *cable) carry(in net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, err := net.Dial("tcp", c.target)
	if err != nil || c.cut {
		_ = in.Close()
		return
	}
	c.open = append(c.open, in, out)
	go func() { _, _ = io.Copy(out, in) }()
	go func() { _, _ = io.Copy(in, out) }()
}

func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for _, conn := range c.open {
		_ = conn.Close()
	}
	c.open = nil
}

func TestNATSPartitionOfOneAgent(t *testing.T) {
	s := natsServer(t, t.TempDir(), -1)
	cable := newCable(t, s.Addr().String())
	a, b := joined(t, s.ClientURL()), joined(t, "nats://"+cable.listener.Addr().String())
	here(t, a, "a")
	here(t, b, "b")
	cable.set(true)
	eventually(t, "b notices", func() bool { return !b.nc.IsConnected() })
	if _, err := b.Inbox("b"); err == nil || !strings.Contains(err.Error(), "is away") {
		t.Errorf("b's inbox: %v", err)
	}
	sendText(t, a, "meanwhile", "b") // the others go on
	if all, err := a.Agents(); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	cable.set(false)
	waits(t, b, "b", "meanwhile")
}

func TestNATSThatIsAwayIsSaid(t *testing.T) {
	n, err := NewNATS("nats://user:secret@127.0.0.1:1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	_, err = n.CheckIn(projection.Agent{ID: "a"})
	if err == nil || !strings.Contains(err.Error(), "NATS at nats://127.0.0.1:1 is away") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	if _, err := NewNATS("http://127.0.0.1", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "is no NATS address") {
		t.Errorf("%v", err)
	}
}

func TestOneOfSeveralAddressesIsEnough(t *testing.T) {
	s := natsServer(t, t.TempDir(), -1)
	joined(t, "nats://127.0.0.1:1,"+s.ClientURL())
}

func TestNoPasswordOfAnAddressIsShown(t *testing.T) {
	for server, want := range map[string]string{
		"nats://u:secret@a:4222":                       "nats://a:4222",
		"nats://a:4222,nats://u:secret@b:4222":         "nats://a:4222,nats://b:4222",
		"nats://u:secret@a:4222, tls://secret@b:4222,": "nats://a:4222,tls://b:4222",
		"nats://a:4222,u:secret@b:4222,c":              "nats://a:4222,nats://b:4222,nats://c",
		"nats://u:secret%@a:4222":                      "\"...@a:4222\" is no NATS address",
		"nats://a:4222,http://u:secret@b:4222":         "\"...@b:4222\" is no NATS address",
		"nats://u:se,cret@a:4222":                      "\"...@a:4222\" is no NATS address",
		"a:4222":                                       "\"a:4222\" is no NATS address",
		" , ":                                          "\" , \" is no NATS address",
	} {
		servers, err := parseNATS(server)
		got := redact(servers)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || strings.Contains(got, "cret") {
			t.Errorf("%s: %q, want %q", server, got, want)
		}
	}
}

func TestAServerThatTakesConnectionsAndSaysNothingHoldsNothingUp(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n, err := NewNATS("nats://"+silent.Addr().String(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	held, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-n.tried:
		t.Error("the attempt to connect was waited for")
	default:
	}
	if _, err := n.Inbox("a"); err == nil || err.Error() != n.away().Error() {
		t.Errorf("meanwhile a call that waits for nothing says %v, want %v", err, n.away())
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = held.Close(), silent.Close()
	<-n.tried
	eventually(t, "the connection is given up", func() bool { return n.nc == nil || n.nc.IsClosed() })
}
