package recovery

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/google/renameio/v2"

	"heartbeat-mcpl/journal"
)

// asideSuffix stands between a file's name and the hash of what it held, in the names of copies that are set aside (SPEC 3).
const asideSuffix = ".unreadable-"

// mostViewBytes is how large a view may be to be read at all.
const mostViewBytes = 256 << 20

// view is one JSON file on disk. It is used by one goroutine at a time: the loop's, or that of the flush in flight.
type view struct {
	name string // as it was configured: what messages call it
	path string // with symbolic links resolved: where it is written

	seen     os.FileInfo                 // the file as it was last read or written; nil: it was missing
	coming   atomic.Pointer[os.FileInfo] // the file that is about to replace it; other goroutines may look
	locked   string                      // why it is left untouched until a restart (SPEC 3.1); empty: it may be written
	foreign  bool                        // it is left untouched since it shows another journal (SPEC 2.7), until it changes
	older    bool                        // the note says that it was older than the journal
	note     string                      // the sentence of SPEC 3.6 about what was read; empty: nothing to say
	waits    string                      // the same about what may not be whole yet, and is not taken in so far
	writeErr error                       // the last write failed
}

func newView(name string) *view { return &view{name: name, path: resolve(name)} }

// resolve follows symbolic links, also one whose target is not there yet, so that writes go through them (SPEC 2.3).
func resolve(name string) string {
	path, err := filepath.Abs(name)
	if err != nil {
		path = name
	}
	for range 40 {
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// read returns the file's bytes and remembers how the file looked. A missing one is fs.ErrNotExist.
func (v *view) read() ([]byte, error) {
	info, err := os.Stat(v.path) // first: to open a pipe would wait for its writer
	if errors.Is(err, fs.ErrNotExist) {
		v.seen = nil
		return nil, err
	}
	switch {
	case err != nil:
		return nil, cause(err)
	case info.IsDir():
		return nil, errors.New("a folder is in its place")
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case info.Size() > mostViewBytes:
		return nil, fmt.Errorf("it is larger than %d MiB", mostViewBytes>>20)
	}
	f, err := os.Open(v.path)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	data := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead)) // to grow into a long file takes longer than to read it
	if _, err := data.ReadFrom(io.LimitReader(f, mostViewBytes+1)); err != nil {
		return nil, cause(err)
	}
	v.seen = info
	return data.Bytes(), nil
}

// changed says whether somebody else wrote the file, or removed it, since it was last read or written.
func (v *view) changed() bool {
	info, err := os.Stat(v.path)
	return !looks(info, err, v.seen)
}

// looks says whether a file looks as it did before; nil: it was missing.
func looks(info os.FileInfo, err error, before os.FileInfo) bool {
	if err != nil || before == nil {
		return before == nil && errors.Is(err, fs.ErrNotExist)
	}
	return os.SameFile(info, before) && info.Size() == before.Size() && info.ModTime().Equal(before.ModTime())
}

// errOvertaken says that somebody changed a view while it was about to be written.
var errOvertaken = errors.New("it was changed meanwhile")

// replace writes the file unless somebody else changed it (SPEC 2.6).
func (v *view) replace(content func(*os.File) error) error { return v.put(content, v.swap) }

// swap puts a new file in the place of one that nobody changed. Where two files can change places at once, it looks again at what
// it got out, and puts back what somebody wrote since it looked before.
func (v *view) swap(f *renameio.PendingFile) error {
	if v.changed() {
		return errOvertaken
	}
	if v.seen == nil || exchange(f.Name(), v.path) != nil {
		return f.CloseAtomicallyReplace()
	}
	if info, err := os.Stat(f.Name()); looks(info, err, v.seen) {
		return nil // Cleanup removes the old file
	}
	if err := os.Rename(f.Name(), v.path); err != nil {
		return err
	}
	return errOvertaken
}

// write replaces the file whole: temporary file in the same folder, fsync, rename, fsync of the folder; an existing file's
// mode is kept, a new one is private (SPEC 1.6, 2.3).
func (v *view) write(data []byte) error {
	return v.put(whole(data), (*renameio.PendingFile).CloseAtomicallyReplace)
}

// whole is the content of a file as it stands.
func whole(data []byte) func(*os.File) error {
	return func(out *os.File) error {
		_, err := out.Write(data)
		return err
	}
}

// put makes a new file, and has place put it in the old one's place.
func (v *view) put(content func(*os.File) error, place func(*renameio.PendingFile) error) error {
	dir := filepath.Dir(v.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return cause(err)
	}
	f, err := renameio.NewPendingFile(v.path, renameio.WithTempDir(dir), renameio.WithPermissions(0o600), renameio.WithExistingPermissions())
	if err != nil {
		return cause(err)
	}
	defer f.Cleanup()
	if err := content(f.File); err != nil {
		return cause(err)
	}
	info, err := f.Stat()
	if err != nil {
		return cause(err)
	}
	if err := f.Sync(); err != nil {
		return cause(err)
	}
	v.coming.Store(&info)
	if err := place(f); err != nil {
		return cause(err)
	}
	v.seen = info
	return journal.SyncDir(dir)
}

// setAside copies data, the file's content, to <file>.unreadable-<hash>, and returns the copy's path. The same content
// gets the same name, so copies do not pile up (SPEC 3.2).
func (v *view) setAside(data []byte) (string, error) {
	path := v.path + asideSuffix + journal.HashBytes(data)
	if have, err := os.ReadFile(path); err == nil && string(have) == string(data) {
		return path, nil
	}
	copied := view{path: path}
	if err := copied.write(data); err != nil {
		return "", fmt.Errorf("copy it to %s: %w", filepath.Base(path), err)
	}
	return path, nil
}

// sweep removes temporary files that a crash while writing left behind.
func (v *view) sweep() {
	prefix := "." + filepath.Base(v.path)
	entries, err := os.ReadDir(filepath.Dir(v.path))
	if err != nil {
		return
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		if ok && digits != "" && strings.Trim(digits, "0123456789") == "" {
			_ = os.Remove(filepath.Join(filepath.Dir(v.path), e.Name())) // only litter: the next start tries again
		}
	}
}

// cause is err without the operation and path that the caller's sentence names already.
func cause(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	var linkErr *os.LinkError
	if errors.As(err, &linkErr) {
		return linkErr.Err
	}
	return err
}
