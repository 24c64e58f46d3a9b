package txn

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// The number of times that Retry calls its function. After shyAttempts conflicts, callers take turns.
const (
	attempts    = 100
	shyAttempts = 2
)

// Retry calls once, which commits a transaction, with the number of the attempt until it returns no conflict. After 100
// conflicts it gives up with an error that wraps base.ErrConflict. Waits between attempts end when stop is closed.
func (t Turns) Retry(stop <-chan struct{}, once func(attempt int) error) error {
	turn := false
	for attempt := 1; ; attempt++ {
		err := once(attempt)
		if err != base.ErrConflict {
			return err
		}
		if attempt == attempts {
			return errors.Wrapf(err, "sievedb: Update: gave up after %d attempts, in each of which other writers, or another goroutine for "+
				"which the function waits, changed what it had read", attempt)
		}
		if attempt >= shyAttempts && !turn {
			if turn = t.Take(attempt, stop); turn {
				defer t.End()
			}
		}
	}
}
