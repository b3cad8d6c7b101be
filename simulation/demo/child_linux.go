package demo

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill the child when we die, however we die.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
