package throttle

import (
	"syscall"
	"time"
)

// portion is what is slept off at once. A timer of the runtime that no processor watches takes a millisecond and more;
// of 1e6 overwrites at full speed, 100 waited that long.
const portion = 100 * time.Microsecond

// brief waits if that is shorter than a timer of the runtime can. A signal may end it early: what is still owed then
// is slept off after the next record.
func brief(wait time.Duration) bool {
	if wait >= time.Millisecond {
		return false
	}
	spec := syscall.NsecToTimespec(wait.Nanoseconds())
	_ = syscall.Nanosleep(&spec, nil)
	return true
}
