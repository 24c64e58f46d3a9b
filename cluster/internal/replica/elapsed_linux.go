package replica

import (
	"time"

	"golang.org/x/sys/unix"
)

var started = time.Now()

// elapsed is the time since the machine was started. Unlike Go's monotonic clock, it goes on while the machine is
// suspended. A virtual machine that its host pauses without telling it has no clock that does, but for one that is
// set later.
func elapsed() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Since(started) // a sandbox forbids it, and will do so next time
	}
	return time.Duration(now.Nano())
}
