package recovery

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// TestNoEditIsWrittenOver has somebody replace a view again and again while the server writes it without a pause: each edit must
// be read, also one that comes between the last look and the renaming.
func TestNoEditIsWrittenOver(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("two files change places at once on Linux alone; elsewhere an edit within microseconds of a writing can be lost")
	}
	dir := t.TempDir()
	v := newView(filepath.Join(dir, "view.json"))
	if err := v.write([]byte("0")); err != nil {
		t.Fatal(err)
	}
	if exchange(v.path, v.path) != nil {
		t.Skip("this file system cannot have two files change places")
	}
	const edits = 500
	read := make(chan string, edits)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			switch err := v.replace(whole(fmt.Appendf(nil, "server %d", n))); {
			case errors.Is(err, errOvertaken):
				data, err := v.read()
				if err != nil {
					t.Error(err)
				}
				read <- string(data)
			case err != nil:
				t.Error(err)
			}
		}
	}()
	defer func() {
		close(stop)
		<-ended
	}()
	for n := range edits {
		edit := fmt.Sprintf("edit %d", n)
		if err := os.WriteFile(filepath.Join(dir, "edited"), []byte(edit), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "edited"), v.path); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-read:
			if got != edit {
				t.Fatalf("%q was read, not %q", got, edit)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%q was written over", edit)
		}
	}
}

func TestAFolderThatAFirstStartMakesIsWatched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "of the agent")
	files := Files{Config: filepath.Join(dir, "config.json"), Reminders: filepath.Join(dir, "reminders.json")}
	changed := make(chan struct{}, 100)
	stop, err := Watch(files, func() { changed <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.Config, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	<-changed
	if err := stop(); err != nil {
		t.Error(err)
	}
}
