package recovery

import (
	"os"
	"sync/atomic"
	"time"
)

const (
	piece      = 256 << 10 // bytes of a view that are given to the disk at once: no append waits for more of it
	mostCached = 4 << 20   // and how many may be in the disk's own cache, for which an append waits, too

	// While events are appended, a piece is followed by a rest of so many times what it took: few within a length that can
	// be written in 100 ms (some 20,000 reminders), so that views stay 200 ms behind at most (SPEC 2.3); many beyond it, so
	// that changes stay as quick as without reminders.
	shortRest = 3
	longRest  = 15
	longFrom  = 4 << 20                // bytes
	mostRest  = 100 * time.Millisecond // of one: a process that stood still for an hour does not rest for more
)

// pacedFile writes a long file piece by piece and gives way to appends: an fsync of the journal waits for what the disk was given
// before it, and on some filesystems (ext4) for the data of other files.
type pacedFile struct {
	*os.File
	appends *atomic.Uint64 // counts them

	size   int64     // written
	synced int64     // given to the disk
	safe   int64     // on disk
	seen   uint64    // appends when this piece began
	since  time.Time // when this piece began
}

func newPacedFile(f *os.File, appends *atomic.Uint64) *pacedFile {
	return &pacedFile{File: f, appends: appends, seen: appends.Load(), since: time.Now()}
}

// Write implements [io.Writer].
func (p *pacedFile) Write(data []byte) (int, error) {
	n, err := p.File.Write(data)
	p.size += int64(n)
	if err != nil || p.size-p.synced < piece {
		return n, err
	}
	if err := p.sync(); err != nil {
		return n, err
	}
	if p.appends.Load() != p.seen {
		time.Sleep(p.rest())
	}
	p.synced, p.seen, p.since = p.size, p.appends.Load(), time.Now()
	return n, nil
}

func (p *pacedFile) sync() error {
	if p.size-p.safe < mostCached {
		return syncRange(p.File, p.synced, p.size-p.synced)
	}
	p.safe = p.size
	return p.Sync()
}

func (p *pacedFile) rest() time.Duration {
	times := time.Duration(shortRest)
	if p.size > longFrom {
		times = longRest
	}
	return min(times*time.Since(p.since), mostRest)
}
