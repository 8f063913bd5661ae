package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/tidwall/wal"
)

const (
	defaultSegmentSize = 1 << 20   // the newest segment lives in memory
	reserveSize        = 256 << 10 // given up when the disk is full, so that acks and cancels can still be saved
	reserveEvery       = 256       // appends between two attempts to have it again
)

// LogOptions are what a [Log] needs to know.
type LogOptions struct {
	SegmentSize int // bytes; 0: 1 MiB
	Log         *slog.Logger

	open func(dir string, segmentSize int) (writer, error) // tests put faults here
}

// writer is the part of tidwall/wal that is used: it only ever appends (see the package comment).
type writer interface {
	WriteBatch(*wal.Batch) error
	LastIndex() (uint64, error)
	Close() error
}

func openWAL(dir string, segmentSize int) (writer, error) {
	// A fresh Options each time: the library writes into it.
	return wal.Open(dir, &wal.Options{SegmentSize: segmentSize, SegmentCacheSize: 1, DirPerms: 0o700, FilePerms: 0o600})
}

// Log appends events to a journal. It is owned by one goroutine of the process that holds the [Lock].
type Log struct {
	dir    string
	id     ID
	format int // what the meta file says
	o      LogOptions

	w       writer      // nil: the last append failed; the next one repairs first
	last    uint64      // index of the last acknowledged record
	tail    uint64      // first index of the segment that is written to
	size    int64       // acknowledged bytes in it
	file    os.FileInfo // which file that is
	attempt []byte      // the frames of the append that failed last
	batch   wal.Batch   // of the append at work
	appends int
}

// Create makes a new journal in dir, private to the user, whose first record is begin.
func Create(dir string, begin Begin, now int64, o LogOptions) (*Log, error) {
	id, err := ParseID(begin.ID)
	if err != nil {
		return nil, err
	}
	return createAt(dir, id, FirstMajor, Event{Index: 1, Time: now, Kind: KindBegin, Body: &begin}, o)
}

// createAt makes a new journal of that format whose first record is the event, at whatever index. That record is written here: the log
// library does not open a folder whose only segment is empty and begins behind 1.
func createAt(dir string, id ID, format int, first Event, o LogOptions) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	have, _, err := segments(dir)
	if err != nil {
		return nil, err
	}
	if len(have) > 0 {
		return nil, &Error{Op: "create", Path: dir, Err: errors.New("there are segments of a journal in it already")}
	}
	record, err := appendRecord(nil, id, first)
	if err != nil {
		return nil, err
	}
	entry := append(binary.AppendUvarint(nil, uint64(len(record))), record...)
	format = max(format, majorOf(first.Body))
	if err := writeMeta(dir, id, format); err != nil {
		return nil, err
	}
	if err := writeFileSynced(filepath.Join(dir, nameOf(first.Index)), entry); err != nil {
		return nil, err
	}
	if err := SyncDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	return newLog(dir, id, format, first.Index, first.Index, int64(len(entry)), o)
}

// OpenLog opens a journal that a scan found whole, for appending; last is the index of its last record.
func OpenLog(dir string, id ID, last uint64, o LogOptions) (*Log, error) {
	firsts, stray, err := segments(dir)
	if err != nil {
		return nil, err
	}
	if len(stray) > 0 {
		return nil, &Error{Op: "open", Path: filepath.Join(dir, stray[0]), Hint: "move it away", Err: errors.New("the log library would delete segments because of it")}
	}
	if len(firsts) == 0 {
		return nil, &Error{Op: "open", Path: dir, Err: ErrNoJournal}
	}
	m, have, ok := readMeta(dir)
	if !ok || have != id {
		m.Format = Major // nobody knows any more what its events need
		if err := writeMeta(dir, id, m.Format); err != nil {
			return nil, err
		}
	}
	tail := firsts[len(firsts)-1]
	info, err := os.Stat(filepath.Join(dir, nameOf(tail)))
	if err != nil {
		return nil, err
	}
	return newLog(dir, id, m.Format, last, tail, info.Size(), o)
}

func newLog(dir string, id ID, format int, last, tail uint64, size int64, o LogOptions) (*Log, error) {
	if o.SegmentSize <= 0 {
		o.SegmentSize = defaultSegmentSize
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.open == nil {
		o.open = openWAL
	}
	l := &Log{dir: dir, id: id, format: format, o: o, last: last, tail: tail, size: size}
	if err := l.open(); err != nil {
		return nil, err
	}
	l.makeReserve()
	return l, nil
}

// open hands the folder to the library and holds what it found against what is known.
func (l *Log) open() error {
	w, err := l.o.open(l.dir, l.o.SegmentSize)
	if err != nil {
		return &Error{Op: "open", Path: l.dir, Err: err}
	}
	last, err := w.LastIndex()
	if err == nil && last != l.last {
		err = fmt.Errorf("it ends at record %d, not at %d", last, l.last)
	}
	if err != nil {
		_ = w.Close() // nothing was written through it
		return &Error{Op: "open", Path: l.dir, Err: err}
	}
	l.w = w
	return nil
}

// ID is the journal's identity.
func (l *Log) ID() ID { return l.id }

// Last is the index of the last record that is on disk.
func (l *Log) Last() uint64 { return l.last }

// Append writes the events, whose indices continue [Log.Last], as one batch with one fsync. After an error nothing of it
// counts and nothing that was there before is harmed; the next Append repairs what the failed one left behind, and then
// writes (SPEC 3.7). An event's Raw is written where it is set, its Body otherwise.
func (l *Log) Append(events []Event) error {
	if len(events) == 0 {
		return nil
	}
	err := l.append(events)
	if isFull(err) && l.giveReserve() {
		err = l.append(events)
	}
	if err != nil {
		return &Error{Op: "append to", Path: l.dir, Err: err}
	}
	if l.appends++; l.appends%reserveEvery == 0 {
		l.makeReserve()
	}
	return nil
}

func (l *Log) append(events []Event) error {
	if l.w == nil {
		if err := l.repair(); err != nil {
			return err
		}
	}
	if err := l.unchanged(); err != nil {
		l.drop()
		return err
	}
	tail, size, err := l.encode(events)
	if err == nil {
		err = l.raise(events)
	}
	if err != nil {
		return err
	}
	if err = l.w.WriteBatch(&l.batch); err == nil && tail != l.tail {
		err = SyncDir(l.dir) // the library does not make a new segment's name durable
	}
	var file os.FileInfo
	if err == nil {
		file, err = l.inPlace(tail, size)
	}
	if err != nil {
		l.drop()
		_ = l.cutBack() // what stands in its way is said by the next append
		return err
	}
	l.last, l.tail, l.size, l.file = events[len(events)-1].Index, tail, size, file
	if l.attempt = l.attempt[:0]; cap(l.attempt) > mostKeptBuffer {
		l.attempt, l.batch = nil, wal.Batch{}
	}
	return nil
}

// raise has the meta file say which format the events need, before they are there.
func (l *Log) raise(events []Event) error {
	format := l.format
	for _, e := range events {
		format = max(format, majorOf(e.Body))
	}
	if format == l.format {
		return nil
	}
	if err := writeMeta(l.dir, l.id, format); err != nil {
		return err
	}
	l.format = format
	return nil
}

// mostKeptBuffer is how much memory for frames, and as much for the batch, is kept from one append to the next.
const mostKeptBuffer = 1 << 20

// encode makes the batch of the events, and foretells the segment and its size after them: the library begins a new segment behind
// the record that fills one.
func (l *Log) encode(events []Event) (tail uint64, size int64, err error) {
	l.batch.Clear()
	tail, size = l.tail, l.size
	if size > int64(l.o.SegmentSize) { // filled under a larger limit: the library begins a new one before it writes
		tail, size = l.last+1, 0
	}
	var record []byte
	l.attempt = l.attempt[:0]
	for i, e := range events {
		if want := l.last + 1 + uint64(i); e.Index != want {
			return 0, 0, fmt.Errorf("event %d in place of %d", e.Index, want)
		}
		if record, err = appendRecord(record[:0], l.id, e); err != nil {
			return 0, 0, err
		}
		l.batch.Write(e.Index, record)
		before := len(l.attempt)
		l.attempt = append(binary.AppendUvarint(l.attempt, uint64(len(record))), record...)
		size += int64(len(l.attempt) - before)
		if size >= int64(l.o.SegmentSize) {
			tail, size = e.Index+1, 0
		}
	}
	return tail, size, nil
}

// unchanged makes sure that the segment that is written to is as it was left.
func (l *Log) unchanged() error {
	file, err := l.inPlace(l.tail, l.size)
	if err == nil && l.file != nil && !os.SameFile(file, l.file) {
		err = errors.New("its newest segment was replaced while the server ran")
	}
	if err == nil {
		l.file = file
	}
	return err
}

// inPlace makes sure that a segment is in the folder, and not in a file that somebody removed or replaced.
func (l *Log) inPlace(segment uint64, size int64) (os.FileInfo, error) {
	info, err := os.Stat(filepath.Join(l.dir, nameOf(segment)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("its newest segment was removed while the server ran: %w", err)
	}
	if err == nil && info.Size() != size {
		err = fmt.Errorf("its newest segment has %d bytes in place of %d: another program writes to it", info.Size(), size)
	}
	return info, err
}

// drop gives up the library's handle after an error: it may hold half a record in memory, on disk, or both.
func (l *Log) drop() {
	if l.w != nil {
		_ = l.w.Close() // its file is cut back and opened anew before anything else is written
		l.w = nil
	}
}

// repair cuts the journal back to the last acknowledged record and opens it anew.
func (l *Log) repair() error {
	if err := l.cutBack(); err != nil {
		return err
	}
	return l.open()
}

// cutBack takes away what a failed append left behind the last acknowledged record: bytes that it wrote, and no others.
func (l *Log) cutBack() error {
	path := filepath.Join(l.dir, nameOf(l.tail))
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	switch {
	case l.file != nil && !os.SameFile(info, l.file):
		return fmt.Errorf("%s was replaced while the server ran: it is left as it is", filepath.Base(path))
	case info.Size() < l.size:
		return fmt.Errorf("%s lost acknowledged bytes: it has %d of %d", filepath.Base(path), info.Size(), l.size)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(l.attempt, data[l.size:]) {
		return fmt.Errorf("%s holds what another program wrote behind byte %d: it is left as it is", filepath.Base(path), l.size)
	}
	if err := l.cutSegments(); err != nil {
		return err
	}
	if int64(len(data)) == l.size {
		return nil
	}
	return errors.Join(os.Truncate(path, l.size), syncPath(path), SyncDir(l.dir))
}

// cutSegments removes the segments that a failed append began.
func (l *Log) cutSegments() error {
	firsts, _, err := segments(l.dir)
	if err != nil {
		return err
	}
	for _, first := range firsts {
		if first <= l.tail {
			continue
		}
		path := filepath.Join(l.dir, nameOf(first))
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Contains(l.attempt, data) {
			return fmt.Errorf("%s is a segment that another program began: it is left as it is", nameOf(first))
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// makeReserve puts some space aside while there is some.
func (l *Log) makeReserve() {
	path := filepath.Join(l.dir, reserveName)
	if info, err := os.Stat(path); err == nil && info.Size() == reserveSize {
		return
	}
	if err := os.WriteFile(path, make([]byte, reserveSize), 0o600); err != nil {
		_ = removeIfThere(path) // no space to put aside; the next attempt comes by itself
	}
}

// giveReserve frees that space; false when there is none.
func (l *Log) giveReserve() bool {
	return os.Remove(filepath.Join(l.dir, reserveName)) == nil
}

// Close makes everything durable and gives the files up.
func (l *Log) Close() error {
	if l.w == nil {
		return nil
	}
	err := l.w.Close()
	l.w = nil
	if err != nil {
		return &Error{Op: "close", Path: l.dir, Err: err}
	}
	return nil
}
