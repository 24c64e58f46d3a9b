package commit

import (
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/lookup"
)

// What was deleted or replaced stays on disk, and iterators step over it, until the newer entries are in a table: only
// then a compaction is due. A program that deletes many large values may never fill a memtable with their keys. So once
// nothing is written for a while, the memtable is flushed if that frees space, and compactions look for what else
// would.
const (
	// quietFor is how long nothing must have been written, and longestQuiet the number of such periods after which a
	// memtable is looked at all the same.
	quietFor     = 3 * time.Second
	longestQuiet = 20
	// quietShare is the largest share of the time that looks at the memtable take, as a divisor.
	quietShare = 50
)

// A queue whose consumers look for its first entry is never quiet: each of them steps over the tombstones of all
// entries taken before. So a memtable is flushed also when iterators have made so many of these steps that a flush, and
// the compaction of level 0 after it, may be cheaper.
const (
	// leastHindering is how many tombstones the memtable must have.
	leastHindering = 1000
	// mostHidden is how many hidden entries iterators step over before that. A step takes about 0.1 us.
	mostHidden = 5_000_000
)

// Hindered says that an iterator has stepped over so many hidden entries, the last of which is in a memtable or in
// level 0 of v. It may be called from any goroutine. What iterators of earlier versions step over may be gone.
func (c *Committer) Hindered(v *version.Version, entries int) {
	if c.state().Version == v {
		c.hidden.Add(int64(entries))
	}
}

// considerTombstones is called after a commit, with the active memtable, which has many tombstones. Only the leader
// calls it.
func (c *Committer) considerTombstones(mem *lookup.Memtable) {
	if c.hidden.Load() < mostHidden || c.stalled() || !c.store.CanRelieve() {
		return
	}
	if c.log.next == nil {
		c.prepareSuccessor()
		return
	}
	select {
	case <-c.log.next.done:
	default:
		return // this write does not wait
	}
	c.hidden.Store(0)
	mem.Hinders = true
	_ = c.rotate(0) // the write is done; if the log has failed, the next one says so
}

// AwaitQuiet starts the wait for a time without writes, unless a goroutine that has waited goes on. Only the leader
// calls it, and Open before there is one.
func (c *Committer) AwaitQuiet() {
	if !c.waitsForQuiet.CompareAndSwap(false, true) {
		return
	}
	base.GoIn(&c.background, func() {
		_ = c.Guard("a look for space to free", func() error { c.flushWhenQuiet(); return nil })
	})
}

// flushWhenQuiet is the work of the goroutine that AwaitQuiet starts. It ends when nothing is written any more, and a
// flush has begun or would free nothing. A later write starts another one. What cannot begin because compactions are
// paused, held or have failed, writers wait, or the disk is full, is tried again. Of a memtable to which only values
// are written, the tombstones are looked at once.
func (c *Committer) flushWhenQuiet() {
	c.store.SetQuiet(false)
	_, seen := c.written() // a reference to the memtable would keep it in memory while this waits
	looked := seen
	for periods := 1; c.Pause(max(quietFor, c.lookCost*quietShare)) && c.refusal() == nil; periods++ {
		mem, now := c.written()
		quiet := now == seen
		if quiet {
			c.store.SetQuiet(true)
		}
		ended := now.deleted() == seen.deleted() && now.tombstones > 0 && now.deleted() != looked.deleted()
		settled := (quiet || ended || periods >= longestQuiet) && c.settled(mem, quiet)
		if settled {
			looked, periods = now, 0
		}
		if seen = now; !quiet || !settled {
			continue
		}
		c.waitsForQuiet.Store(false)
		// The leader has started no goroutine for what came before that.
		if _, later := c.written(); later == now || later.entries == 0 || !c.waitsForQuiet.CompareAndSwap(false, true) {
			return
		}
		c.store.SetQuiet(false)
	}
}

// written is what a memtable has, and the number of its log.
type written struct {
	log                 uint64
	entries, tombstones int
}

// deleted is w without entries that are no tombstones.
func (w written) deleted() written { return written{w.log, 0, w.tombstones} }

// written returns the active memtable and what it has.
func (c *Committer) written() (*lookup.Memtable, written) {
	mem := c.state().Mem
	return mem, written{mem.LogNum, mem.Len(), mem.Tombstones()}
}

// settled reports whether a flush of mem has begun or would free nothing; as long as writes go on, by its tombstones.
func (c *Committer) settled(mem *lookup.Memtable, quiet bool) bool {
	start := time.Now()
	gain, known := c.store.WouldFree(mem.Memtable, quiet)
	c.lookCost = time.Since(start)
	return known && (gain == nil || c.flushQuietly(mem, gain))
}

// flushQuietly reports whether a flush of mem has begun, which frees gain. It does not wait for one in progress.
func (c *Committer) flushQuietly(mem *lookup.Memtable, gain *version.Gain) (begun bool) {
	err := c.run(&request{alone: func() error {
		err := c.ready()
		if err == nil && c.state().Mem == mem && !c.stalled() {
			mem.Gain = gain
			err = c.rotate(0)
		}
		return err
	}})
	// A failure of the log has ended the writes, and is reported.
	return err == nil && c.state().Mem != mem
}
