// Package attach owns the socket beside a journal, by which every process but the holder reaches the holder's engine
// (SPEC 13.1, 13.2): further sessions attach through it, and `heartbeat-mcpl ctl` asks through it.
//
// A process that serves starts with [New] and [Link.Run]: it holds the journal itself, or attaches to whoever does, and takes
// the journal over when that one ends. A program that asks once uses [Ask].
//
// On the socket each side first says hello in one line; then both speak JSON-RPC 2.0, a message a line:
//
//	client                                            holder
//	{"heartbeat":1,"kind":"session","pid":..} ─────>
//	                                          <─────  {"heartbeat":1,"pid":..}
//	open      {peer, offers}                  ─────>  a session is registered, with all that it holds
//	call      {by, tool, arguments, key}      ─────>  result: what the tool answers
//	resource, policy, ping, sessions          ─────>
//	~ initialized, notice, lifecycle, outcome ─────>  (~: a notification)
//	                                          <─────  ~ offer {offer, params, limitMs}, changed {uris}
//
// Only the process that holds the journal's lock listens, so a socket file that is there when it begins is always a dead one's.
// The socket is the user's alone (0600).
package attach

import (
	"bufio"
	"bytes"
	"context"
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

	"heartbeat-mcpl/rpc/engine"
)

const (
	protocolVersion = 1
	mostPath        = 100             // bytes of a socket's path that every system takes
	mostHello       = 4 << 10         // bytes of a hello
	helloLimit      = 5 * time.Second // how long a hello may take
	mostPeers       = 1000            // connections at once
	stallLimit      = 30 * time.Second
)

// The kinds of clients.
const (
	kindSession = "session" // serves a host, or waits to hold the journal
	kindCommand = "command" // asks once
)

// hello is what each side says first.
type hello struct {
	Heartbeat int    `json:"heartbeat"` // version of what is spoken
	Kind      string `json:"kind,omitempty"`
	PID       int    `json:"pid"`
	Version   string `json:"version,omitempty"` // of the program
}

// ErrNoServer says that no server listens for a journal.
var ErrNoServer = errors.New("no server runs on the journal")

// errOld says that a holder speaks another protocol.
var errOld = errors.New("it is of another version, which cannot be attached to")

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

// socket is the holder's end. Its methods may be called from any goroutine.
type socket struct {
	log     *slog.Logger
	engine  *engine.Engine
	version string

	ctx      context.Context // of the connections
	cancel   context.CancelFunc
	mu       sync.Mutex
	listener *net.UnixListener
	path     string
	peers    map[net.Conn]struct{}
	serving  sync.WaitGroup
	closed   bool
}

// listen begins to serve for a journal whose lock this process holds.
func listen(journalDir string, e *engine.Engine, version string, log *slog.Logger) (*socket, error) {
	path, err := Path(journalDir)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != fs.ModeSocket {
			return nil, fmt.Errorf("%s is there and is no socket; move it away", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	before := syscall.Umask(0o177) // the socket must be private from its first moment on
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	syscall.Umask(before)
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // by then another holder's socket may have that name
	s := &socket{log: log, engine: e, version: version, listener: l, path: path, peers: map[net.Conn]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.accept()
	return s, nil
}

func (s *socket) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		if !s.admit(conn) {
			_ = conn.Close() // there is nobody to tell
			continue
		}
		s.serving.Go(func() {
			defer s.leave(conn)
			s.serve(conn)
		})
	}
}

// admit counts a connection in; false: there are too many.
func (s *socket) admit(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.peers) >= mostPeers {
		s.log.Warn("a connection to the socket was refused", "connections", len(s.peers))
		return false
	}
	s.peers[conn] = struct{}{}
	return true
}

func (s *socket) leave(conn net.Conn) {
	_ = conn.Close() // a second time is no fault
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, conn)
}

// stopListening takes the socket away. Call it while this process still holds the journal: another one's socket is never
// removed. Those that are attached stay until [socket.close].
func (s *socket) stopListening() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if err := errors.Join(os.Remove(s.path), s.listener.Close()); err != nil {
		s.log.Debug("the socket could not be taken away", "err", err)
	}
}

// close lets go of all that are attached: one of them takes the journal over.
func (s *socket) close() {
	s.mu.Lock()
	for conn := range s.peers {
		_ = conn.Close() // the same
	}
	s.mu.Unlock()
	s.cancel()
	s.serving.Wait()
}

// exchange says hello on a connection and reads the other side's, whose further lines are then read from what is returned.
func exchange(conn net.Conn, mine hello, first bool) (theirs hello, in *bufio.Reader, err error) {
	if err := conn.SetDeadline(time.Now().Add(helloLimit)); err != nil {
		return theirs, nil, err
	}
	in = bufio.NewReaderSize(conn, mostHello)
	say := func() error {
		line, err := json.Marshal(mine)
		if err == nil {
			_, err = conn.Write(append(line, '\n'))
		}
		return err
	}
	if first {
		if err := say(); err != nil {
			return theirs, nil, err
		}
	}
	line, err := in.ReadSlice('\n')
	if err != nil {
		return theirs, nil, fmt.Errorf("no hello came: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	if err := decoder.Decode(&theirs); err != nil {
		return theirs, nil, fmt.Errorf("its first line is no hello: %w", err)
	}
	if theirs.Heartbeat != protocolVersion {
		return theirs, nil, errOld
	}
	if !first {
		if err := say(); err != nil {
			return theirs, nil, err
		}
	}
	return theirs, in, conn.SetDeadline(time.Time{})
}
