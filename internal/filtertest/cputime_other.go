//go:build !unix

package filtertest

import "time"

var processStart = time.Now()

// cpuTime returns the time since the process began, for want of a portable clock of processors.
func cpuTime() time.Duration { return time.Since(processStart) }
