package txn

import (
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// Change is what one edit changed without leaving a new sequence number: the ranges of tables that it
// removed without tombstones, and those of tables that it added with the numbers that they had.
type Change struct{ Gone, Came []Range }

// Untraced remembers the newest such changes for transactions that pin the state that they read. Others
// never meet one: while one of them is open, no table is removed without tombstones, and each table that
// is added gets new numbers. The zero value is empty. It is safe for concurrent use.
type Untraced struct {
	last atomic.Uint64 // the number of the newest change

	mu      sync.Mutex
	changes []numbered // ascending
	ranges  int        // of all changes
	forgot  uint64     // changes up to this number are not known in detail
}

// numbered is a change with the sequence number at which it became visible.
type numbered struct {
	seq uint64
	Change
}

// maxUntraced is how many ranges are remembered. A snapshot that stays open for days must not make them
// grow without a bound.
const maxUntraced = 4096

// Add adds a change that will be visible at seq. The caller, the leader of the commit queue, calls it
// when the change is certain to be made, and before seq is visible. No transaction that is open or
// begins later has a start below oldest.
func (u *Untraced) Add(seq uint64, c Change, oldest uint64) {
	n := len(c.Gone) + len(c.Came)
	if n == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.changes) > 0 && (u.changes[0].seq <= oldest || u.ranges+n > maxUntraced) {
		first := u.changes[0]
		u.changes[0] = numbered{}
		u.changes = u.changes[1:]
		u.forgot, u.ranges = first.seq, u.ranges-len(first.Gone)-len(first.Came)
	}
	u.changes = append(u.changes, numbered{seq, c})
	u.ranges += n
	u.last.Store(seq)
}

// Last returns the number of the newest change, 0 if there was none.
func (u *Untraced) Last() uint64 { return u.last.Load() }

// Between returns what changed above start, a transaction's start, up to horizon, which is visible. It
// returns false if that is not known any more: then all may have changed.
func (u *Untraced) Between(start, horizon uint64) (c Change, known bool) {
	if u.last.Load() <= start {
		return c, true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.forgot > start {
		return c, false
	}
	for _, change := range u.changes {
		if start < change.seq && change.seq <= horizon {
			c.Gone, c.Came = append(c.Gone, change.Gone...), append(c.Came, change.Came...)
		}
	}
	return c, true
}

// RangeOf returns the range of a table's keys.
func RangeOf(f *version.FileMeta) Range {
	return Range{Lower: base.UserKey(f.Smallest), Upper: base.UserKey(f.Largest), Closed: true}
}
