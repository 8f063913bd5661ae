package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// ErrHeld says that another process writes the journal; the error that wraps it is a [HeldError].
var ErrHeld = errors.New("another process holds the journal")

// HeldError says who holds a journal.
type HeldError struct {
	Path  string    // of the lock file
	PID   int       // 0: it does not say
	Since time.Time // zero: it does not say
}

func (e *HeldError) Error() string { return fmt.Sprintf("%v (process %d, %s)", ErrHeld, e.PID, e.Path) }

// Is makes it an [ErrHeld].
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Lock is the right to write a journal. It dies with its process.
type Lock struct{ file *flock.Flock }

// holder is what a lock file says.
type holder struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

// TryLock takes the writer's lock of the journal in dir: a lock on the file dir.lock beside it, which is never deleted, since
// deleting it could give two holders. It fails with a [HeldError] when another process has it.
func TryLock(dir string) (*Lock, error) {
	path := dir + ".lock"
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("lock the journal: %w", err)
	}
	file := flock.New(path, flock.SetPermissions(0o600))
	got, err := file.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the journal: %w", err)
	}
	if !got {
		return nil, heldBy(path)
	}
	l := &Lock{file}
	text, err := json.Marshal(holder{PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second)})
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o600)
	}
	if err != nil && !isFull(err) { // who holds it is for people; the lock itself needs no space
		return nil, errors.Join(fmt.Errorf("lock the journal: %w", err), l.Unlock())
	}
	return l, nil
}

// A process that has just taken the lock has not written yet that it has; so often, and so long each time, that is waited for.
const (
	mostLooks = 10
	lookAfter = 5 * time.Millisecond
)

func heldBy(path string) *HeldError {
	held := &HeldError{Path: path}
	for look := 0; ; look++ {
		var h holder
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &h) == nil {
			held.PID, held.Since = h.PID, h.Since
		}
		if look == mostLooks || alive(held.PID) {
			return held
		}
		time.Sleep(lookAfter)
	}
}

// alive says whether a process runs, as far as this one can see.
func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}

// Unlock gives the right up.
func (l *Lock) Unlock() error { return l.file.Unlock() }
