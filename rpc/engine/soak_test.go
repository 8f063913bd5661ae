package engine

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"heartbeat-mcpl/journal"
)

var soakDays = flag.Int("soak.days", 0, "how many simulated days TestSoakStaysFlat runs; 0 skips it")

// usage is what a process holds.
type usage struct {
	heap, disk              int64 // bytes
	goroutines, descriptors int
}

func (r *rig) usage() usage {
	r.t.Helper()
	r.log.forget()
	var u usage
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.heap, u.goroutines = int64(m.HeapAlloc), runtime.NumGoroutine()
	if open, err := os.ReadDir("/proc/self/fd"); err == nil { // elsewhere than on Linux it stays 0
		u.descriptors = len(open)
	}
	err := filepath.WalkDir(r.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				u.disk += info.Size()
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return u
}

// most is the larger of each.
func (u usage) most(o usage) usage {
	return usage{max(u.heap, o.heap), max(u.disk, o.disk), max(u.goroutines, o.goroutines), max(u.descriptors, o.descriptors)}
}

// TestSoakStaysFlat lets 60 recurring reminders fire every ten minutes, and a one-shot each ten minutes beside them, for days of
// simulated time on real files with a host that accepts. Nothing that the server holds may be more in the last quarter of the
// time than it was in the second: heap, disk, goroutines, descriptors, the most of what is seen every six hours. Each day has 8,784
// wakes, each with two events on disk.
func TestSoakStaysFlat(t *testing.T) {
	if *soakDays == 0 {
		t.Skip("a soak takes minutes: go test ./rpc/engine -run Soak -soak.days 30 -timeout 3h")
	}
	bubble(t, func(t *testing.T, r *rig) {
		r.stop()
		r.keep = 3 * time.Hour
		r.start()
		r.open()
		r.host.answerWith((*fakePush).accept1)
		for i := range 60 {
			r.add(fmt.Sprintf(`{"message":"Look at the build %d","inSeconds":%d,"everyMinutes":10}`, i, 10*i+1))
		}
		tens := *soakDays * 24 * 6
		wakes := 0
		var quarters [4]usage
		for n := range tens {
			r.add(`{"message":"Once","inSeconds":30}`)
			r.pass(10 * time.Minute)
			for _, p := range r.host.pushes() {
				if p.params.Origin.ReminderID != "" {
					wakes++
				}
			}
			if (n+1)%36 == 0 {
				quarter := &quarters[4*n/tens]
				*quarter = quarter.most(r.usage())
			}
		}
		if want := tens * 61; wakes != want {
			t.Errorf("%d wakes, want %d", wakes, want)
		}
		early, late := quarters[1], quarters[3]
		const (
			segments = 4 << 20 // on disk: a few segments more or less, by where the clock stands
			buffers  = 2 << 20 // in memory: the log keeps its open segment there, and the one before it
		)
		if late.heap > early.heap+buffers || late.disk > early.disk+segments || late.goroutines > early.goroutines || late.descriptors > early.descriptors {
			t.Errorf("it grew; the most in each quarter: %+v", quarters)
		}
		t.Logf("%d wakes; the most in each quarter: %+v", wakes, quarters)
		if kept := len(r.events(journal.KindFire)); kept >= wakes {
			t.Errorf("all %d fires are still in the journal", kept)
		}
	})
}
