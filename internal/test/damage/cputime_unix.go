//go:build unix

package damage

import (
	"syscall"
	"time"
)

// CPUTime returns the processor time that all goroutines of the process have used. Unlike elapsed
// time, it does not depend on other load of the machine.
func CPUTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic(err) // its arguments are constants
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
