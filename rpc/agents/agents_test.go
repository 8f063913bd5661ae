package agents

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/recovery"
)

// lateMesh is a mesh that is away at first; nothing but who is here is asked of it.
type lateMesh struct {
	Mesh
	away atomic.Int32 // how often it is asked before it answers
}

var errAway = errors.New("it is away")

func (m *lateMesh) Agents() ([]projection.Agent, error) {
	if m.away.Add(-1) >= 0 {
		return nil, errAway
	}
	return []projection.Agent{{ID: "a"}}, nil
}

func (m *lateMesh) Serve(string) func()                                  { return func() {} }
func (m *lateMesh) Touch(string) error                                   { return nil }
func (m *lateMesh) Inbox(string) ([]projection.Letter, error)            { return nil, nil }
func (m *lateMesh) Follow(_ string, stop <-chan struct{}, _ func())      { <-stop }
func (m *lateMesh) Close() error                                         { return nil }
func (m *lateMesh) CheckIn(a projection.Agent) (projection.Agent, error) { return a, nil }

// quietHost is a host to which nothing matters.
type quietHost struct{}

func (quietHost) Remember(string, string, string)     {}
func (quietHost) Letters(string, []projection.Letter) {}
func (quietHost) LettersRead(string, []string)        {}
func (quietHost) Pushing() bool                       { return false }

// TestSessionGoesOnOnceTheMeshIsThere: it says meanwhile that the mesh is away, and a check-in of the meantime stands.
func TestSessionGoesOnOnceTheMeshIsThere(t *testing.T) {
	for checkIn, want := range map[string]string{"": "a", "b": "b"} {
		synctest.Test(t, func(t *testing.T) {
			mesh := new(lateMesh)
			mesh.away.Store(3)
			s := New(Options{Mesh: mesh, Host: quietHost{}, Zone: time.UTC, Log: slog.New(slog.DiscardHandler)})
			defer s.Close()
			go s.Resume("a", "")
			synctest.Wait()
			if reply := s.Call(Caller{}, "agent_inbox", nil); !reply.IsError || !strings.Contains(reply.Text, errAway.Error()) {
				t.Errorf("while it is away: %s", reply.Text)
			}
			if checkIn != "" {
				s.Call(Caller{}, "agent_checkin", []byte(`{"agent_id":"`+checkIn+`","confirm":true}`))
			}
			time.Sleep(time.Minute)
			if got, err := s.me(); got != want || err != nil {
				t.Errorf("once it is back: %q, %v, want %q", got, err, want)
			}
		})
	}
}

// TestWhatTheMeshRefusesIsNoSilence: only what did not reach the mesh is said not to have been answered.
func TestWhatTheMeshRefusesIsNoSilence(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	serve := func() *Service {
		s := New(Options{Mesh: NewLocal(recovery.NewMesh(dir, log)), Host: quietHost{}, Zone: time.UTC, Log: log})
		t.Cleanup(func() { s.Close() })
		go s.Resume("", "")
		return s
	}
	a := serve()
	if reply := a.Call(Caller{}, "agent_checkin", []byte(`{"agent_id":"a","confirm":true}`)); reply.IsError {
		t.Fatal(reply.Text)
	}
	refused := func(s *Service, tool, arguments, want string) {
		t.Helper()
		if reply := s.Call(Caller{}, tool, []byte(arguments)); !reply.IsError || reply.Text != want {
			t.Errorf("%s: %s, want %s", tool, reply.Text, want)
		}
	}
	if text := failed(roomFor("b", projection.MostInbox)).Text; text != "the inbox of b is full: 1000 messages wait" {
		t.Error(text)
	}
	if err := os.RemoveAll(filepath.Join(dir, "journal")); err != nil {
		t.Fatal(err)
	}
	refused(a, "agent_inbox", "", errStale("a").Error())
	refused(serve(), "agent_inbox", "", errNobody.Error())
}
