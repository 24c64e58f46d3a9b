//go:build !unix

package damage

import "time"

var begin = time.Now()

// CPUTime returns approximately the time since the process began, because this system does not report processor time.
func CPUTime() time.Duration { return time.Since(begin) }
