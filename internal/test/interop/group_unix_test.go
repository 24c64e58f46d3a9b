//go:build unix

package interop

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a command the first process of a group.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills all processes of the command's group.
func killGroup(c *exec.Cmd) error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
