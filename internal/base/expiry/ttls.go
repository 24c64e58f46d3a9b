package expiry

import (
	"time"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// TTLs are the times to live of some entries of a batch, in their order. The zero value is empty.
type TTLs []entryTTL

type entryTTL struct {
	entry int // from 0
	ttl   time.Duration
	until uint64 // the deadline if ttl is 0
}

// CheckTTL returns why ttl is no time to live, or nil.
func CheckTTL(ttl time.Duration) error {
	if ttl <= 0 {
		return errors.Newf("sievedb: PutTTL: the time to live is %v; it must be positive. Put writes a value that does not expire", ttl)
	}
	return nil
}

// Add adds that of an entry, which is after all others. It returns an error if ttl is not positive.
func (t *TTLs) Add(entry int, ttl time.Duration) error {
	*t = append(*t, entryTTL{entry, ttl, Never})
	return CheckTTL(ttl)
}

// AddUntil is Add for a value that expires at a deadline.
func (t *TTLs) AddUntil(entry int, deadline uint64) { *t = append(*t, entryTTL{entry, 0, deadline}) }

// Append adds those of another batch whose entries are appended to so many.
func (t *TTLs) Append(entries int, other TTLs) {
	for _, e := range other {
		*t = append(*t, entryTTL{entries + e.entry, e.ttl, e.until})
	}
}

// Next returns that of an entry, or its deadline, 0 and Never if it has none. It is called with rising
// entries on a copy.
func (t *TTLs) Next(entry int) (ttl time.Duration, until uint64) {
	if len(*t) > 0 && (*t)[0].entry == entry {
		ttl, until, *t = (*t)[0].ttl, (*t)[0].until, (*t)[1:]
	}
	return ttl, until
}
