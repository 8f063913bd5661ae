package recovery

import (
	"bytes"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestALongFileGivesWayToAppends(t *testing.T) {
	for _, c := range []struct {
		name    string
		appends uint64        // while each half of a piece is made
		half    time.Duration // what that takes
		took    time.Duration // all 16 short pieces and the two that are beyond them
	}{
		{"nothing else to do", 0, 3 * time.Millisecond, 18 * 6 * time.Millisecond},
		{"appends meanwhile", 3, 3 * time.Millisecond, (16*(6+18) + 2*(6+90)) * time.Millisecond},
		{"appends meanwhile, to a process that stood still", 3, time.Hour, 18 * (2*time.Hour + 100*time.Millisecond)},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "long")
			file, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			var want bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				var appends atomic.Uint64
				paced, begun := newPacedFile(file, &appends), time.Now()
				for i := range byte(18 * 2) {
					half := bytes.Repeat([]byte{'a' + i}, piece/2)
					want.Write(half)
					time.Sleep(c.half)
					appends.Add(c.appends)
					if n, err := paced.Write(half); n != len(half) || err != nil {
						t.Fatalf("wrote %d bytes, %v", n, err)
					}
				}
				if paced.safe != mostCached { // what follows these 4 MiB is less than as much again
					t.Errorf("%d bytes are on disk", paced.safe)
				}
				if took := time.Since(begun); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want.Bytes()) {
				t.Errorf("the file has %d bytes (%v), want the %d that were written", len(got), err, want.Len())
			}
		})
	}
}
