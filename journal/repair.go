package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// mostHoles bounds how many lost indices a rewrite marks: more is not a damaged journal but a foreign one.
const mostHoles = 1 << 20

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// tailBytes are the bytes that cutting a damaged tail takes away: from the damage on, and every later segment.
func tailBytes(dir string, d Damage) ([]byte, []string, error) {
	firsts, _, err := segments(dir)
	if err != nil {
		return nil, nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, d.Segment))
	if err != nil {
		return nil, nil, err
	}
	if d.Offset > int64(len(data)) {
		return nil, nil, fmt.Errorf("%s ends before byte %d", d.Segment, d.Offset)
	}
	data = data[d.Offset:]
	var later []string
	for _, first := range firsts {
		if name := nameOf(first); name > d.Segment {
			more, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return nil, nil, err
			}
			data, later = append(data, more...), append(later, name)
		}
	}
	return data, later, nil
}

// TailRecords is how many records a damaged tail seems to hold: 1 where it begins like a record that a crash tore, 0
// where it does not (zero bytes), and 0 where it cannot be read.
func TailRecords(dir string, d Damage) uint64 {
	data, _, err := tailBytes(dir, d)
	if err != nil || len(data) == 0 {
		return 0
	}
	length, n := binary.Uvarint(data)
	if n <= 0 || length < headerSize || length > headerSize+MaxBody || len(data) > n && data[n] != recordMagic {
		return 0
	}
	return 1
}

// HashTail names the copy that [CutTail] makes, as [HashBytes] does.
func HashTail(dir string, d Damage) (string, error) {
	data, _, err := tailBytes(dir, d)
	return HashBytes(data), err
}

// CutTail sets a damaged tail aside as the file copyPath and then, once that is durable, cuts it off the journal. Every
// whole record before it stays (SPEC 3.5).
func CutTail(dir string, d Damage, copyPath string) error {
	if !d.Tail {
		return errors.New("only a damaged tail can be cut off")
	}
	data, later, err := tailBytes(dir, d)
	if err != nil {
		return err
	}
	if err := writeFileSynced(copyPath, data); err != nil {
		return fmt.Errorf("set the damaged tail aside: %w", err)
	}
	for i := len(later) - 1; i >= 0; i-- {
		if err := os.Remove(filepath.Join(dir, later[i])); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, d.Segment)
	if d.Offset == 0 { // no record is in it, and its name may be wrong, too
		return errors.Join(os.Remove(path), SyncDir(dir))
	}
	if err := os.Truncate(path, d.Offset); err != nil {
		return err
	}
	return errors.Join(syncPath(path), SyncDir(dir))
}

// Rewrite makes a new generation of a damaged journal, read with [NewScannerWithID], in newDir: every whole record goes on at its own index, a [Hole]
// stands for each that is lost, and begin takes the place of the first record. It returns the last index and how many
// records are lost.
func Rewrite(dir string, hint ID, newDir string, begin Begin, now int64, o LogOptions) (last, lost uint64, err error) {
	id, err := ParseID(begin.ID)
	if err != nil {
		return 0, 0, err
	}
	s, err := NewScannerWithID(dir, hint)
	if err != nil {
		return 0, 0, err
	}
	w := rewriter{id: id, format: Major, now: now, dir: newDir, begin: begin, o: o, next: 1}
	if m, _, ok := readMeta(dir); ok {
		w.format = m.Format
	}
	if len(s.firsts) > 0 {
		w.next = s.firsts[0] // behind 1 where retention let it begin
	}
	for s.Next() {
		if err := w.take(s.Event()); err != nil {
			return 0, 0, errors.Join(err, w.close())
		}
	}
	if err := errors.Join(s.Err(), w.flush(), w.close()); err != nil {
		return 0, 0, err
	}
	if w.log == nil {
		l, err := Create(newDir, begin, now, o)
		if err != nil {
			return 0, 0, err
		}
		return 1, w.lost, l.Close()
	}
	return w.log.Last(), w.lost, nil
}

// rewriter carries records over, in batches.
type rewriter struct {
	id      ID
	format  int // of the journal that is read
	now     int64
	dir     string
	begin   Begin
	o       LogOptions
	log     *Log
	next    uint64
	lost    uint64
	pending []Event
	bytes   int
}

func (w *rewriter) take(e Event) error {
	if e.Index-w.next > mostHoles {
		return fmt.Errorf("%d records are missing before record %d: too many to be one journal", e.Index-w.next, e.Index)
	}
	for ; w.next < e.Index; w.next++ {
		w.lost++
		if err := w.put(Event{Index: w.next, Time: w.now, Kind: KindHole, Body: &Hole{Why: "the record was damaged"}}); err != nil {
			return err
		}
	}
	w.next++
	return w.put(e)
}

func (w *rewriter) put(e Event) error {
	if e.Index == 1 {
		e = Event{Index: 1, Time: e.Time, Kind: KindBegin, Body: &w.begin}
	}
	if w.log == nil {
		var err error
		w.log, err = createAt(w.dir, w.id, w.format, e, w.o)
		return err
	}
	w.pending = append(w.pending, e)
	w.bytes += len(e.Raw) + headerSize
	if w.bytes < 1<<20 {
		return nil
	}
	return w.flush()
}

func (w *rewriter) flush() error {
	if w.log == nil || len(w.pending) == 0 {
		return nil
	}
	err := w.log.Append(w.pending)
	w.pending, w.bytes = w.pending[:0], 0
	return err
}

func (w *rewriter) close() error {
	if w.log == nil {
		return nil
	}
	return w.log.Close()
}

// Retain removes whole segments, oldest first, all of whose records are older than before (Unix milliseconds) and stand
// before the snapshot at that index (SPEC 9.4). The newest segment always stays.
func Retain(dir string, before int64, snapshot uint64) (removed int, err error) {
	firsts, _, err := segments(dir)
	if err != nil {
		return 0, err
	}
	for i := 0; i+1 < len(firsts) && firsts[i+1] <= snapshot; i++ {
		old, err := allBefore(dir, firsts[i], before)
		if err != nil || !old {
			return removed, errors.Join(err, syncIf(dir, removed > 0))
		}
		if err := os.Remove(filepath.Join(dir, nameOf(firsts[i]))); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, syncIf(dir, removed > 0)
}

func syncIf(dir string, changed bool) error {
	if !changed {
		return nil
	}
	return SyncDir(dir)
}

// HasOld says whether the journal's first segment, and not its newest, holds only records older than before (Unix
// milliseconds).
func HasOld(dir string, before int64) (bool, error) {
	firsts, _, err := segments(dir)
	if err != nil || len(firsts) < 2 {
		return false, err
	}
	return allBefore(dir, firsts[0], before)
}

// allBefore says whether every record of a segment is older than before.
func allBefore(dir string, first uint64, before int64) (bool, error) {
	s, err := NewScanner(dir)
	if err != nil {
		return false, err
	}
	for i, f := range s.firsts {
		if f == first {
			s.firsts = s.firsts[i : i+1]
			break
		}
	}
	for s.Next() {
		if s.Event().Time >= before {
			return false, nil
		}
	}
	return true, s.Err()
}
