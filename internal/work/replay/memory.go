package replay

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/memtable"
)

// A read-only opening keeps the entries of the logs in memory. An entry of a memtable uses about 28 bytes in addition
// to its value, whereas an entry of a log may have two: a deletion of the empty key. But few entries can be that short
// and have different keys. Only the newest version of a key is visible, because there are no older snapshots. So hidden
// versions are removed when a memtable is full, which keeps the memory below eight times the size of the logs.

const (
	// minReplayBuffer is the minimum size in bytes of a memtable of a read-only opening, unless
	// the logs are small. It is more than twice what all keys of up to two bytes need.
	minReplayBuffer = 4 << 20
	// entryGrowth is more than the factor by which the bytes of a log grow in a memtable.
	entryGrowth = 16
	// nodeOverhead is the minimum that a memtable adds to an entry.
	nodeOverhead = 16
	// minHidden is the divisor of the part of a memtable that must be hidden before thinOut copies
	// the visible versions.
	minHidden = 8
)

// A log may have been written with a larger Options.Memtables.Size, or by another program. One table
// for every few KiB of it would put more tables on level 0 than a compaction or lookup should read.
// So the memtables of an opening for writing have room for a 16th of the logs. If memory is not scarce,
// they also have room for minReplayBuffer unless the logs are small.
const (
	replayTables    = 16
	maxReplayBuffer = 64 << 20
)

// replayBuffer returns the minimum size in bytes of a memtable of an opening for writing, and the usual minimum.
func (r *Replayer) replayBuffer() (least, usual uint64) {
	logBytes := r.logBytes()
	least = min(logBytes/replayTables, maxReplayBuffer)
	return least, max(least, min(2*logBytes, minReplayBuffer))
}

func (r *Replayer) logBytes() (n uint64) {
	for _, f := range r.logs {
		n += uint64(f.Size)
	}
	return n
}

// insert adds a batch, whose bytes are known to be valid, to the memtable. A large batch is added
// entry by entry to as many memtables as needed, because reserving memory for all of it would use 70
// times its size if the entries are tiny. No reader sees a part of it, because nothing is published
// before all logs are replayed. This also wastes no room in memtables that are kept.
func (r *Replayer) insert(record []byte, memSize uint64) error {
	if memSize <= uint64(r.opts.WriteBufferSize) && !r.opts.ReadOnly {
		if err := r.makeRoom(memSize); err != nil {
			return err
		}
		batch.Insert(r.mem, &r.inserter, record)
		return nil
	}
	b, err := batch.NewReader(record)
	for err == nil {
		kind, key, value, seq, ok, nextErr := b.Next()
		if !ok {
			return nextErr
		}
		if err = r.makeRoom(uint64(memtable.EntrySize(len(key), len(value)))); err == nil {
			r.mem.AddWith(&r.inserter, seq, kind, key, value)
		}
	}
	return err
}

func (r *Replayer) makeRoom(memSize uint64) error {
	if r.mem != nil && uint64(r.mem.Available()) >= memSize {
		return nil
	}
	if r.opts.ReadOnly {
		return r.keepRoom(memSize)
	}
	if r.mem != nil {
		if err := r.flush(); err != nil {
			return err
		}
	}
	least, usual := r.replayBuffer()
	usual = max(uint64(memtable.ArenaSize(r.opts.WriteBufferSize)), max(memSize, usual)+memtable.Slack)
	r.mem = r.opts.NewMemtable(max(memSize, least)+memtable.Slack, usual)
	return nil
}

// flush writes the memtable as a table of level 0.
func (r *Replayer) flush() error {
	var edit manifest.Edit
	_, err := r.opts.WriteTable(r.mem, &edit)
	r.tables = append(r.tables, edit.Added...)
	r.mem = nil
	return err
}

// keepRoom makes room in memory for an entry of memSize bytes.
func (r *Replayer) keepRoom(memSize uint64) error {
	if r.mem != nil {
		if err := r.thinOut(); err != nil {
			return err
		}
		if uint64(r.mem.Available()) >= memSize {
			return nil
		}
		r.full = append(r.full, r.mem)
	}
	capacity := max(uint64(r.opts.WriteBufferSize), min(minReplayBuffer, entryGrowth*r.logBytes()),
		memSize+memtable.Slack)
	r.mem = memtable.New(r.opts.Comparer, int(capacity))
	return nil
}

// thinOut removes the hidden versions from the memtable if they use enough of it. The old memtable is
// kept as the target of the next copy.
func (r *Replayer) thinOut() error {
	hidden := 0
	err := r.versions(func(ikey, value []byte, newest bool) {
		if !newest {
			hidden += len(ikey) + len(value) + nodeOverhead
		}
	})
	if err != nil || hidden < r.mem.Capacity()/minHidden {
		return err
	}
	to := r.spare
	if to == nil || to.Capacity() < r.mem.Capacity() {
		to = memtable.New(r.opts.Comparer, r.mem.Capacity())
	}
	to.Reset()
	fits := true
	var inserter memtable.Inserter
	err = r.versions(func(ikey, value []byte, newest bool) {
		if newest && fits {
			seq, kind := base.SplitTrailer(base.Trailer(ikey))
			fits = to.AddWith(&inserter, seq, kind, base.UserKey(ikey), value)
		}
	})
	if err != nil || !fits { // possible because towers have random heights, but very rare
		return err
	}
	r.mem, r.spare = to, r.mem
	r.inserter.Reset() // it may refer to the old memtable
	return nil
}

// versions calls f for each entry of the memtable. newest reports whether the entry is the newest version of its key.
func (r *Replayer) versions(f func(ikey, value []byte, newest bool)) error {
	it := r.mem.NewIter()
	defer it.Close()
	var before []byte
	for ok := it.First(); ok; ok = it.Next() {
		ikey := it.Key()
		f(ikey, it.Value(), before == nil || r.opts.Comparer.Compare(base.UserKey(before), base.UserKey(ikey)) != 0)
		before = ikey // in the arena
	}
	return it.Err()
}
