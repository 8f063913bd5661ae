package recovery

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// A server that follows the mesh for an agent holds a shared lock on a file of the agent's name, which dies with its process; where
// nobody holds it, the server has ended. As it ends well it writes the time into the file, in Unix milliseconds.

// serveLimit is how long a server waits for one that is just looking whether the file is locked.
const serveLimit = 2 * time.Second

func (m *Mesh) serverFile(agent string) string {
	return filepath.Join(filepath.Dir(m.dir), "servers", agent+".lock")
}

// Serve says that this process serves the agent, until end is called. A mesh that cannot say so works all the same.
func (m *Mesh) Serve(agent string) (end func()) {
	path := m.serverFile(agent)
	lock := flock.New(path, flock.SetPermissions(0o600))
	if err := hold(lock); err != nil {
		m.log.Warn("the others do not see when this server ends: its lock in the mesh's folder cannot be had", "agent", agent, "err", err)
		return func() {}
	}
	return func() {
		err := os.WriteFile(path, []byte(strconv.FormatInt(time.Now().UnixMilli(), 10)+"\n"), 0o600)
		if err := errors.Join(err, lock.Unlock()); err != nil {
			m.log.Info("the mesh does not know when this server ended", "agent", agent, "err", err)
		}
	}
}

func hold(lock *flock.Flock) error {
	if err := os.MkdirAll(filepath.Dir(lock.Path()), 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), serveLimit)
	defer cancel()
	if got, err := lock.TryRLockContext(ctx, time.Millisecond); err != nil || !got {
		return fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	return os.Truncate(lock.Path(), 0)
}

// Ended says whether the server that served the agent has ended, and when: 0 where it did not end well. False where that is not known:
// the server is one of an older version.
func (m *Mesh) Ended(agent string) (ended bool, atMs int64) {
	path := m.serverFile(agent)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return false, 0
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY)) // to look makes no file
	if got, err := lock.TryLock(); err != nil || !got {
		return false, 0
	}
	text, err := os.ReadFile(path)
	if errors.Join(err, lock.Unlock()) != nil {
		return false, 0
	}
	atMs, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return true, 0
	}
	return true, atMs
}
