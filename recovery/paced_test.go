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
		appends uint64 // while each half of a piece is made
		took    time.Duration
	}{
		{"nothing else to do", 0, 4 * 2 * 5 * time.Millisecond},
		{"appends meanwhile", 3, 4 * 2 * 5 * (1 + rests) * time.Millisecond},
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
				for i := range byte(4 * 2) {
					half := bytes.Repeat([]byte{'a' + i}, piece/2)
					want.Write(half)
					time.Sleep(5 * time.Millisecond)
					appends.Add(c.appends)
					if n, err := paced.Write(half); n != len(half) || err != nil {
						t.Fatalf("wrote %d bytes, %v", n, err)
					}
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
