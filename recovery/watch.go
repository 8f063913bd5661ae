package recovery

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// Watch has changed called, in a goroutine of its own, whenever something happens to one of the views, until stop is called.
// It watches their folders: a file that is replaced is another file. Where it fails, whoever looks now and then still
// notices (SPEC 2.6).
func Watch(files Files, changed func()) (stop func() error, err error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch the views: %w", err)
	}
	views := map[string]bool{resolve(files.Config): true, resolve(files.Reminders): true}
	for path := range views {
		dir := filepath.Dir(path)
		_ = os.MkdirAll(dir, 0o700) // a first start is about to make it; where it cannot be made, Add says so
		if err := w.Add(dir); err != nil {
			return nil, errors.Join(fmt.Errorf("watch the folder of %s: %w", path, err), w.Close())
		}
	}
	go func() {
		for {
			select {
			case event, open := <-w.Events:
				if !open {
					return
				}
				if views[event.Name] {
					changed()
				}
			case _, open := <-w.Errors: // events were lost: look
				if !open {
					return
				}
				changed()
			}
		}
	}()
	return w.Close, nil
}
