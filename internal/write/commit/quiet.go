package commit

import (
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/read/lookup"
)

// Deleted values stay on disk, and iterators step over them, until their tombstones are in a table: only then a
// compaction is due. A program that deletes many large values may never fill a memtable with their keys. So a memtable
// with tombstones is flushed once no more come for a while, if a compaction will free space afterwards.
const (
	// leastTombstones are too few to look at. Only long values could be worth a flush for as few.
	leastTombstones = 100
	// quietFor is how long no tombstone must have come, and longestQuiet the number of such periods after which more
	// of them are not waited for.
	quietFor     = 3 * time.Second
	longestQuiet = 20
)

// A queue whose consumers look for its first entry is never quiet: each of them steps over the tombstones of all entries
// taken before. So a memtable is flushed also when iterators have made so many of these steps that a flush, and the
// compaction of level 0 after it, may be cheaper.
const (
	// leastHindering is how many tombstones the memtable must have.
	leastHindering = 1000
	// mostHidden is how many hidden entries iterators step over before that. A step takes about 0.1 us.
	mostHidden = 5_000_000
)

// Hindered says that an iterator has stepped over so many hidden entries, the last of which is in a memtable or in level
// 0 of v. It may be called from any goroutine. What iterators of earlier versions step over may be gone.
func (c *Committer) Hindered(v *manifest.Version, entries int) {
	if c.state().Version == v {
		c.hidden.Add(int64(entries))
	}
}

// considerTombstones is called after a commit, with the active memtable and the number of its tombstones. Only the leader
// calls it.
func (c *Committer) considerTombstones(mem *lookup.Memtable, n int) {
	if !c.waitsForQuiet.Load() {
		c.awaitQuiet()
	}
	if n < leastHindering || c.hidden.Load() < mostHidden || c.stalled() || !c.o.Compactions.CanRelieve() {
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

// awaitQuiet starts the wait for a time without tombstones, unless a goroutine that has waited goes on. Only the leader
// calls it.
func (c *Committer) awaitQuiet() {
	if !c.waitsForQuiet.CompareAndSwap(false, true) {
		return
	}
	base.GoIn(&c.background, func() {
		_ = c.Guard("a flush of tombstones", func() error { c.flushWhenQuiet(); return nil })
	})
}

// flushWhenQuiet is the work of the goroutine that awaitQuiet starts. It ends after a flush, and when a flush would free
// nothing. A later tombstone starts another one. What cannot begin because compactions are paused, held or have failed,
// writers wait, or the disk is full, is tried again.
func (c *Committer) flushWhenQuiet() {
	_, log, seen := c.tombstones() // a reference to the memtable would keep it in memory while this waits
	for periods := 1; c.Pause(quietFor) && c.refusal() == nil; periods++ {
		mem, now, n := c.tombstones()
		quiet := now == log && n == seen || periods >= longestQuiet
		if n >= leastTombstones && !(quiet && c.settled(mem)) {
			log, seen = now, n
			continue
		}
		c.waitsForQuiet.Store(false)
		// The leader has started no goroutine for what came before that.
		if _, log, seen = c.tombstones(); log == now && seen == n || seen < leastTombstones {
			return
		}
		if periods = 0; !c.waitsForQuiet.CompareAndSwap(false, true) {
			return
		}
	}
}

// tombstones returns the active memtable, the number of its log, and that of its tombstones.
func (c *Committer) tombstones() (mem *lookup.Memtable, log uint64, n int) {
	mem = c.state().Mem
	return mem, mem.LogNum, mem.Tombstones()
}

// settled reports whether a flush of mem has begun or would free nothing.
func (c *Committer) settled(mem *lookup.Memtable) bool {
	frees, known := c.o.WouldFree(mem.Memtable)
	return known && (!frees || c.flushQuietly(mem))
}

// flushQuietly reports whether a flush of mem has begun. It does not wait for one in progress.
func (c *Committer) flushQuietly(mem *lookup.Memtable) (begun bool) {
	err := c.run(&request{alone: func() error {
		err := c.ready()
		if err == nil && c.state().Mem == mem && !c.stalled() {
			err = c.rotate(0)
		}
		return err
	}})
	// A failure of the log has ended the writes, and is reported.
	return err == nil && c.state().Mem != mem
}
