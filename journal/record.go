package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// One record is one event. It is the payload of one entry of the log, which puts its length before it:
//
//	 uvarint   1      4        8        8      1
//	+--------+------+--------+--------+------+------+---------------------+
//	| length | 0xB7 | CRC-32C| index  | time | kind | body (msgpack map)  |
//	+--------+------+--------+--------+------+------+---------------------+
//	                         |<----- covered by the CRC ----------------->|
//
// Integers are little-endian; time is in Unix milliseconds. The CRC is seeded with the journal's identity, so that records of
// another journal or of an older generation do not pass as ours. Only a Begin record is not seeded: it holds the identity.
const (
	recordMagic  = 0xB7
	headerSize   = 1 + 4 + 8 + 8 + 1
	offsetIndex  = 5
	offsetTime   = 13
	offsetKind   = 21
	mostBodySize = 4 << 20
)

// MaxBody is the largest body of a record, in bytes.
const MaxBody = mostBodySize

// The format's version: a higher Major is not opened, a higher Minor is read with what this version does not know carried
// through (SPEC 9.2). A journal begins with FirstMajor, in its Begin record and its meta file. The first event that an older
// version would get wrong raises the meta file's, before it is written: so a journal without such events stays readable by
// older versions, and one with them is refused by these before they write anything.
const (
	Major      = 2 // the highest that this version reads
	FirstMajor = 1
	Minor      = 0
)

// majorOf is the format that a reader of the body must know.
func majorOf(b Body) int {
	switch b := b.(type) {
	case *Begin:
		return max(FirstMajor, b.Major)
	case *Add:
		return b.Details.Needs()
	case *Snapshot:
		return max(FirstMajor, b.Needs)
	}
	return FirstMajor
}

// Needs is the major version that a reader of the details must know: 2 for a reminder that repeats on the calendar, which the
// first takes for one that comes once.
func (d *Details) Needs() int {
	if d.Repeats != "" {
		return 2
	}
	return FirstMajor
}

// ID is a journal's identity.
type ID [16]byte

// NewID is a fresh random identity.
func NewID() ID {
	var id ID
	if _, err := rand.Read(id[:]); err != nil {
		panic(err) // crypto/rand never fails on the systems that Go supports
	}
	return id
}

// ParseID reads what [ID.String] wrote.
func ParseID(text string) (ID, error) {
	var id ID
	if hex.DecodedLen(len(text)) != len(id) {
		return ID{}, fmt.Errorf("journal id %q: not 32 hexadecimal digits", text)
	}
	if _, err := hex.Decode(id[:], []byte(text)); err != nil {
		return ID{}, fmt.Errorf("journal id %q: %w", text, err)
	}
	return id, nil
}

// String is the identity as 32 lower-case hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

func checksum(id ID, kind Kind, covered []byte) uint32 {
	castagnoli := crc32.MakeTable(crc32.Castagnoli) // made once, by the first who asks: not before a host has its first answer
	var seed uint32
	if kind != KindBegin {
		seed = crc32.Checksum(id[:], castagnoli)
	}
	return crc32.Update(seed, castagnoli, covered)
}

// bodyEncoder encodes bodies, one after the other.
type bodyEncoder struct {
	enc *msgpack.Encoder
	buf bytes.Buffer
}

var bodyEncoders = sync.Pool{New: func() any { return &bodyEncoder{enc: msgpack.NewEncoder(nil)} }}

// appendBody adds a body as it is stored.
func appendBody(dst []byte, b Body) ([]byte, error) {
	e := bodyEncoders.Get().(*bodyEncoder)
	defer bodyEncoders.Put(e)
	e.buf.Reset()
	e.enc.Reset(&e.buf)
	e.enc.UseCompactInts(true) // Reset turns it off
	if err := e.enc.Encode(b); err != nil {
		return dst, fmt.Errorf("encode a %s event: %w", b.Kind(), err)
	}
	return append(dst, e.buf.Bytes()...), nil
}

// appendRecord adds the event's record, without the length before it.
func appendRecord(dst []byte, id ID, e Event) ([]byte, error) {
	start := len(dst)
	dst = append(dst, recordMagic, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, e.Index)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Time))
	dst = append(dst, byte(e.Kind))
	if e.Raw != nil {
		dst = append(dst, e.Raw...)
	} else {
		var err error
		if dst, err = appendBody(dst, e.Body); err != nil {
			return dst, err
		}
	}
	if body := len(dst) - start - headerSize; body > MaxBody {
		return dst, fmt.Errorf("a %s event of %d bytes is too large: at most %d", e.Kind, body, MaxBody)
	}
	binary.LittleEndian.PutUint32(dst[start+1:], checksum(id, e.Kind, dst[start+offsetIndex:]))
	return dst, nil
}

// errDamaged are the ways in which bytes are no record.
var (
	errShort    = errors.New("shorter than a record's header")
	errMagic    = errors.New("no record begins here")
	errChecksum = errors.New("the checksum does not match")
)

// mostIndex is more than any journal reaches: at a million events a second it takes nine years.
const mostIndex = 1 << 48

// parseRecord reads a record. The event's Raw shares memory with data.
func parseRecord(data []byte, id ID) (Event, error) {
	if len(data) < headerSize {
		return Event{}, errShort
	}
	if data[0] != recordMagic {
		return Event{}, errMagic
	}
	kind := Kind(data[offsetKind])
	if index := binary.LittleEndian.Uint64(data[offsetIndex:]); index == 0 || index > mostIndex {
		return Event{}, errChecksum // of garbage, which may seem to hold a long record at each of its bytes
	}
	if binary.LittleEndian.Uint32(data[1:]) != checksum(id, kind, data[offsetIndex:]) {
		return Event{}, errChecksum
	}
	return Event{
		Index: binary.LittleEndian.Uint64(data[offsetIndex:]),
		Time:  int64(binary.LittleEndian.Uint64(data[offsetTime:])),
		Kind:  kind,
		Raw:   data[headerSize:],
	}, nil
}

// decode fills in the event's Body from its Raw. A kind that this version does not know, or a body that does not read as
// its kind, leaves Body nil: the bytes were written on purpose, since their CRC holds (SPEC 9.2).
func decode(e *Event) {
	if b := newBody(e.Kind); b != nil && decodeBody(e.Raw, b) {
		e.Body = b
	}
}

// decodeBody reads raw into b, a pointer to what has the fields that are wanted.
func decodeBody(raw []byte, b any) bool {
	if !flat(raw) {
		return false
	}
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(bytes.NewReader(raw))
	return dec.Decode(b) == nil
}

// mostDepth bounds the nesting of a body: the decoder recurses on what it skips, too.
const mostDepth = 16

// flat says whether raw is one well-formed msgpack value, nested no deeper than mostDepth, none of whose lengths goes
// beyond it: what the decoder allocates then is bounded by what is there.
func flat(raw []byte) bool {
	rest, ok := skipValue(raw, mostDepth)
	return ok && len(rest) == 0
}

func skipValue(p []byte, depth int) ([]byte, bool) {
	if len(p) == 0 || depth == 0 {
		return nil, false
	}
	c := p[0]
	p = p[1:]
	switch {
	case c <= 0x7f, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3: // fixint, nil, bool
		return p, true
	case c <= 0x8f:
		return skipValues(p, 2*int(c&0x0f), depth)
	case c <= 0x9f:
		return skipValues(p, int(c&0x0f), depth)
	case c <= 0xbf:
		return skipBytes(p, int(c&0x1f))
	}
	switch c {
	case 0xc4, 0xd9: // bin 8, str 8
		return skipSized(p, 1, 0)
	case 0xc5, 0xda:
		return skipSized(p, 2, 0)
	case 0xc6, 0xdb:
		return skipSized(p, 4, 0)
	case 0xc7: // ext 8
		return skipSized(p, 1, 1)
	case 0xc8:
		return skipSized(p, 2, 1)
	case 0xc9:
		return skipSized(p, 4, 1)
	case 0xcc, 0xd0: // 8-bit integers
		return skipBytes(p, 1)
	case 0xcd, 0xd1:
		return skipBytes(p, 2)
	case 0xca, 0xce, 0xd2:
		return skipBytes(p, 4)
	case 0xcb, 0xcf, 0xd3:
		return skipBytes(p, 8)
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8: // fixext 1 to 16
		return skipBytes(p, 1+1<<(c-0xd4))
	case 0xdc, 0xdd, 0xde, 0xdf: // array 16, array 32, map 16, map 32
		n, p, ok := size(p, 2<<(c&1))
		if c >= 0xde {
			n *= 2
		}
		if !ok {
			return nil, false
		}
		return skipValues(p, n, depth)
	}
	return nil, false
}

func skipValues(p []byte, n, depth int) ([]byte, bool) {
	if n > len(p) {
		return nil, false
	}
	for range n {
		var ok bool
		if p, ok = skipValue(p, depth-1); !ok {
			return nil, false
		}
	}
	return p, true
}

func skipSized(p []byte, width, more int) ([]byte, bool) {
	n, p, ok := size(p, width)
	if !ok {
		return nil, false
	}
	return skipBytes(p, n+more)
}

func skipBytes(p []byte, n int) ([]byte, bool) {
	if n > len(p) {
		return nil, false
	}
	return p[n:], true
}

func size(p []byte, width int) (int, []byte, bool) {
	if len(p) < width {
		return 0, nil, false
	}
	n := 0
	for _, b := range p[:width] {
		n = n<<8 | int(b)
	}
	return n, p[width:], true
}
