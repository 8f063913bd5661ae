//go:build unix

package delivery

import (
	"os/exec"
	"syscall"
	"time"
)

// group gives the program a process group of its own, which ends with it: by SIGTERM, and by SIGKILL a while later.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		pgid := cmd.Process.Pid
		time.AfterFunc(killAfter, func() { _ = syscall.Kill(-pgid, syscall.SIGKILL) }) // it may be gone
		return syscall.Kill(-pgid, syscall.SIGTERM)
	}
	cmd.WaitDelay = killAfter + time.Second // a child of its own may hold its stderr open
}
