package txn

import (
	"math/rand/v2"
	"time"
)

// Turns let transactions that met conflicts go one after another, so that they do not disturb each other. Use NewTurns.
type Turns struct{ taken chan struct{} }

// maxWait bounds the wait for a turn.
const maxWait = 8 * time.Millisecond

// NewTurns returns Turns of which none is taken.
func NewTurns() Turns { return Turns{make(chan struct{}, 1)} }

// Take waits for the caller's turn before the given attempt, and reports whether it came. It waits for a short time of
// random length at most, or until stop is closed: the transaction whose turn it is may be waiting for the caller.
func (t Turns) Take(attempt int, stop <-chan struct{}) bool {
	select {
	case t.taken <- struct{}{}:
		return true // even if the goroutine stands still for longer than the wait
	default:
	}
	longest := min(maxWait, 50*time.Microsecond<<min(attempt, 10))
	timer := time.NewTimer(longest/2 + rand.N(longest/2))
	defer timer.Stop()
	select {
	case t.taken <- struct{}{}:
		return true
	case <-timer.C:
	case <-stop:
	}
	return false
}

// End ends the turn of a caller whose Take returned true.
func (t Turns) End() { <-t.taken }
