package compact

import (
	"math"
	"sort"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
)

// retention decides which entries a merge keeps. Its fields are fixed while the merge runs, and its methods depend on
// nothing else. They are called for each entry, newest first for each key, in this order: stratum, considers, judge,
// fate.
type retention struct {
	// visible are the sequence numbers at which readers read, in ascending order, at least one. They divide history
	// into strata: stratum i has the entries that are visible at visible[i] but not at visible[i-1]. Of the entries of
	// one key in one stratum, only the newest can be seen.
	visible []uint64
	// holdsOldest means that no older entry of a key of the inputs is in the output level or below, so entries may get
	// sequence number 0; see zeroSeqs.
	holdsOldest bool

	// unseen is the sequence number from which on no snapshot sees a value, or neverUnseen if no value is dropped or
	// replaced. A value from unseen on is dropped if it has expired by now, an older one if it had expired by hidden.
	unseen, now, hidden uint64
	asks                bool // Tuning.Filter is called for values from unseen on
}

// neverUnseen is greater than all sequence numbers.
const neverUnseen = math.MaxUint64

// stratum returns the stratum of an entry.
func (r *retention) stratum(seq uint64) int {
	if seq <= r.visible[0] { // mostly
		return 0
	}
	return r.laterStratum(seq)
}

// laterStratum is the rest of stratum, which is inlined.
func (r *retention) laterStratum(seq uint64) int {
	return sort.Search(len(r.visible), func(i int) bool { return r.visible[i] >= seq })
}

// considers reports whether the newest entry of a key may be dropped or replaced.
func (r *retention) considers(kind base.Kind, seq uint64) bool {
	return (seq >= r.unseen || r.hidden > 0) && kind != base.KindDelete
}

// verdict is what judge says about a value.
type verdict uint8

const (
	valueStays verdict = iota
	valueExpired
	valueAsked // Tuning.Filter decides
)

// judge decides about the value of an entry that is considered. expires is expiry.Never for a value that does not
// expire.
func (r *retention) judge(seq, expires uint64) verdict {
	seen, now := seq < r.unseen, r.now
	if seen {
		now = r.hidden
	}
	switch {
	case expires != expiry.Never && expires <= now:
		return valueExpired
	case seen || !r.asks:
		return valueStays
	}
	return valueAsked
}

// fate is what becomes of an entry.
type fate uint8

const (
	entryDropped fate = iota
	entryKept
	entryZeroed // it is kept, and has or gets sequence number 0
)

// considered is an entry that is not hidden by a newer one of its stratum.
type considered struct {
	kind    base.Kind // KindDelete if dropped
	seq     uint64
	stratum int
	dropped bool // its value has expired, or the filter has dropped it
	// covers means that the entry is a tombstone of stratum 0, and that a level below the output may have its key.
	covers bool
}

// fate decides about an entry.
func (r *retention) fate(e considered) fate {
	switch {
	case e.dropped && e.seq == 0:
		return entryDropped // it is the oldest entry of its key, so there is nothing to hide
	case e.kind == base.KindDelete && e.stratum == 0 && !e.covers:
		// All readers see the tombstone, and it hides no entry in a lower level. The key's older entries among the
		// inputs are in this stratum too and are dropped.
		return entryDropped
	case e.seq == 0 || r.holdsOldest && e.kind != base.KindDelete && e.stratum == 0:
		return entryZeroed
	}
	return entryKept
}
