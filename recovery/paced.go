package recovery

import (
	"os"
	"sync/atomic"
	"time"
)

const (
	piece = 256 << 10 // bytes of a view that are brought to disk at once: no append waits for more of it
	rests = 7         // a piece is followed by a rest of so many times what it took, while events are appended
)

// pacedFile writes a long file piece by piece and gives way to appends. Where a filesystem brings other files' data to disk
// before an fsync of the journal returns (ext4), an append would otherwise wait for the whole of it.
type pacedFile struct {
	*os.File
	appends *atomic.Uint64 // counts them

	size   int64     // written
	synced int64     // on disk
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
	if err := syncRange(p.File, p.synced, p.size-p.synced); err != nil {
		return n, err
	}
	if p.appends.Load() != p.seen {
		time.Sleep(rests * time.Since(p.since))
	}
	p.synced, p.seen, p.since = p.size, p.appends.Load(), time.Now()
	return n, nil
}
