//go:build unix

package damage

import (
	"syscall"
	"time"
)

// CPUTime returns the processor time that the process has used, in all its goroutines. Unlike a
// clock it does not count how busy the machine is otherwise.
func CPUTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic(err) // its arguments are constants
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
