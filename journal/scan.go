package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// mostSegmentSize is how large a segment file may be to be read: no writer of ours makes one larger than its size limit
// and one record.
const mostSegmentSize = 64 << 20

// Damage is one fault that a scan found.
type Damage struct {
	Segment string `json:"segment"` // file name in the journal's folder
	Offset  int64  `json:"offset"`  // where the bytes that cannot be used begin
	Length  int64  `json:"length"`  // how many
	First   uint64 `json:"first"`   // the first index that is lost; 0: none is
	Last    uint64 `json:"last"`    // the last one; 0: nobody knows how many there were, it is the journal's end
	Tail    bool   `json:"tail"`    // nothing whole follows: a crash while appending, or zero bytes
	Why     string `json:"why"`
}

// Text says what the damage is, where, and what it costs.
func (d Damage) Text() string {
	text := fmt.Sprintf("%s at byte %d (%d bytes)", d.Why, d.Offset, d.Length)
	switch {
	case d.First == 0:
	case d.Last == 0:
		text += fmt.Sprintf(": what follows record %d is lost", d.First-1)
	case d.First == d.Last:
		text += fmt.Sprintf(": record %d is lost", d.First)
	default:
		text += fmt.Sprintf(": records %d to %d are lost", d.First, d.Last)
	}
	return text
}

// Scanner reads a journal's records in order, strictly read-only, one segment in memory at a time, also beside a running
// writer. It goes on behind damage: the next record is the next place where magic, index and CRC hold.
type Scanner struct {
	dir    string
	id     ID
	begin  *Begin // the journal's first record; nil where that cannot be read or is gone
	firsts []uint64
	next   int // in firsts: the segment to read next

	data    []byte // of the segment being read
	segment string
	at      int // where the next record should begin in data

	skip   uint64 // records before it are not given out
	last   uint64 // index of the last whole record
	begun  bool   // last is meaningful
	bad    *Damage
	event  Event
	pos    int64
	size   int64
	damage []Damage
	err    error
}

// NewScanner opens the journal in dir for reading. It fails when the folder cannot be listed ([ErrNoJournal] when it is
// not there), when there are records but nothing says whose they are, and when a newer major version wrote them.
func NewScanner(dir string) (*Scanner, error) { return NewScannerWithID(dir, ID{}) }

// NewScannerWithID is [NewScanner] with an identity to try where the journal itself has lost it.
func NewScannerWithID(dir string, hint ID) (*Scanner, error) {
	firsts, stray, err := segments(dir)
	if err != nil {
		return nil, err
	}
	s := &Scanner{dir: dir, firsts: firsts}
	for _, name := range stray {
		s.damage = append(s.damage, Damage{Segment: name, Why: StrayFile})
	}
	if err := s.identify(hint); err != nil {
		return nil, err
	}
	return s, nil
}

// identify finds the identity with which the journal's records verify: the first record's, the meta file's, or the hint.
func (s *Scanner) identify(hint ID) error {
	m, metaID, hasMeta := readMeta(s.dir)
	if m.Format > Major {
		return &Error{Op: "open", Path: s.dir, Err: newerVersion(m.Format)}
	}
	if len(s.firsts) == 0 {
		s.id = metaID
		return nil
	}
	data, err := readSegment(s.dir, s.firsts[0])
	if err != nil {
		return err
	}
	candidates := []ID{hint}
	if hasMeta {
		candidates = []ID{metaID, hint}
	}
	if frame, ok := frameAt(data, 0); ok {
		e, err := parseRecord(frame.payload, ID{})
		if err == nil && e.Kind == KindBegin {
			var id ID
			if s.begin, id, err = identityOf(e); err != nil {
				return &Error{Op: "open", Path: s.dir, Err: err}
			}
			if frame.next == len(data) { // nothing else to verify with
				s.id = id
				return nil
			}
			candidates = append([]ID{id}, candidates...)
		}
	}
	for _, id := range candidates {
		if id != (ID{}) && verifiesAnything(data, id) {
			s.id = id
			return nil
		}
	}
	// No record says anything: damage for the scan to report, under whatever identity there is.
	s.id = candidates[0]
	if s.id == (ID{}) && len(data) > 0 {
		return &Error{Op: "open", Path: s.dir, Hint: "restore " + metaName + ", or move the folder away to begin a new journal",
			Err: errors.New("nothing says which journal its records belong to")}
	}
	return nil
}

func identityOf(first Event) (*Begin, ID, error) {
	decode(&first)
	b, ok := first.Body.(*Begin)
	if !ok {
		return nil, ID{}, errors.New("its first record cannot be read")
	}
	if b.Major > Major {
		return nil, ID{}, newerVersion(b.Major)
	}
	id, err := ParseID(b.ID)
	return b, id, err
}

func newerVersion(format int) error {
	return fmt.Errorf("it was written by a newer version (format %d, this one reads %d): use that version", format, Major)
}

// verifiesAnything says whether any record but an unseeded one in data belongs to id.
func verifiesAnything(data []byte, id ID) bool {
	for at := 0; at < len(data); {
		if frame, ok := frameAt(data, at); ok {
			if e, err := parseRecord(frame.payload, id); err == nil {
				if e.Kind != KindBegin {
					return true
				}
				at = frame.next
				continue
			}
		}
		at++
	}
	return false
}

func readSegment(dir string, first uint64) ([]byte, error) {
	path := filepath.Join(dir, nameOf(first))
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{Op: "read", Path: path, Err: errors.New("it is no regular file")}
	}
	if info.Size() > mostSegmentSize {
		return nil, &Error{Op: "read", Path: path, Err: fmt.Errorf("it is larger than a segment can be (%d bytes)", info.Size())}
	}
	return os.ReadFile(path)
}

// frame is one entry of the log in a segment.
type frame struct {
	payload []byte
	next    int // where the next one begins
}

func frameAt(data []byte, at int) (frame, bool) {
	length, n := binary.Uvarint(data[at:])
	if n <= 0 || length > headerSize+MaxBody || uint64(len(data)-at-n) < length {
		return frame{}, false
	}
	end := at + n + int(length)
	return frame{data[at+n : end : end], end}, true
}

// IDOf is the identity of the journal in dir.
func IDOf(dir string) (ID, error) {
	s, err := NewScanner(dir)
	if err != nil {
		return ID{}, err
	}
	return s.id, nil
}

// ID is the journal's identity.
func (s *Scanner) ID() ID { return s.id }

// Again opens the same journal once more.
func (s *Scanner) Again() (*Scanner, error) { return NewScannerWithID(s.dir, s.id) }

// Begin is the journal's first record, nil where another one is the first that can be read.
func (s *Scanner) Begin() *Begin { return s.begin }

// Seek makes the scan begin with the record at index. Call it before the first Next.
func (s *Scanner) Seek(index uint64) {
	s.skip = index
	for s.next+1 < len(s.firsts) && s.firsts[s.next+1] <= index {
		s.next++
	}
}

// Next reads the next whole record.
func (s *Scanner) Next() bool {
	if !s.advance() {
		return false
	}
	decode(&s.event)
	return true
}

// advance is Next without the event's Body.
func (s *Scanner) advance() bool {
	for s.err == nil {
		if s.at >= len(s.data) {
			if !s.open() {
				break
			}
			continue // an empty segment is one that was begun a moment before a crash
		}
		if s.read() && s.event.Index >= s.skip {
			return true
		}
	}
	s.finish()
	return false
}

// open begins the next segment.
func (s *Scanner) open() bool {
	if s.next >= len(s.firsts) {
		return false
	}
	first := s.firsts[s.next]
	if s.data, s.err = readSegment(s.dir, first); s.err != nil {
		return false
	}
	s.segment, s.at = nameOf(first), 0
	s.next++
	if want := s.last + 1; s.begun && first != want && s.bad == nil {
		s.spoil(0, func() string {
			return fmt.Sprintf("it begins with record %d by its name, where %d was expected", first, want)
		})
	}
	if !s.begun {
		s.begun, s.last = true, first-1
	}
	return true
}

// read takes the record at s.at, or moves on behind what is none. It is true when there is one.
func (s *Scanner) read() bool {
	f, ok := frameAt(s.data, s.at)
	if !ok {
		s.spoil(s.at, s.whyNoFrame)
		s.at++
		return false
	}
	e, err := parseRecord(f.payload, s.id)
	switch {
	case err != nil:
		s.spoil(s.at, func() string { return s.whyNoRecord(f, err) })
	case e.Index <= s.last:
		s.spoil(s.at, func() string { return s.whyElsewhere(e) })
	case e.Index != s.last+1 && s.bad == nil:
		s.spoil(s.at, func() string { return s.whyElsewhere(e) })
		fallthrough
	default:
		s.take(e, f)
		return true
	}
	s.at++
	return false
}

func (s *Scanner) whyNoFrame() string {
	if allZero(s.data[s.at:]) {
		return "zero bytes"
	}
	return "a torn record"
}

func (s *Scanner) whyElsewhere(e Event) string {
	return fmt.Sprintf("record %d stands where %d was expected", e.Index, s.last+1)
}

func (s *Scanner) whyNoRecord(f frame, err error) string {
	if len(f.payload) == 0 && allZero(s.data[s.at:]) {
		return "zero bytes"
	}
	return err.Error()
}

func allZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

// spoil notes that something that is no record begins at offset; what follows up to the next record belongs to it. why looks at
// all that follows, so it is asked once, not at each byte.
func (s *Scanner) spoil(offset int, why func() string) {
	if s.bad == nil {
		s.bad = &Damage{Segment: s.segment, Offset: int64(offset), First: s.last + 1, Why: why()}
	}
}

func (s *Scanner) take(e Event, f frame) {
	if b := s.bad; b != nil {
		if b.Segment == s.segment {
			b.Length = int64(s.at) - b.Offset
		}
		if b.Last = e.Index - 1; b.Last < b.First {
			b.First, b.Last = 0, 0
		}
		s.damage = append(s.damage, *b)
		s.bad = nil
	}
	s.event, s.last = e, e.Index
	s.pos, s.size = int64(s.at), int64(f.next-s.at)
	s.at = f.next
}

// finish notes damage that nothing whole follows.
func (s *Scanner) finish() {
	b := s.bad
	if b == nil || s.err != nil {
		return
	}
	s.bad = nil
	b.Tail = true
	if info, err := os.Stat(filepath.Join(s.dir, b.Segment)); err == nil {
		b.Length = info.Size() - b.Offset
	}
	s.damage = append(s.damage, *b)
}

// Event is the record that Next found. Its memory stays valid.
func (s *Scanner) Event() Event { return s.event }

// Pos is where that record's frame stands, and how many bytes it takes.
func (s *Scanner) Pos() (segment string, offset, size int64) { return s.segment, s.pos, s.size }

// Last is the index of the last whole record read so far.
func (s *Scanner) Last() uint64 { return s.last }

// Damage is what was found so far: complete once Next has returned false.
func (s *Scanner) Damage() []Damage { return s.damage }

// Err is the error that ended the scan early, nil at the journal's end. Damage is no error.
func (s *Scanner) Err() error { return s.err }
