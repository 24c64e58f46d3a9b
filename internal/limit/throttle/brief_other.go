//go:build !linux

package throttle

import "time"

const portion = time.Millisecond

func brief(time.Duration) bool { return false }
