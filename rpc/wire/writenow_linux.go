package wire

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// nowWriter writes to w as much as it takes without waiting: 0 bytes where nothing is taken, the file is none that can be
// written so, or the kernel does not know how. Errors show when the rest is written.
func nowWriter(w io.Writer) func(p []byte) (n int) {
	raw, hasFile := w.(syscall.Conn)
	if !hasFile {
		return takesNothing
	}
	conn, err := raw.SyscallConn()
	if err != nil {
		return takesNothing
	}
	if _, isFile := w.(*os.File); !isFile { // a socket, which never blocks
		return func(p []byte) (n int) {
			_ = conn.Control(func(fd uintptr) { n, _ = unix.Write(int(fd), p) })
			return max(n, 0)
		}
	}
	return func(p []byte) (n int) {
		const atItsPosition = -1
		_ = conn.Control(func(fd uintptr) {
			n, _ = unix.Pwritev2(int(fd), [][]byte{p}, atItsPosition, unix.RWF_NOWAIT)
		})
		return max(n, 0)
	}
}
