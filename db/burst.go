package db

import (
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
)

// burstPause is how long no memtable has become full where a burst of writes is over.
const burstPause = time.Second

// burst is whether memtables become full in quick succession. While they do, level 0
// gathers more tables before it is compacted: each compaction of it rewrites about as
// much of the base level, whether it brings four tables or eight. DB.mu guards it.
type burst struct {
	clock    func() time.Time // for tests; nil: time.Now
	full     time.Time        // when a memtable was full for the last time; zero after a Flush
	watching bool             // a goroutine waits for the end
}

func (b *burst) now() time.Time {
	if b.clock != nil {
		return b.clock()
	}
	return time.Now()
}

func (b *burst) note() { b.full = b.now() }

func (b *burst) end() { b.full = time.Time{} }

// left returns for how long the burst lasts if nothing more comes, 0 where there is none.
func (b *burst) left() time.Duration {
	if b.full.IsZero() {
		return 0
	}
	return max(0, burstPause-b.now().Sub(b.full))
}

// burstTrigger is L0CompactionTrigger during a burst: well below the number from which
// writes are slowed.
func (o *Options) burstTrigger() int {
	return max(o.L0CompactionTrigger, min(2*o.L0CompactionTrigger, o.L0SlowdownTrigger*2/3))
}

// pickLocked chooses what to compact now. What waits for the end of a burst is looked
// at again then.
func (d *DB) pickLocked() *manifest.Compaction {
	v, o := d.state.Load().version, d.pickOptions()
	left := d.burst.left()
	if left == 0 {
		return d.pickOf(v, o)
	}
	later := o
	later.L0Trigger = d.opts.burstTrigger()
	c := d.pickOf(v, later)
	if c == nil && !d.burst.watching && d.pickOf(v, o) != nil {
		d.burst.watching = true
		d.background.Add(1)
		go d.watchBurst(left)
	}
	return c
}

// pickOf is v.Pick for callers that hold d.mu, and may not panic while they do: a panic of the
// comparer ends the writes, and nothing is picked.
func (d *DB) pickOf(v *manifest.Version, o manifest.PickOptions) (c *manifest.Compaction) {
	defer func() {
		if value := recover(); value != nil {
			err := &writesEnded{base.NewPanicError(d.cmp, "the choice of a compaction", value)}
			if d.ended.CompareAndSwap(nil, err) && !d.closed.Load() {
				d.cond.Broadcast()
				d.background.Add(1)
				go func() {
					defer d.background.Done()
					d.tellEnded(err.cause)
				}()
			}
		}
	}()
	return v.Pick(o)
}

// watchBurst waits until the burst is over and compacts what has waited for that.
func (d *DB) watchBurst(left time.Duration) {
	defer d.background.Done()
	for left > 0 {
		if !d.pause(left) {
			return
		}
		d.mu.Lock()
		left = d.burst.left()
		d.burst.watching = left > 0
		d.mu.Unlock()
	}
	d.scheduleCompactions()
}
