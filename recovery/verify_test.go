package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heartbeat-mcpl/journal"
)

// place is a server's files in a folder of their own.
func place(t *testing.T) Options {
	dir := t.TempDir()
	return Options{
		Files:   Files{Config: filepath.Join(dir, "config.json"), Reminders: filepath.Join(dir, "reminders.json"), Journal: filepath.Join(dir, "journal")},
		Version: "test", PID: 1, Zone: "UTC", Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
}

func opened(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMain(m *testing.M) {
	tailSettles = 0 // no server writes while a test verifies
	os.Exit(m.Run())
}

// lived makes a journal with a few events of most kinds, and closes it.
func lived(t *testing.T, o Options) {
	t.Helper()
	s := opened(t, o)
	now := time.Now().UnixMilli()
	interval := int64(90_000)
	for i := range 4 {
		id := fmt.Sprintf("rem_%d", i)
		s.Record(now, &journal.Add{By: journal.ByTool, ID: id, Message: "message " + id, CreatedAt: now, FireAt: now + 3600_000})
		if err := s.Commit(now); err != nil {
			t.Fatal(err)
		}
	}
	s.Record(now, &journal.Configure{By: journal.ByTool, IntervalMs: &interval}, &journal.Fire{By: journal.ByTimer, ID: "rem_1", EventID: "evt_1", Due: now},
		&journal.Ack{ID: "rem_1", EventID: "evt_1"}, &journal.Cancel{By: journal.ByTool, ID: "rem_2"})
	if err := errors.Join(s.Commit(now), s.Close(now, "test")); err != nil {
		t.Fatal(err)
	}
}

func verified(t *testing.T, o Options) []Fault {
	t.Helper()
	v, err := Verify(o.Files, nil)
	if err != nil {
		return []Fault{{Text: err.Error()}}
	}
	return v.Faults
}

func segmentPath(o Options) string { return filepath.Join(o.Journal, "00000000000000000001") }

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func got(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestVerifyFindsEveryCutAndFlip: each place of the journal is cut, and each byte changed; what follows is whole again
// after a start, which sets aside what it cannot use.
func TestVerifyFindsEveryCutAndFlip(t *testing.T) {
	o := place(t)
	lived(t, o)
	if faults := verified(t, o); len(faults) != 0 {
		t.Fatalf("of a whole one: %v", faults)
	}
	whole, config, reminders := got(t, segmentPath(o)), got(t, o.Config), got(t, o.Reminders)
	check := func(name string, data []byte, start bool) {
		put(t, segmentPath(o), data)
		if faults := verified(t, o); len(faults) == 0 {
			t.Errorf("%s: no fault was found", name)
		}
		if !start {
			return
		}
		s := opened(t, o)
		if n := s.State().Len(); n != 2 { // rem_0 and rem_3: what the journal lost, the views tell
			t.Errorf("%s: %d reminders after a start", name, n)
		}
		if err := s.Close(time.Now().UnixMilli(), "test"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if faults := verified(t, o); len(faults) != 0 {
			t.Errorf("%s: after a start: %v", name, faults)
		}
		if err := errors.Join(os.RemoveAll(o.Journal), os.Mkdir(o.Journal, 0o700)); err != nil {
			t.Fatal(err)
		}
		put(t, o.Config, config)
		put(t, o.Reminders, reminders)
	}
	for at := range whole {
		check(fmt.Sprint("cut at ", at), whole[:at], at%7 == 0 && at > 0)
		flipped := append([]byte(nil), whole...)
		flipped[at] ^= 0x10
		check(fmt.Sprint("flip at ", at), flipped, at%13 == 0)
	}
	check("zero bytes at the end", append(append([]byte(nil), whole...), make([]byte, 100)...), true)
}

func TestVerifyFindsWhatViewsDoNotShow(t *testing.T) {
	for _, c := range []struct {
		name, file string
		change     func(string) string
		want       string // part of the fault; empty: none
	}{
		{"an edited interval", "config.json", func(s string) string { return strings.Replace(s, `"intervalSeconds": 90`, `"intervalSeconds": 91`, 1) }, "intervalSeconds is 91, and the journal says 90"},
		{"a removed reminder", "reminders.json", func(s string) string { i := strings.Index(s, "  {"); return s[:i] + s[strings.Index(s, "},")+3:] }, "does not show the reminders"},
		{"other white space", "config.json", func(s string) string { return strings.ReplaceAll(s, "\n", " ") }, ""},
		{"damage", "reminders.json", func(s string) string { return s[:len(s)/2] }, "it cannot be used"},
		{"an index beyond the end", "config.json", func(s string) string { return strings.Replace(s, `"index": `, `"index": 9`, 1) }, "answered events are gone"},
		{"another journal's", "config.json", func(s string) string { return strings.Replace(s, `"id": "`, `"id": "0`, 1) }, "belongs to another journal"},
		{"missing", "config.json", nil, "it is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := place(t)
			lived(t, o)
			path := filepath.Join(filepath.Dir(o.Config), c.file)
			if c.change == nil {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else {
				put(t, path, []byte(c.change(string(got(t, path)))))
			}
			faults := verified(t, o)
			if c.want == "" && len(faults) > 0 || c.want != "" && (len(faults) != 1 || !strings.Contains(faults[0].String(), c.want)) {
				t.Errorf("faults %v, want %q", faults, c.want)
			}
		})
	}
}

// TestVerifyTakesAStaleViewForWhatItIs: a crash came between the journal and the views.
func TestVerifyTakesAStaleViewForWhatItIs(t *testing.T) {
	o := place(t)
	lived(t, o)
	config, reminders := got(t, o.Config), got(t, o.Reminders)
	s := opened(t, o)
	now := time.Now().UnixMilli()
	s.Record(now, &journal.Cancel{By: journal.ByTool, ID: "rem_0"})
	if err := errors.Join(s.Commit(now), s.Close(now, "test")); err != nil {
		t.Fatal(err)
	}
	put(t, o.Config, config)
	put(t, o.Reminders, reminders)
	if faults := verified(t, o); len(faults) != 0 {
		t.Errorf("faults: %v", faults)
	}
}

func TestVerifyReadsOnly(t *testing.T) {
	o := place(t)
	lived(t, o)
	dir := filepath.Dir(o.Config)
	before := listing(t, dir)
	put(t, segmentPath(o), got(t, segmentPath(o))[:50])
	before[segmentPath(o)] = listing(t, dir)[segmentPath(o)]
	verified(t, o)
	if _, err := ReadPast(o.Journal, nil); err != nil {
		t.Fatal(err)
	}
	after := listing(t, dir)
	for path, size := range after {
		if was, ok := before[path]; !ok || was != size {
			t.Errorf("%s was made or changed", path)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files, were %d", len(after), len(before))
	}
	if _, err := Verify(Files{Journal: filepath.Join(dir, "none")}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
}

// listing is the files below dir with size and time.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		info, statErr := os.Stat(path)
		if err == nil && statErr == nil && !info.IsDir() {
			all[path] = fmt.Sprint(info.Size(), info.ModTime())
		}
		return errors.Join(err, statErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSnapshotsAreWhatTheEventsLedTo: a journal long enough for several snapshots verifies, and the state at each index is
// the same whether it is folded from a snapshot or from the first record.
func TestSnapshotsAreWhatTheEventsLedTo(t *testing.T) {
	o := place(t)
	s := opened(t, o)
	now := time.Now().UnixMilli()
	text := strings.Repeat("x", 20_000)
	for i := range 200 {
		id := fmt.Sprintf("rem_%d", i)
		s.Record(now, &journal.Add{By: journal.ByTool, ID: id, Message: text, CreatedAt: now, FireAt: now + 3600_000})
		if i >= 10 {
			s.Record(now, &journal.Cancel{By: journal.ByTool, ID: fmt.Sprintf("rem_%d", i-10)})
		}
		if err := s.Commit(now); err != nil {
			t.Fatal(err)
		}
	}
	live := s.State()
	at, err := StateAt(o.Journal, 0)
	if err != nil || !at.Same(live) {
		t.Errorf("replayed state differs from the live one: %v", err)
	}
	if err := s.Close(now, "test"); err != nil {
		t.Fatal(err)
	}
	v, err := Verify(o.Files, nil)
	if err != nil || len(v.Faults) > 0 || v.Snapshots < 3 || v.Segments < 3 {
		t.Fatalf("%+v, %v", v, err)
	}
	for index := uint64(3); index < v.Last; index += 37 {
		from, err := StateAt(o.Journal, index)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := journal.NewScanner(o.Journal)
		if err != nil {
			t.Fatal(err)
		}
		state, err := fold(nil, whole, index, nil)
		if err != nil || !from.Same(state) {
			t.Fatalf("at record %d a snapshot leads to another state: %v", index, err)
		}
	}
}

// TestOldSegmentsAreRemovedOnceASnapshotCoversThem: a server that hosts restart often trims at its start.
func TestOldSegmentsAreRemovedOnceASnapshotCoversThem(t *testing.T) {
	o := place(t)
	old := time.Now().Add(-100 * 24 * time.Hour)
	o.Now = func() time.Time { return old }
	s := opened(t, o)
	text := strings.Repeat("x", 20_000)
	for i := range 100 {
		s.Record(old.UnixMilli(), &journal.Add{By: journal.ByTool, ID: fmt.Sprint("rem_", i), Message: text, CreatedAt: 1, FireAt: old.UnixMilli() + 1e12})
		if err := s.Commit(old.UnixMilli()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(old.UnixMilli(), "test"); err != nil {
		t.Fatal(err)
	}
	before, err := journal.Starts(o.Journal)
	if err != nil || len(before) < 3 {
		t.Fatal(before, err)
	}
	o.Now = time.Now
	for _, keep := range []time.Duration{0, 200 * 24 * time.Hour, 30 * 24 * time.Hour} {
		o.Keep = keep
		s = opened(t, o)
		if err := s.Close(time.Now().UnixMilli(), "test"); err != nil {
			t.Fatal(err)
		}
		after, err := journal.Starts(o.Journal)
		if err != nil || (after[0] > 1) != (keep == 30*24*time.Hour) {
			t.Errorf("kept for %v: segments begin at %v, %v", keep, after, err)
		}
	}
	if faults := verified(t, o); len(faults) > 0 {
		t.Errorf("faults %v", faults)
	}
	s = opened(t, o)
	if n := s.State().Len(); n != 100 {
		t.Errorf("%d reminders", n)
	}
	if err := s.Close(time.Now().UnixMilli(), "test"); err != nil {
		t.Fatal(err)
	}
}

// TestPartsOfADamagedSnapshotAreUsed: where the events from before a snapshot are gone, and one part of it is damaged, only what
// stands in that part is lost.
func TestPartsOfADamagedSnapshotAreUsed(t *testing.T) {
	o := place(t)
	s := opened(t, o)
	now := time.Now().UnixMilli()
	text := strings.Repeat("x", 1000)
	for i := range 3000 {
		s.Record(now, &journal.Add{By: journal.ByTool, ID: fmt.Sprintf("rem_%04d", i), Message: text, CreatedAt: now, FireAt: now + 1e9})
		if i%100 == 99 {
			if err := s.Commit(now); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Record(now, &journal.Cancel{By: journal.ByTool, ID: "rem_0007"})
	for range 70 { // as much again as the reminders weigh: a snapshot of all of them is made
		long := strings.Repeat("y", 50_000)
		s.Record(now, &journal.Configure{By: journal.ByTool, Message: &long})
		if err := s.Commit(now); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Commit(now), s.Close(now, "test")); err != nil {
		t.Fatal(err)
	}

	scanner, err := journal.NewScanner(o.Journal)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := scanner.FindSnapshot()
	if err != nil || newest == 0 {
		t.Fatal("no snapshot", err)
	}
	starts, err := journal.Starts(o.Journal)
	if err != nil {
		t.Fatal(err)
	}
	damaged := ""
	for scanner.Next() {
		if scanner.Event().Index == newest+1 {
			segment, at, size := scanner.Pos()
			path := filepath.Join(o.Journal, segment)
			data := got(t, path)
			damaged = string(data[at : at+size])
			data[at+size/2] ^= 1
			put(t, path, data)
		}
	}
	for i, start := range starts { // what retention would remove
		if i+1 < len(starts) && starts[i+1] <= newest {
			if err := os.Remove(filepath.Join(o.Journal, fmt.Sprintf("%020d", start))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(os.Remove(o.Config), os.Remove(o.Reminders)); err != nil {
		t.Fatal(err)
	}

	for range 2 { // the second start reads what the first made of it
		s = opened(t, o)
		lost := 0
		for i := range 3000 {
			id := fmt.Sprintf("rem_%04d", i)
			_, there := s.State().Reminder(id)
			switch inDamaged := strings.Contains(damaged, id); {
			case i == 7 && there:
				t.Error("a cancelled one is back")
			case i != 7 && !there && !inDamaged:
				t.Errorf("%s is lost, and its part was whole", id)
			case !there:
				lost++
			}
		}
		if lost < 2 {
			t.Errorf("%d are lost: the test damaged nothing", lost)
		}
		if err := s.Close(now, "test"); err != nil {
			t.Fatal(err)
		}
	}
}
