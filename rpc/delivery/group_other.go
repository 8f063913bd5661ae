//go:build !unix

package delivery

import "os/exec"

// group has the program ended by itself: there are no process groups here.
func group(cmd *exec.Cmd) { cmd.WaitDelay = killAfter }
