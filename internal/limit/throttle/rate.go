package throttle

import (
	"sync"
	"time"
)

// Rate limits a flow of bytes that several goroutines share. A goroutine works first, then takes the bytes and waits as
// long as Take says. So over any time the flow exceeds the limit by no more than one piece of work of each goroutine,
// and a pause does not permit a burst after it. The zero value is ready for use.
type Rate struct {
	mu  sync.Mutex
	due time.Time // when what was taken is paid for
}

// Take takes n bytes of a flow of at most perSecond, which is above 0, and returns how long to wait.
func (r *Rate) Take(n uint64, perSecond int64, now time.Time) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due.Before(now) {
		r.due = now
	}
	const longest = float64(1 << 62) // a Duration holds it
	r.due = r.due.Add(time.Duration(min(float64(n)/float64(perSecond)*float64(time.Second), longest)))
	return r.due.Sub(now)
}

// Forgive forgets what was taken.
func (r *Rate) Forgive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = time.Time{}
}
