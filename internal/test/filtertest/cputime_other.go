//go:build !unix

package filtertest

import "time"

var processStart = time.Now()

// cpuTime returns the time since the process began, because there is no portable processor clock.
func cpuTime() time.Duration { return time.Since(processStart) }
