package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tidwall/wal"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

// copyOf is a copy of a journal that a test may harm.
func copyOf(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "journal")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func segmentOf(dir string, first uint64) string { return filepath.Join(dir, nameOf(first)) }

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// ends are the offsets at which each record of a segment ends.
func ends(t testing.TB, dir string) []int64 {
	t.Helper()
	s, err := NewScanner(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []int64
	for s.Next() {
		_, at, size := s.Pos()
		all = append(all, at+size)
	}
	return all
}

func indices(all []Event) []uint64 {
	var is []uint64
	for _, e := range all {
		is = append(is, e.Index)
	}
	return is
}

// TestCutAnywhereKeepsEveryWholeRecord cuts a journal at every byte: what is whole before the cut is found, and what is
// torn is one damaged tail, unless the cut is at a record's end.
func TestCutAnywhereKeepsEveryWholeRecord(t *testing.T) {
	dir, id := made(t, 6, LogOptions{})
	whole := readFile(t, segmentOf(dir, 1))
	at := ends(t, dir)
	for cut := at[0]; cut <= int64(len(whole)); cut++ {
		harmed := filepath.Join(t.TempDir(), "journal")
		if err := os.Mkdir(harmed, 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, segmentOf(harmed, 1), whole[:cut])
		want := 0
		for want < len(at) && at[want] <= cut {
			want++
		}
		atEnd := at[want-1] == cut
		all, damage := scanned(t, harmed)
		if len(all) != want || atEnd != (len(damage) == 0) {
			t.Fatalf("cut at %d: %d records and damage %+v, want %d records", cut, len(all), damage, want)
		}
		if atEnd || cut%7 != 0 { // the repair is slow: at some places is enough
			continue
		}
		d := damage[0]
		if !d.Tail || d.Offset != at[want-1] || d.Length != cut-at[want-1] || d.First != uint64(want+1) {
			t.Fatalf("cut at %d: damage %+v", cut, d)
		}
		aside := filepath.Join(t.TempDir(), "aside")
		if err := CutTail(harmed, d, aside); err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, aside); !bytes.Equal(got, whole[at[want-1]:cut]) {
			t.Fatalf("cut at %d: set aside %q", cut, got)
		}
		goesOn(t, harmed, id, uint64(want))
	}
}

// goesOn appends to a journal that ends at last, and scans it.
func goesOn(t testing.TB, dir string, id ID, last uint64) {
	t.Helper()
	l, err := OpenLog(dir, id, last, LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Append([]Event{add(last+1, 0)}), l.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := NewScanner(dir)
	if err != nil {
		t.Fatal(err)
	}
	for s.Next() {
	}
	if s.Last() != last+1 || len(s.Damage()) != 0 {
		t.Fatalf("after going on: last record %d, damage %+v, want %d", s.Last(), s.Damage(), last+1)
	}
}

// TestFlippedByteCostsOneRecord flips every byte of a journal in turn: every other record is found, and the damage is told.
func TestFlippedByteCostsOneRecord(t *testing.T) {
	dir, _ := made(t, 6, LogOptions{})
	whole := readFile(t, segmentOf(dir, 1))
	at := ends(t, dir)
	harmed := copyOf(t, dir)
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 0x55
		writeFile(t, segmentOf(harmed, 1), flipped)
		hit := uint64(1)
		for at[hit-1] <= int64(i) {
			hit++
		}
		all, damage := scanned(t, harmed)
		if len(all) != 6 || len(damage) != 1 {
			t.Fatalf("byte %d flipped: records %v, damage %+v", i, indices(all), damage)
		}
		for _, e := range all {
			if e.Index == hit {
				t.Fatalf("byte %d flipped: record %d passed", i, hit)
			}
		}
		if d := damage[0]; d.Tail != (hit == 7) || d.First != hit || d.Offset > int64(i) {
			t.Fatalf("byte %d flipped: damage %+v of record %d", i, d, hit)
		}
	}
}

func TestZeroBytesAtTheEndAreDamage(t *testing.T) {
	dir, id := made(t, 3, LogOptions{})
	for _, n := range []int{1, 2, 21, 22, 23, 4096, 8 << 20} { // whoever looks at all that follows from each byte on takes days
		harmed := copyOf(t, dir)
		whole := readFile(t, segmentOf(harmed, 1))
		writeFile(t, segmentOf(harmed, 1), append(whole, make([]byte, n)...))
		all, damage := scanned(t, harmed)
		if len(all) != 4 || len(damage) != 1 || !damage[0].Tail || damage[0].Length != int64(n) || damage[0].Why != "zero bytes" {
			t.Fatalf("%d zero bytes: %d records, damage %+v", n, len(all), damage)
		}
		if err := CutTail(harmed, damage[0], harmed+".aside"); err != nil {
			t.Fatal(err)
		}
		goesOn(t, harmed, id, 4)
	}
}

// TestGarbageThatLooksLikeLongRecords: whoever computes the checksum of all that begins like a record takes minutes.
func TestGarbageThatLooksLikeLongRecords(t *testing.T) {
	dir, _ := made(t, 3, LogOptions{})
	for name, pattern := range map[string][]byte{
		"of index 0":        append([]byte{0xff, 0xff, 0x3f, recordMagic}, make([]byte, 20)...),
		"of a huge index":   append([]byte{0xff, 0xff, 0xff, 0x01, recordMagic}, bytes.Repeat([]byte{0xaa}, 19)...),
		"one at each place": {0x17, recordMagic},
	} {
		harmed := copyOf(t, dir)
		whole := readFile(t, segmentOf(harmed, 1))
		writeFile(t, segmentOf(harmed, 1), append(whole, bytes.Repeat(pattern, 6<<20/len(pattern))...))
		if all, damage := scanned(t, harmed); len(all) != 4 || len(damage) != 1 || !damage[0].Tail {
			t.Errorf("garbage %s: %d records, damage %+v", name, len(all), damage)
		}
	}
}

// small segments: a handful of records each.
var smallSegments = LogOptions{SegmentSize: 400}

func segmentsOf(t testing.TB, dir string) []uint64 {
	t.Helper()
	firsts, _, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	return firsts
}

func TestMissingAndShortSegmentsInTheMiddle(t *testing.T) {
	dir, _ := made(t, 20, smallSegments)
	firsts := segmentsOf(t, dir)
	if len(firsts) < 4 {
		t.Fatalf("only %d segments", len(firsts))
	}
	second, third := firsts[1], firsts[2]
	for name, harm := range map[string]func(string) error{
		"missing": func(dir string) error { return os.Remove(segmentOf(dir, second)) },
		"empty":   func(dir string) error { return os.Truncate(segmentOf(dir, second), 0) },
		"zeroed": func(dir string) error {
			return os.WriteFile(segmentOf(dir, second), make([]byte, 4<<20), 0o600)
		},
		"a copy of another": func(dir string) error {
			return os.WriteFile(segmentOf(dir, second), readFile(t, segmentOf(dir, third)), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			harmed := copyOf(t, dir)
			if err := harm(harmed); err != nil {
				t.Fatal(err)
			}
			all, damage := scanned(t, harmed)
			if len(damage) == 0 || damage[0].Tail || damage[0].First != second {
				t.Fatalf("damage %+v", damage)
			}
			lost := 21 - len(all)
			if lost != int(third-second) {
				t.Fatalf("%d records are lost, want %d: %v", lost, third-second, indices(all))
			}
			rewritten := harmed + ".new"
			begin := Begin{ID: NewID().String(), Major: Major, Replaces: "old"}
			last, n, err := Rewrite(harmed, ID{}, rewritten, begin, 5, LogOptions{})
			if err != nil || last != 21 || n != uint64(lost) {
				t.Fatalf("rewrite: last %d, lost %d, %v", last, n, err)
			}
			all, damage = scanned(t, rewritten)
			if len(all) != 21 || len(damage) != 0 || all[second-1].Kind != KindHole {
				t.Fatalf("rewritten: %d records, damage %+v", len(all), damage)
			}
			if b := all[0].Body.(*Begin); b.Replaces != "old" {
				t.Errorf("begin: %+v", b)
			}
			id, _ := ParseID(begin.ID)
			goesOn(t, rewritten, id, 21)
		})
	}
}

func TestRewriteKeepsWhatANewerVersionWrote(t *testing.T) {
	dir, id := made(t, 1, LogOptions{})
	l, err := OpenLog(dir, id, 2, LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	foreign := []byte{0x82, 0xa1, 'x', 0x07, 0xa1, 'y', 0xc3}           // {"x":7,"y":true}
	wider := []byte{0x82, 0xa2, 'i', 'd', 0xa1, 'r', 0xa2, 'z', 'z', 1} // a cancel with a field of its own
	err = l.Append([]Event{{Index: 3, Time: 3, Kind: 99, Raw: foreign}, {Index: 4, Time: 4, Kind: KindCancel, Raw: wider}})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Rewrite(dir, ID{}, dir+".new", Begin{ID: NewID().String(), Major: Major}, 5, LogOptions{}); err != nil {
		t.Fatal(err)
	}
	all, damage := scanned(t, dir+".new")
	if len(all) != 4 || len(damage) != 0 || all[2].Body != nil || all[2].Kind.String() != "unknown-99" {
		t.Fatalf("got %+v, damage %+v", all, damage)
	}
	if !bytes.Equal(all[2].Raw, foreign) || !bytes.Equal(all[3].Raw, wider) || all[3].Body.(*Cancel).ID != "r" {
		t.Errorf("got %x and %x", all[2].Raw, all[3].Raw)
	}
}

func TestRewriteOfAJournalThatRetentionShortened(t *testing.T) {
	dir, _ := made(t, 20, smallSegments)
	firsts := segmentsOf(t, dir)
	if err := os.Remove(segmentOf(dir, firsts[0])); err != nil {
		t.Fatal(err)
	}
	damagedAt := segmentOf(dir, firsts[2])
	data := readFile(t, damagedAt)
	data[len(data)/2] ^= 1
	writeFile(t, damagedAt, data)
	begin := Begin{ID: NewID().String(), Major: Major}
	last, lost, err := Rewrite(dir, ID{}, dir+".new", begin, 5, smallSegments)
	if err != nil || last != 21 || lost != 1 {
		t.Fatalf("last %d, lost %d, %v", last, lost, err)
	}
	all, damage := scanned(t, dir+".new")
	if len(damage) != 0 || all[0].Index != firsts[1] || all[len(all)-1].Index != 21 {
		t.Fatalf("records %v, damage %+v", indices(all), damage)
	}
	id, _ := ParseID(begin.ID)
	goesOn(t, dir+".new", id, 21)
}

func TestRecordsOfAnotherJournalDoNotPass(t *testing.T) {
	dir, _ := made(t, 3, LogOptions{})
	other, _ := made(t, 6, LogOptions{})
	at := ends(t, other)
	foreign := readFile(t, segmentOf(other, 1))[at[3]:] // records 5 to 7: the very indices that come next
	writeFile(t, segmentOf(dir, 1), append(readFile(t, segmentOf(dir, 1)), foreign...))
	all, damage := scanned(t, dir)
	if len(all) != 4 || len(damage) != 1 || !damage[0].Tail || damage[0].Length != int64(len(foreign)) {
		t.Fatalf("records %v, damage %+v", indices(all), damage)
	}
}

func TestIdentityIsRestoredFromEitherPlace(t *testing.T) {
	dir, id := made(t, 3, LogOptions{})
	if err := os.Remove(filepath.Join(dir, metaName)); err != nil {
		t.Fatal(err)
	}
	if all, damage := scanned(t, dir); len(all) != 4 || len(damage) != 0 {
		t.Fatalf("without meta.json: %v, %+v", indices(all), damage)
	}
	goesOn(t, dir, id, 4)
	if _, have, ok := readMeta(dir); !ok || have != id {
		t.Error("opening did not write meta.json again")
	}
	data := readFile(t, segmentOf(dir, 1))
	data[10] ^= 1 // in the first record
	writeFile(t, segmentOf(dir, 1), data)
	if all, damage := scanned(t, dir); len(all) != 4 || len(damage) != 1 || damage[0].First != 1 {
		t.Fatalf("without the first record: %v, %+v", indices(all), damage)
	}
	writeFile(t, filepath.Join(dir, metaName), []byte("{"))
	if _, err := NewScanner(dir); err == nil || !strings.Contains(err.Error(), "nothing says which journal") {
		t.Fatalf("without either: %v", err)
	}
	s, err := NewScannerWithID(dir, id)
	if err != nil || !s.Next() || s.Event().Index != 2 {
		t.Fatalf("with a hint: %v", err)
	}
}

func TestStrayFileIsNeverActedOn(t *testing.T) {
	dir, id := made(t, 20, smallSegments)
	before := segmentsOf(t, dir)
	writeFile(t, filepath.Join(dir, nameOf(15)+".START"), []byte("x"))
	_, damage := scanned(t, dir)
	if len(damage) != 1 || damage[0].Why != StrayFile {
		t.Fatalf("damage %+v", damage)
	}
	if _, err := OpenLog(dir, id, 21, smallSegments); err == nil {
		t.Fatal("it was opened")
	}
	if after := segmentsOf(t, dir); len(after) != len(before) {
		t.Fatalf("segments %v, were %v", after, before)
	}
}

// faulty is the library's log with a fault at one write.
type faulty struct {
	writer
	dir   string
	fault *fault
}

type fault struct {
	at    int // which write fails, counted from 1
	count int
	kind  string
}

func (f *faulty) WriteBatch(b *wal.Batch) error {
	f.fault.count++
	if f.fault.count != f.fault.at {
		return f.writer.WriteBatch(b)
	}
	switch f.fault.kind {
	case "short write":
		newest := func() (string, int64) {
			firsts, _, err := segments(f.dir)
			if err != nil || len(firsts) == 0 {
				return "", 0
			}
			path := segmentOf(f.dir, firsts[len(firsts)-1])
			info, err := os.Stat(path)
			if err != nil {
				return "", 0
			}
			return path, info.Size()
		}
		path, before := newest()
		if err := f.writer.WriteBatch(b); err != nil {
			return err
		}
		now, after := newest()
		if now != path {
			before = 0
		}
		return errors.Join(os.Truncate(now, before+(after-before)/2), &os.PathError{Op: "write", Err: syscall.ENOSPC})
	case "written, but fsync failed":
		if err := f.writer.WriteBatch(b); err != nil {
			return err
		}
		return &os.PathError{Op: "sync", Err: syscall.EIO}
	}
	return &os.PathError{Op: "open", Err: syscall.EMFILE} // a new segment could not be made
}

// TestFailedAppendHarmsNothingAndIsRetried puts a fault at every write of a run in turn (SPEC 3.7).
func TestFailedAppendHarmsNothingAndIsRetried(t *testing.T) {
	const writes = 12
	for _, kind := range []string{"short write", "written, but fsync failed", "rotation failed"} {
		for at := 1; at <= writes; at++ {
			t.Run(fmt.Sprint(kind, " at ", at), func(t *testing.T) {
				plan := &fault{at: at, kind: kind}
				o := LogOptions{SegmentSize: 400, open: func(dir string, size int) (writer, error) {
					w, err := openWAL(dir, size)
					return &faulty{w, dir, plan}, err
				}}
				dir := filepath.Join(t.TempDir(), "journal")
				l, err := Create(dir, Begin{ID: NewID().String(), Major: Major}, 1, o)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(filepath.Join(dir, reserveName)); err != nil { // it would hide the fault
					t.Fatal(err)
				}
				failed := 0
				for i := range writes {
					batch := []Event{add(l.Last()+1, i), add(l.Last()+2, i)}
					before := l.Last()
					if err := l.Append(batch); err != nil {
						failed++
						if l.Last() != before {
							t.Fatal("a failed append counts")
						}
						if all, _ := scanned(t, dir); len(all) < int(before) {
							t.Fatalf("after the fault only %d of %d records are there", len(all), before)
						}
						if err := l.Append(batch); err != nil {
							t.Fatalf("the retry: %v", err)
						}
					}
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				all, damage := scanned(t, dir)
				if failed != 1 || len(all) != 1+2*writes || len(damage) != 0 {
					t.Fatalf("%d failures, %d records, damage %+v", failed, len(all), damage)
				}
			})
		}
	}
}

func TestReserveLetsAnAppendThroughOnAFullDisk(t *testing.T) {
	plan := &fault{at: 2, kind: "short write"}
	dir := filepath.Join(t.TempDir(), "journal")
	l, err := Create(dir, Begin{ID: NewID().String(), Major: Major}, 1, LogOptions{open: func(dir string, size int) (writer, error) {
		w, err := openWAL(dir, size)
		return &faulty{w, dir, plan}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		appendOne(t, l, i)
	}
	if _, err := os.Stat(filepath.Join(dir, reserveName)); err == nil {
		t.Error("the reserve was not given up")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if all, damage := scanned(t, dir); len(all) != 4 || len(damage) != 0 {
		t.Fatalf("records %v, damage %+v", indices(all), damage)
	}
}

// TestWhatAnotherProgramDidToTheSegmentIsLeftAsItIs: a backup was restored, or a second writer got in, while the server ran.
func TestWhatAnotherProgramDidToTheSegmentIsLeftAsItIs(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(path string, data []byte) []byte // returns what the file holds then
	}{
		{"replaced by another file", func(path string, data []byte) []byte {
			other := append(slices.Clone(data), "another journal's records"...)
			if err := errors.Join(os.Remove(path), os.WriteFile(path, other, 0o600)); err != nil {
				panic(err)
			}
			return other
		}},
		{"written to", func(path string, data []byte) []byte {
			other := append(slices.Clone(data), data...)
			if err := os.WriteFile(path, other, 0o600); err != nil {
				panic(err)
			}
			return other
		}},
		{"truncated", func(path string, data []byte) []byte {
			if err := os.Truncate(path, 20); err != nil {
				panic(err)
			}
			return data[:20]
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "journal")
			l, err := Create(dir, Begin{ID: NewID().String(), Major: Major}, 1, LogOptions{})
			if err != nil {
				t.Fatal(err)
			}
			appendOne(t, l, 1)
			path := segmentOf(dir, 1)
			want := c.do(path, readFile(t, path))
			for range 2 {
				if err := l.Append([]Event{add(l.Last()+1, 2)}); err == nil {
					t.Error("an append to it counts")
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if got := readFile(t, path); !bytes.Equal(got, want) {
				t.Errorf("it holds %d bytes, not the %d that were put there", len(got), len(want))
			}
		})
	}
}

func TestRemovedSegmentIsNoticed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	l, err := Create(dir, Begin{ID: NewID().String(), Major: Major}, 1, LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Remove(segmentOf(dir, 1)); err != nil {
		t.Fatal(err)
	}
	if err := l.Append([]Event{add(2, 0)}); err == nil || !strings.Contains(err.Error(), "removed while the server ran") {
		t.Fatalf("got %v", err)
	}
}

func TestScanBesideARunningWriterSeesAtMostATornTail(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	l, err := Create(dir, Begin{ID: NewID().String(), Major: Major}, 1, smallSegments)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		for i := range 300 {
			if err := l.Append([]Event{add(l.Last()+1, i)}); err != nil {
				done <- err
				return
			}
		}
		done <- l.Close()
	}()
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
			for _, d := range second(scanned(t, dir)) {
				if !d.Tail {
					t.Fatalf("damage %+v", d)
				}
			}
		}
	}
	if all, damage := scanned(t, dir); len(all) != 301 || len(damage) != 0 {
		t.Fatalf("records %d, damage %+v", len(all), damage)
	}
}

func second(_ []Event, d []Damage) []Damage { return d }

func TestNewestCompleteSnapshotIsFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	id := NewID()
	l, err := Create(dir, Begin{ID: id.String(), Major: Major}, 1, smallSegments)
	if err != nil {
		t.Fatal(err)
	}
	var want uint64
	check := func() {
		t.Helper()
		s, err := NewScanner(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.FindSnapshot(); err != nil || got != want {
			t.Fatalf("found %d, %v, want %d", got, err, want)
		}
	}
	put := func(bodies ...Body) {
		t.Helper()
		for _, b := range bodies {
			if err := l.Append([]Event{{Index: l.Last() + 1, Time: 1, Kind: b.Kind(), Body: b}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	part := func(i, n uint32) Body { return &Snapshot{Part: i, Parts: n, Data: make([]byte, 150)} }
	check()
	for range 10 {
		put(&Cancel{ID: "x"})
	}
	check()
	want = l.Last() + 1
	put(part(0, 5), part(1, 5), part(2, 5), part(3, 5), part(4, 5)) // over several segments
	check()
	put(&Cancel{ID: "x"}, part(0, 3), part(1, 3)) // not complete
	check()
	for range 10 {
		put(&Cancel{ID: "x"})
	}
	check()
	want = l.Last() + 1
	put(part(0, 1))
	check()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := Retain(dir, 1, want)
	if err != nil || n != 0 {
		t.Fatalf("removed %d segments that are not old enough, %v", n, err)
	}
	if n, err = Retain(dir, 2, want); err != nil || n == 0 {
		t.Fatalf("removed %d segments, %v", n, err)
	}
	check()
	goesOn(t, dir, id, want)
}

// TestLockIsHeldByOneAndSaysByWhom: two locks of one process are two holders to flock, too.
func TestLockIsHeldByOneAndSaysByWhom(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "journal")
	first, err := TryLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = TryLock(dir)
	var held *HeldError
	if !errors.As(err, &held) || !errors.Is(err, ErrHeld) || held.PID != os.Getpid() || held.Since.IsZero() {
		t.Fatalf("got %v", err)
	}
	writeFile(t, dir+".lock", []byte(`{"pid":1073741824}`)) // of one that is gone: the holder has not said yet that it is one
	if _, err = TryLock(dir); !errors.As(err, &held) || held.PID != 1<<30 {
		t.Fatalf("got %v", err)
	}
	if !alive(os.Getpid()) || alive(0) || alive(1<<30) {
		t.Error("who is alive is not known")
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := TryLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + ".lock"); err != nil {
		t.Errorf("the lock file was removed: %v", err)
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		want := Event{
			Index: rapid.Uint64Range(1, mostIndex).Draw(t, "index"), Time: rapid.Int64().Draw(t, "time"), Kind: KindAdd,
			Body: &Add{By: ByTool, ID: rapid.String().Draw(t, "reminder"), Message: rapid.String().Draw(t, "message"),
				CreatedAt: rapid.Int64().Draw(t, "created"), FireAt: rapid.Int64().Draw(t, "fire"), EveryMs: rapid.Int64().Draw(t, "every"),
				Fixed: rapid.Bool().Draw(t, "fixed")},
		}
		record, err := appendRecord(nil, id, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseRecord(record, id)
		if err != nil {
			t.Fatal(err)
		}
		decode(&got)
		a, b := *got.Body.(*Add), *want.Body.(*Add)
		a.Extra, b.Extra = nil, nil
		if got.Index != want.Index || got.Time != want.Time || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("got %+v, want %+v", a, b)
		}
		other := id
		other[0]++
		if _, err := parseRecord(record, other); err == nil {
			t.Fatal("the record passed in another journal")
		}
	})
}

// TestHostileBodyCostsNoMoreThanItsSize: five bytes must not make the decoder allocate gigabytes, nor nesting its stack.
func TestHostileBodyCostsNoMoreThanItsSize(t *testing.T) {
	for name, raw := range map[string][]byte{
		"an array of 4 billion": {0xdd, 0xff, 0xff, 0xff, 0xff},
		"a map of 4 billion":    {0xdf, 0xff, 0xff, 0xff, 0xff},
		"a text of 4 GB":        {0xdb, 0xff, 0xff, 0xff, 0xff},
		"bytes of 4 GB":         {0x81, 0xa2, 'x', 't', 0xc6, 0xff, 0xff, 0xff, 0xff},
		"an extension of 4 GB":  {0xc9, 0xff, 0xff, 0xff, 0xff, 0x01},
		"a million arrays":      append([]byte{0x81, 0xa2, 'z', 'z'}, bytes.Repeat([]byte{0x91}, 1<<20)...),
		"nothing":               {},
	} {
		t.Run(name, func(t *testing.T) {
			e := Event{Kind: KindAdd, Raw: raw}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			decode(&e)
			runtime.ReadMemStats(&after)
			allocated := after.TotalAlloc - before.TotalAlloc
			if e.Body != nil || allocated > uint64(4*len(raw)+64<<10) {
				t.Errorf("decoded to %v, allocating %d bytes", e.Body, allocated)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(byte(KindAdd), []byte{0x81, 0xa2, 'i', 'd', 0xa1, 'r'})
	f.Add(byte(KindSnapshot), []byte{0xc7, 0x02, 0x01})
	f.Fuzz(func(t *testing.T, kind byte, raw []byte) {
		e := Event{Kind: Kind(kind), Raw: raw}
		decode(&e)
		if e.Body != nil && e.Body.Kind() != Kind(kind) {
			t.Fatal("a body of another kind")
		}
	})
}

// BenchmarkEncode makes one event's record.
func BenchmarkEncode(b *testing.B) {
	id, e := NewID(), add(2, 1)
	var record []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if record, err = appendRecord(record[:0], id, e); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(record)))
}

func BenchmarkAppend64(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "journal")
	l, err := Create(dir, Begin{ID: NewID().String(), Major: Major}, 1, LogOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for b.Loop() {
		var batch []Event
		for i := range 64 {
			batch = append(batch, add(l.Last()+1+uint64(i), i))
		}
		if err := l.Append(batch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "journal")
	l, err := Create(dir, Begin{ID: NewID().String(), Major: Major}, 1, LogOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var batch []Event
	for i := range 20_000 {
		batch = append(batch, add(uint64(i+2), i))
	}
	if err := errors.Join(l.Append(batch), l.Close()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := NewScanner(dir)
		if err != nil {
			b.Fatal(err)
		}
		for s.Next() {
		}
	}
}

// TestAddIsOneFlatMapOnDisk: its details have stood beside the rest since they were first written.
func TestAddIsOneFlatMapOnDisk(t *testing.T) {
	want := &Add{ID: "r", Message: "m", FireAt: 7, Details: Details{
		Title: "t", Severity: "high", URL: "u", Cron: "c", Zone: "z", Until: 8, Left: 9, Extra: json.RawMessage(`{}`),
	}}
	raw, err := appendBody(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	var flat map[string]any
	if err := msgpack.Unmarshal(raw, &flat); err != nil {
		t.Fatal(err)
	}
	keys := slices.Sorted(maps.Keys(flat))
	if got := strings.Join(keys, " "); got != "by ca cr fa id lf ms sv ti tz un ur xt" {
		t.Errorf("got the keys %s", got)
	}
}
