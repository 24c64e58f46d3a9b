//go:build !unix

package damage

import "time"

var begin = time.Now()

// CPUTime returns the time since the process began, about: this system does not say what
// processor time it has used.
func CPUTime() time.Duration { return time.Since(begin) }
