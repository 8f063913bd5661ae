package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"heartbeat-mcpl/journal"
)

// progressAfter is how long work must take before a bar shows it.
const progressAfter = time.Second

// progress shows on stderr, on a terminal alone, how far the reading of a journal is.
type progress struct {
	what  string
	about int64 // how many records there are, about: what the last segment begins with
	start time.Time
	bar   *progressbar.ProgressBar
	quiet bool
}

func newProgress(what, dir string) *progress {
	p := &progress{what: what, start: time.Now(), quiet: !term.IsTerminal(int(os.Stderr.Fd()))}
	if starts, err := journal.Starts(dir); err == nil && len(starts) > 0 {
		p.about = int64(starts[len(starts)-1])
	}
	return p
}

// step says that the record at index was read.
func (p *progress) step(index uint64) {
	if p.quiet || index%4096 != 0 {
		return
	}
	if p.bar == nil {
		if time.Since(p.start) < progressAfter {
			return
		}
		p.bar = progressbar.NewOptions64(max(p.about, int64(index)), progressbar.OptionSetDescription(p.what),
			progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
	}
	_ = p.bar.Set64(min(int64(index), p.bar.GetMax64())) // a bar that cannot be drawn is no reason to stop
}

// done takes the bar away.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
