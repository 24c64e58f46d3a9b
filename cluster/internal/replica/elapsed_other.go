//go:build !linux

package replica

import "time"

var started = time.Now()

// elapsed is the time since the process started. Whether a suspension of the machine counts is left to the system.
func elapsed() time.Duration { return time.Since(started) }
