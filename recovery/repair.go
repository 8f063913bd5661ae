package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"heartbeat-mcpl/journal"
)

// repair makes the journal in dir one that can be appended to, without losing a byte: stray files and a torn tail are set
// aside, and where a record in the middle is damaged the folder is kept whole and every good record goes on in a new
// one (SPEC 3.5). It returns what it did. Only the part that a start reads is looked at; older damage is found by
// `replay --verify`.
func repair(dir string, hint journal.ID, now int64, log *slog.Logger) ([]*journal.SetAside, error) {
	var done []*journal.SetAside
	for range 16 { // each round mends one kind; a journal needs two at most
		damage, err := findDamage(dir, hint)
		if err != nil || len(damage) == 0 {
			return done, err
		}
		one, err := repairOne(dir, hint, damage, now, log)
		if err != nil {
			return done, fmt.Errorf("repair the journal: %w", err)
		}
		log.Error("the journal was damaged: "+one.Why, "journal", dir, "copy", one.Copy, "records lost", one.Lost)
		done = append(done, one)
	}
	return done, errors.New("the journal is damaged again after each repair")
}

// findDamage scans from the newest complete snapshot on.
func findDamage(dir string, hint journal.ID) ([]journal.Damage, error) {
	scanner, err := journal.NewScannerWithID(dir, hint)
	if err != nil {
		return nil, err
	}
	from, err := scanner.FindSnapshot()
	if err != nil {
		return nil, err
	}
	scanner.Seek(from)
	for scanner.Next() {
	}
	return scanner.Damage(), scanner.Err()
}

func repairOne(dir string, hint journal.ID, damage []journal.Damage, now int64, log *slog.Logger) (*journal.SetAside, error) {
	for _, d := range damage {
		if d.Why == journal.StrayFile {
			return moveAside(dir, d)
		}
	}
	if d := damage[0]; len(damage) == 1 && d.Tail && !begins(dir, d) {
		return cutTail(dir, damage[0])
	}
	return rewrite(dir, hint, damage, now, log)
}

// begins says whether the damage leaves the journal without any record.
func begins(dir string, d journal.Damage) bool {
	first, err := journal.First(dir)
	return err == nil && d.Offset == 0 && d.Segment == first
}

// moveAside takes a file out of the folder on which the log library would act.
func moveAside(dir string, d journal.Damage) (*journal.SetAside, error) {
	from := filepath.Join(dir, d.Segment)
	data, err := os.ReadFile(from)
	if err != nil {
		return nil, err
	}
	to := dir + asideSuffix + journal.HashBytes(data)
	if err := os.Rename(from, to); err != nil {
		return nil, err
	}
	if err := errors.Join(journal.SyncDir(dir), journal.SyncDir(filepath.Dir(dir))); err != nil {
		return nil, err
	}
	return &journal.SetAside{File: from, Copy: to, Why: "a stray file " + d.Segment + " was in the folder"}, nil
}

func cutTail(dir string, d journal.Damage) (*journal.SetAside, error) {
	hash, err := journal.HashTail(dir, d)
	if err != nil {
		return nil, err
	}
	to, lost := dir+asideSuffix+hash, journal.TailRecords(dir, d)
	if err := journal.CutTail(dir, d, to); err != nil {
		return nil, err
	}
	return &journal.SetAside{File: filepath.Join(dir, d.Segment), Copy: to, Lost: lost,
		Why: fmt.Sprintf("%s at the end of %s, from byte %d on (%d bytes)", d.Why, d.Segment, d.Offset, d.Length)}, nil
}

// rewrite keeps the damaged folder whole under another name and puts a new one with every good record in its place. A
// crash in between leaves either the old folder, or the new one under its working name for [finishRewrite].
func rewrite(dir string, hint journal.ID, damage []journal.Damage, now int64, log *slog.Logger) (*journal.SetAside, error) {
	kept, err := asideName(dir)
	if err != nil {
		return nil, err
	}
	scanner, err := journal.NewScannerWithID(dir, hint)
	if err != nil {
		return nil, err
	}
	begin := journal.Begin{
		ID: journal.NewID().String(), Major: journal.FirstMajor, Minor: journal.Minor,
		Before: scanner.ID().String(), Replaces: filepath.Base(kept),
	}
	last, lost, err := journal.Rewrite(dir, hint, rewriteDir(dir), begin, now, journal.LogOptions{Log: log})
	if err != nil {
		return nil, err
	}
	if err := os.Rename(dir, kept); err != nil {
		return nil, err
	}
	if err := os.Rename(rewriteDir(dir), dir); err != nil {
		return nil, err
	}
	if err := journal.SyncDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	d := damage[0]
	why := fmt.Sprintf("%s in %s at byte %d", d.Why, d.Segment, d.Offset)
	if last == 1 && lost == 0 {
		why = "no record of it can be read: " + why
	}
	return &journal.SetAside{File: dir, Copy: kept, Lost: lost, Why: why}, nil
}

// asideName is the name under which a journal's folder is kept whole.
func asideName(dir string) (string, error) {
	hash, err := journal.HashDir(dir)
	return dir + asideSuffix + hash, err
}

// moveEmptyAside keeps a folder that is a journal's, but holds no record.
func moveEmptyAside(dir string) (*journal.SetAside, error) {
	kept, err := asideName(dir)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(kept); err != nil { // as empty as this one
		return nil, err
	}
	if err := errors.Join(os.Rename(dir, kept), journal.SyncDir(filepath.Dir(dir))); err != nil {
		return nil, err
	}
	return &journal.SetAside{File: dir, Copy: kept, Why: "its folder holds no record"}, nil
}

func rewriteDir(dir string) string { return dir + ".rewrite" }

// finishRewrite completes a rewrite that a crash cut short: the new folder is whole if the old one has its new name, and
// worth nothing if not.
func finishRewrite(dir string) error {
	if _, err := os.Stat(rewriteDir(dir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(rewriteDir(dir), dir)
	}
	return os.RemoveAll(rewriteDir(dir))
}
