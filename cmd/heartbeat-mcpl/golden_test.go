package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heartbeat-mcpl/cmd/internal/host"
)

var golden = flag.String("golden", "", "write a home with a journal of this version to this file, a .tar.gz: for recovery/testdata/golden, when the format changes")

// TestMakeGoldenHome lives an agent's life with the real binary, with all that a later version must still read the same way: wakes
// that were refused, not answered, dropped, pushed and polled, messages of the mesh, a crash, and a journal of two segments with
// snapshots (SPEC 9.2). It ends with wakes of each kind that wait.
func TestMakeGoldenHome(t *testing.T) {
	if *golden == "" {
		t.Skip("no -golden FILE to write to")
	}
	h, sender := newHome(t), newHome(t)
	mesh := h.path("mesh")
	sender.env = append(sender.env, "HEARTBEAT_MESH_DIR="+mesh)
	h.env = append(h.env, "HEARTBEAT_MESH_DIR="+mesh)
	other := sender.open()
	other.checkIn(map[string]any{"agent_id": "sender", "role": "builder"})
	send := func(text string) {
		t.Helper()
		other.call("agent_send", map[string]any{"to": "golden", "message": text, "confirm": true})
	}

	s := h.open()
	s.call("heartbeat_configure", map[string]any{"intervalMinutes": 1, "message": "Look around"})
	s.checkIn(map[string]any{"agent_id": "golden", "role": "reviewer", "caps": []string{"merge"}})
	s.add(map[string]any{"message": "taken", "inSeconds": 0})
	s.ok(s.push().Accept())
	s.until("reminder_list", "No reminders set.")
	s.add(map[string]any{"message": "refused twice, then taken", "inSeconds": 0})
	s.ok(s.push().Refuse("agent is busy"))
	s.until("reminder_list", "agent is busy")
	s.policy(host.Grant)
	s.ok(s.push().Fail(-32603, "broken"))
	s.until("reminder_list", "broken")
	s.policy(host.Grant)
	s.ok(s.push().Accept())
	s.until("reminder_list", "No reminders set.")
	s.call("heartbeat_trigger", nil)
	s.ok(s.push().Accept())

	// A message that was refused and then taken, and one that was taken at once and read.
	send("refused first")
	s.ok(s.push().Refuse("agent is busy"))
	s.until("wake_history", "message from sender | refused")
	s.policy(host.Grant)
	s.ok(s.push().Accept())
	send("taken and read")
	s.ok(s.push().Accept())
	s.until("wake_history", "message from sender | taken")
	ids, _ := s.letters()
	s.call("agent_ack", map[string]any{"ids": ids[:1]})

	// Large texts make snapshots, and a second segment.
	text := strings.Repeat("a large text that compresses well. ", 60<<10/35)
	fill := func(times, keep int) {
		t.Helper()
		for i := range times {
			id := s.add(map[string]any{"message": text, "inHours": 1000 + i})
			if i >= keep {
				s.call("reminder_cancel", map[string]any{"id": id})
			}
		}
	}
	fill(20, 4)

	// The heartbeat falls due: it is taken, then refused, and later dropped.
	s.ok(s.beat().Accept())
	s.ok(s.beat().Refuse("agent is busy"))
	s.add(map[string]any{"message": "recurring, refused", "everyHours": 1000, "inSeconds": 0})
	s.ok(s.push().Refuse("no budget"))
	s.until("reminder_list", "no budget")
	s.call("heartbeat_configure", map[string]any{"paused": true})
	s.add(map[string]any{"message": "not answered", "inSeconds": 0, "title": "A title", "severity": "high"})
	unanswered := []*host.Push{s.push(), s.push()} // the recurring one, too: an add is a reason
	s.until("reminder_list", "no answer within 30 s")
	for _, p := range unanswered {
		if p.Text() == "" {
			t.Errorf("%s", p.Raw)
		}
	}
	s.call("heartbeat_configure", map[string]any{"paused": false})
	s.ok(s.Notify("featureSets/update", map[string]any{"disabled": []string{"heartbeat"}}))
	_, err := s.WaitStderr(minutes(t), "suppressed heartbeat push/event")
	s.ok(err)
	s.policy(host.Grant)
	s.push() // both go out under their ids, and the server is killed
	s.push()
	send("out when the server was killed")
	s.push()
	s.Kill()

	// A host that polls takes one; another waits for it.
	p := h.plain()
	p.add(map[string]any{"message": "polled", "inSeconds": 0})
	for _, e := range p.polled("") {
		if strings.HasSuffix(e["content"].(string), "polled") {
			if n, _ := p.ack(map[string]any{"event_ids": []any{e["event_id"]}}); n != 1 {
				t.Errorf("%d acknowledged", n)
			}
		}
	}
	p.end()

	// The last session leaves a refused reminder, a refused message and pushes without an answer.
	s = h.start()
	s.OnPush(func(p *host.Push) {
		if strings.HasSuffix(p.Text(), "refused at the end") {
			s.ok(p.Refuse("agent is busy"))
		}
	})
	s.initialize(true)
	s.policy(host.Grant)
	s.add(map[string]any{"message": "refused at the end", "inSeconds": 0})
	s.until("reminder_list", "refused by the host")
	send("refused at the end")
	s.until("wake_history", "message from sender | refused | due")
	fill(20, 0) // a snapshot holds them; each add is a reason to try again
	s.call("heartbeat_configure", map[string]any{"intervalHours": 4})
	s.end()
	other.end()
	pack(t, h.dir, *golden)
}

// minutes bounds a wait for a heartbeat that comes once a minute.
func minutes(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// beat is the next push, within minutes.
func (s *session) beat() *host.Push {
	s.t.Helper()
	p, err := s.Push(minutes(s.t))
	s.ok(err)
	return p
}

// pack writes a folder's files into an archive.
func pack(t *testing.T, dir, to string) {
	t.Helper()
	f, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	a := tar.NewWriter(z)
	if err := a.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []interface{ Close() error }{a, z, f} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Clean(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d bytes", to, info.Size())
}
