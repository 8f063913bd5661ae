package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// The names in a journal's folder. A segment is named by the index of its first record, in 20 digits, as the log library
// names it.
const (
	metaName    = "meta.json"
	reserveName = "reserve"
	segmentName = 20 // digits
)

// StrayFile is the Why of a [Damage] that is a file on which the log library would act, deleting segments.
const StrayFile = "a stray file"

// ErrNoJournal says that there is no journal in a folder.
var ErrNoJournal = fmt.Errorf("there is no journal here: %w", fs.ErrNotExist)

// Error is a fault of a journal on disk that a person may have to mend.
type Error struct {
	Op   string // what was being done
	Path string
	Hint string // what to do; may be empty
	Err  error
}

func (e *Error) Error() string {
	text := e.Op + " " + e.Path + ": " + e.Err.Error()
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

func nameOf(first uint64) string { return fmt.Sprintf("%020d", first) }

// segments lists a folder's segments in order, and the stray files among its names: those that the library would take for
// segments and act on.
func segments(dir string) (firsts []uint64, stray []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &Error{Op: "open", Path: dir, Err: ErrNoJournal}
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || len(name) < segmentName {
			continue
		}
		first, err := strconv.ParseUint(name[:segmentName], 10, 64)
		if err != nil || first == 0 {
			continue
		}
		if len(name) == segmentName {
			firsts = append(firsts, first)
			continue
		}
		if end := name[segmentName:]; end == ".START" || end == ".END" {
			stray = append(stray, name)
		}
	}
	return firsts, stray, nil
}

// First is the name of a journal's first segment; empty where there is none.
func First(dir string) (string, error) {
	firsts, _, err := segments(dir)
	if err != nil || len(firsts) == 0 {
		return "", err
	}
	return nameOf(firsts[0]), nil
}

// Newest is the path of a journal's newest segment; empty where there is none.
func Newest(dir string) (string, error) {
	firsts, _, err := segments(dir)
	if err != nil || len(firsts) == 0 {
		return "", err
	}
	return filepath.Join(dir, nameOf(firsts[len(firsts)-1])), nil
}

// Starts are the indices with which the journal's segments begin, by their names, ascending.
func Starts(dir string) ([]uint64, error) {
	firsts, _, err := segments(dir)
	return firsts, err
}

// meta is the folder's small file that repeats the identity, so that either can restore the other.
type meta struct {
	ID     string `json:"id"`
	Format int    `json:"format"` // the highest major version that an event in the journal needs
}

// readMeta reads it; false where it is not there or cannot be read.
func readMeta(dir string) (meta, ID, bool) {
	path := filepath.Join(dir, metaName)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return meta{}, ID{}, false
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return meta{}, ID{}, false
	}
	var m meta
	if json.Unmarshal(data, &m) != nil {
		return meta{}, ID{}, false
	}
	id, err := ParseID(m.ID)
	return m, id, err == nil
}

// CheckFolder says what is wrong with what stands beside the segments of the journal of that identity.
func CheckFolder(dir string, id ID) error {
	if _, have, ok := readMeta(dir); !ok {
		return fmt.Errorf("%s is missing or cannot be read; a server makes it again", metaName)
	} else if have != id {
		return fmt.Errorf("%s names another journal, %s; a server makes it again", metaName, have)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, err := strconv.ParseUint(e.Name(), 10, 64); err == nil && len(e.Name()) == segmentName && !e.Type().IsRegular() {
			return fmt.Errorf("%s is no regular file", e.Name())
		}
	}
	return nil
}

func writeMeta(dir string, id ID, format int) error {
	data, err := json.Marshal(meta{ID: id.String(), Format: format})
	if err != nil {
		return err
	}
	return writeFileSynced(filepath.Join(dir, metaName), append(data, '\n'))
}

// writeFileSynced writes a private file in one piece: a temporary one, fsynced and renamed, the folder fsynced.
func writeFileSynced(path string, data []byte) error {
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(temp))
	}
	return SyncDir(filepath.Dir(path))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SyncDir makes what was created, renamed and removed in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// syncPath makes a file's content durable.
func syncPath(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// HashBytes names a copy of data: the first 16 hexadecimal digits of its SHA-256 (SPEC 3.2).
func HashBytes(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// HashDir names a copy of a journal's folder: as [HashBytes], over its segments' names and contents.
func HashDir(dir string) (string, error) {
	firsts, _, err := segments(dir)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, first := range firsts {
		name := nameOf(first)
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		_, _ = io.WriteString(h, name) // a hash takes everything
		_, err = io.Copy(h, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
