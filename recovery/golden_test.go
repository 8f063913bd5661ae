package recovery

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

var newGolden = flag.Bool("golden", false, "write what the golden journals led to, where that is not there yet")

// TestGoldenJournalsKeepTheirMeaning holds what is read out of journals of landed versions against what those versions read
// (SPEC 9.2). Each folder in testdata/golden has a home as its version left it, made by TestMakeGoldenHome of the binary's tests, and
// beside it the state and the history as that version understood them. These files are never changed: a difference is a fault.
func TestGoldenJournalsKeepTheirMeaning(t *testing.T) {
	for _, version := range goldenVersions(t) {
		t.Run(filepath.Base(version), func(t *testing.T) {
			o := unpacked(t, version)
			state, err := StateAt(o.Journal, 0)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join(version, "state.txt"), stateText(state, sent(t, o)))

			past, err := ReadPast(o.Journal, nil)
			if err != nil || len(past.Damage) > 0 || past.State == nil {
				t.Fatalf("%v, %+v", err, past)
			}
			if whole, newest := stateText(past.State, sent(t, o)), stateText(state, sent(t, o)); whole != newest {
				t.Errorf("from the first record on it is\n%s\nfrom the newest snapshot on\n%s", whole, newest)
			}
			past.History.Finish(past.State, past.State.TimeMs)
			golden(t, filepath.Join(version, "history.txt"), historyText(past.History))
			if faults := verified(t, o); len(faults) > 0 {
				t.Errorf("%+v", faults)
			}
			golden(t, filepath.Join(version, "mesh.txt"), meshText(t, o))
		})
	}
}

// TestGoldenJournalsGoOn: a server of this version opens them, rebuilds the views that their version wrote, and adds events.
func TestGoldenJournalsGoOn(t *testing.T) {
	for _, version := range goldenVersions(t) {
		t.Run(filepath.Base(version), func(t *testing.T) {
			o := unpacked(t, version)
			before, err := StateAt(o.Journal, 0)
			if err != nil {
				t.Fatal(err)
			}
			now := before.TimeMs + time.Hour.Milliseconds()
			o.Now = func() time.Time { return time.UnixMilli(now) }
			s := opened(t, o)
			if notes := s.Notes(true, true); len(notes) > 0 {
				t.Errorf("it says %q", notes)
			}
			s.Record(now, &journal.Add{By: journal.ByTool, ID: "rem_new", Message: "new", CreatedAt: now, FireAt: now + 1})
			s.Record(now, &journal.Cancel{By: journal.ByTool, ID: "rem_new"})
			if err := s.Close(now, "test"); err != nil {
				t.Fatal(err)
			}
			after, err := StateAt(o.Journal, 0)
			if err != nil {
				t.Fatal(err)
			}
			if was, is := stateText(before, sent(t, o)), stateText(after, sent(t, o)); is != was {
				t.Errorf("it went on as\n%s\nfrom\n%s", is, was)
			}
			if faults := verified(t, o); len(faults) > 0 {
				t.Errorf("%+v", faults)
			}

			old := unpacked(t, version)
			for _, view := range [][2]string{{old.Config, o.Config}, {old.Reminders, o.Reminders}} {
				shownIn(t, view[0], view[1])
			}
			for _, view := range []string{o.Config, o.Reminders} {
				if err := os.Remove(view); err != nil {
					t.Fatal(err)
				}
			}
			if err := opened(t, o).Close(now, "test"); err != nil {
				t.Fatal(err)
			}
			shownIn(t, old.Config, o.Config)
			shownIn(t, old.Reminders, o.Reminders)
		})
	}
}

func goldenVersions(t *testing.T) []string {
	t.Helper()
	versions, err := filepath.Glob("testdata/golden/*")
	if err != nil || len(versions) == 0 {
		t.Fatalf("no golden journals: %v", err)
	}
	return versions
}

// unpacked is the home of a version in a folder of its own.
func unpacked(t *testing.T, version string) Options {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Open(filepath.Join(version, "home.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for a := tar.NewReader(z); ; {
		head, err := a.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if head.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(a)
		path := filepath.Join(dir, filepath.FromSlash(head.Name))
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700)); err != nil {
			t.Fatal(err)
		}
		put(t, path, data)
	}
	return Options{
		Files:   Files{Config: filepath.Join(dir, "heartbeat-config.json"), Reminders: filepath.Join(dir, "heartbeat-reminders.json"), Journal: filepath.Join(dir, "heartbeat-journal")},
		Version: "test", PID: 1, Zone: "UTC", Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
}

// golden holds a text against a file.
func golden(t *testing.T, path, text string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil && *newGolden {
		put(t, path, []byte(text))
	}
	if want := string(got(t, path)); text != want {
		t.Errorf("%s says\n%s\nit is\n%s", path, want, text)
	}
}

// sent are the ids of the messages that were pushed.
func sent(t *testing.T, o Options) (ids []string) {
	t.Helper()
	s, err := journal.NewScanner(o.Journal)
	if err != nil {
		t.Fatal(err)
	}
	for s.Next() {
		if b, is := s.Event().Body.(*journal.Tell); is && !slices.Contains(ids, b.Message) {
			ids = append(ids, b.Message)
		}
	}
	return ids
}

// stateText is all that the first version knew of a state, and of these messages.
func stateText(s *projection.State, messages []string) string {
	var b strings.Builder
	c := s.Config
	fmt.Fprintf(&b, "every %d, paused %v, %s, %q, standing %v, cleared %v, hours %q, extra %q\n", c.IntervalMs, c.Paused, c.Mode, c.Message, c.Standing, c.Cleared, c.Active, c.Extra)
	who, _ := s.Participant()
	fmt.Fprintf(&b, "anchor %d at %d, taken %d, last %d, agent %q, pane %q\n", s.AnchorMs, s.AnchorIndex, s.Beats.Taken, s.Beats.LastMs, who.Agent, who.Pane)
	for _, r := range s.Reminders() {
		d := r.Details()
		fmt.Fprintf(&b, "%s %q created %d, due %d, every %d, fixed %v, seq %d, since %d, {Title:%s Severity:%s URL:%s Cron:%s Zone:%s Until:%d Left:%d Extra:%v}, %s\n", r.ID, short(r.Message),
			r.CreatedAt, r.FireAt, r.EveryMs, r.Fixed, r.Seq, r.Since, d.Title, d.Severity, d.URL, d.Cron, d.Zone, d.Until, d.Left, d.Extra, attemptText(r.Attempt))
	}
	for _, id := range messages {
		fmt.Fprintf(&b, "%s: taken %v, %s\n", id, s.Told(id), attemptText(s.Tried(id)))
	}
	return b.String()
}

func attemptText(a *projection.Attempt) string {
	if a == nil {
		return "not sent"
	}
	how, at, reason := a.Failed()
	return fmt.Sprintf("%s at %d, sent %d, outcome %d, code %d; failed %d at %d: %q", a.EventID, a.At, a.Sent, a.Outcome, a.Code, how, at, reason)
}

func short(s string) string { return s[:min(len(s), 40)] }

func historyText(h *projection.History) string {
	var b strings.Builder
	subject := func(s *projection.Subject) {
		fmt.Fprintf(&b, "%q %q set by %q at %s, every %d, next %s, cancelled at %s\n", s.ID, short(s.Message), s.SetBy, s.SetAt, s.EveryMs, s.NextAt, s.CancelledAt)
		for _, w := range s.Wakes {
			fmt.Fprintf(&b, "  due %s: %s at %s, manual %v, polled %v, from %q, %q\n", w.Due, w.Result, w.At(), w.Manual, w.Polled, w.From, w.Why())
			for _, p := range w.Pushes {
				fmt.Fprintf(&b, "    %s: %s, sent %s, answered %s, %d %q\n", p.EventID, p.Result, p.SentAt, p.AnsweredAt, p.Code, p.Reason)
			}
		}
	}
	subject(h.Heartbeat)
	subject(h.Messages)
	for _, s := range h.Reminders {
		subject(s)
	}
	for _, r := range h.Runs {
		fmt.Fprintf(&b, "run from %s to %s: %q\n", r.From, r.To, r.End)
	}
	return b.String()
}

// meshText is the mesh that the home's agent took part in.
func meshText(t *testing.T, o Options) string {
	t.Helper()
	m := NewMesh(filepath.Join(filepath.Dir(o.Config), "mesh"), o.Log)
	defer m.Close()
	var b strings.Builder
	err := m.Read(func(m *projection.Mesh) {
		for _, a := range m.Agents(m.TimeMs) {
			fmt.Fprintf(&b, "%s %q %q %q, since %d, last %d, ttl %d\n", a.ID, a.Role, a.Caps, a.Status, a.SinceMs, a.LastMs, a.TTLMs)
			for _, l := range m.Inbox(a.ID) {
				fmt.Fprintf(&b, "  %s from %s at %d: %q\n", l.ID, l.From, l.SentMs, l.Text)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// shownIn checks that a view shows all that an older one shows, but for where in the journal it stands.
func shownIn(t *testing.T, older, view string) {
	t.Helper()
	var want, have any
	if err := errors.Join(json.Unmarshal(got(t, older), &want), json.Unmarshal(got(t, view), &have)); err != nil {
		t.Fatal(err)
	}
	entries := func(v any) []any {
		if list, is := v.([]any); is {
			return list
		}
		return []any{v}
	}
	olds, news := entries(want), entries(have)
	if len(olds) != len(news) {
		t.Errorf("%s has %d entries, want %d", view, len(news), len(olds))
		return
	}
	for i := range olds {
		entry, now := olds[i].(map[string]any), news[i].(map[string]any)
		for name, value := range entry {
			if !slices.Contains([]string{"journal", "journalIndex"}, name) && now[name] != value {
				t.Errorf("%s, entry %d: %s is %v, want %v", view, i, name, now[name], value)
			}
		}
	}
}
