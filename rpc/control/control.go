// Package control owns the socket beside the journal over which `heartbeat-mcpl ctl` talks to the server that runs on it
// (SPEC 11.6). A line is a JSON object: {"tool", "arguments"} there, {"text", "structured", "isError"} back.
//
// A server starts with [Socket], a client with [Call]. Only the process that holds the journal's lock listens, so a socket
// file that is there when it begins is always a dead one's. The socket is the user's alone (0600).
package control

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"heartbeat-mcpl/rpc/tools"
)

const (
	mostPath  = 100              // bytes of a socket's path that every system takes
	mostLine  = 1 << 20          // bytes of a request
	callLimit = 10 * time.Second // how long a call may take
)

// ErrNoServer says that no server listens for a journal.
var ErrNoServer = errors.New("no server runs on the journal")

// Path is where the socket for a journal is: beside it, or, where that path is too long for a socket, in a folder of the
// user's own among the temporary files, which a server makes.
func Path(journalDir string) (string, error) {
	absolute, err := filepath.Abs(journalDir)
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(absolute); err == nil {
		absolute = resolved
	}
	if beside := absolute + ".sock"; len(beside) <= mostPath {
		return beside, nil
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("heartbeat-mcpl-%d", os.Getuid()))
	sum := sha256.Sum256([]byte(absolute))
	path := filepath.Join(dir, hex.EncodeToString(sum[:8])+".sock")
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || info.Mode().Perm() != 0o700 || !ok || int(owner.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s is not a folder of this user alone (0700); remove it", dir)
	}
	return path, nil
}

// Socket serves clients. Its zero value with Log and Call set is ready; Listen and Close may be called once each, in any
// goroutine.
type Socket struct {
	Log  *slog.Logger
	Call func(tool string, arguments json.RawMessage, answer func(tools.Reply)) bool

	mu       sync.Mutex
	listener *net.UnixListener
	path     string
	closed   bool
}

// Listen begins to serve for a journal whose lock this process holds. What stands in its way is logged: a server works
// without it.
func (s *Socket) Listen(journalDir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.listener != nil {
		return
	}
	if err := s.listen(journalDir); err != nil {
		s.Log.Warn("heartbeat-mcpl ctl cannot reach this server: its socket cannot be made", "err", err)
	}
}

func (s *Socket) listen(journalDir string) error {
	path, err := Path(journalDir)
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != fs.ModeSocket {
			return fmt.Errorf("%s is there and is no socket; move it away", path)
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	before := syscall.Umask(0o177) // the socket must be private from its first moment on
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	syscall.Umask(before)
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false) // by then another server's socket may have that name
	s.listener, s.path = l, path
	go s.accept(l)
	return nil
}

func (s *Socket) accept(l *net.UnixListener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // closed
		}
		go s.serve(conn)
	}
}

type request struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

func (s *Socket) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, mostLine)
	for lines.Scan() {
		answer := s.answer(lines.Bytes())
		data, err := json.Marshal(answer)
		if err != nil {
			return
		}
		if _, err := conn.Write(append(data, '\n')); err != nil {
			return
		}
	}
}

func (s *Socket) answer(line []byte) tools.Reply {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return tools.Reply{IsError: true, Text: "this line is no request: " + err.Error()}
	}
	switch tool := tools.Find(r.Tool); {
	case r.Tool == tools.Restore: // a person's, not the agent's
	case tool == nil:
		return tools.Reply{IsError: true, Text: fmt.Sprintf("unknown tool %q; did you mean %s?", r.Tool, tools.Nearest(r.Tool))}
	case tool.Mesh:
		return tools.Reply{IsError: true, Text: r.Tool + " is not served here: it is the agent's own; heartbeat-mcpl mesh shows who is here"}
	}
	got := make(chan tools.Reply, 1)
	if !s.Call(r.Tool, r.Arguments, func(reply tools.Reply) { got <- reply }) {
		return tools.Reply{IsError: true, Text: "the server is ending"}
	}
	select {
	case reply := <-got:
		return reply
	case <-time.After(callLimit):
		return tools.Reply{IsError: true, Text: "the server did not answer in time"}
	}
}

// Close ends serving and takes the socket away.
func (s *Socket) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.listener == nil {
		return
	}
	if err := errors.Join(os.Remove(s.path), s.listener.Close()); err != nil {
		s.Log.Debug("the control socket could not be taken away", "err", err)
	}
}

// Call asks the server that runs on a journal. An error wraps [ErrNoServer] where none does.
func Call(journalDir, tool string, arguments any) (tools.Reply, error) {
	path, err := Path(journalDir)
	if err != nil {
		return tools.Reply{}, err
	}
	conn, err := net.Dial("unix", path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return tools.Reply{}, fmt.Errorf("%w (%s)", ErrNoServer, path)
	}
	if err != nil {
		return tools.Reply{}, fmt.Errorf("reach the server: %w", err)
	}
	defer conn.Close()
	raw, err := json.Marshal(arguments)
	if err != nil {
		return tools.Reply{}, err
	}
	line, err := json.Marshal(request{tool, raw})
	if err != nil {
		return tools.Reply{}, err
	}
	if err := conn.SetDeadline(time.Now().Add(callLimit + 2*time.Second)); err != nil {
		return tools.Reply{}, err
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return tools.Reply{}, fmt.Errorf("ask the server: %w", err)
	}
	var answer tools.Reply
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		return tools.Reply{}, fmt.Errorf("the server did not answer; what was asked may still be done: %w", err)
	}
	return answer, nil
}
