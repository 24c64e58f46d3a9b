package commit

import (
	"context"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/read/latency"
	"github.com/sievedb/sievedb/internal/write/txn"
	"github.com/sievedb/sievedb/memtable"
)

// largeWrite is the size in bytes, key and value together, from which a Put makes no batch: it
// would be a copy of the value, and it is too large for any group.
const largeWrite = maxGroupBytes

// maxLoneBytes bounds the buffers that are kept for the entries of single writes.
const maxLoneBytes = batch.MaxKept

// Put commits one entry. A single writer needs no batch and no place in the queue. The slices are not kept.
func (c *Committer) Put(kind base.Kind, key, value []byte, d Durability) error {
	if len(key)+len(value) >= largeWrite {
		return c.putLarge(kind, key, value, d)
	}
	if d != OnDisk && len(key) <= maxLoneBytes && len(value) <= maxLoneBytes && c.queue.tryLead() {
		return base.NoSpace(c.putAlone(kind, key, value, d))
	}
	b := batch.Borrow()
	b.Add(kind, key, value)
	err := c.Apply(b, d, nil)
	batch.Return(b)
	return err
}

// putAlone commits one entry and releases the leadership, which the caller has.
func (c *Committer) putAlone(kind base.Kind, key, value []byte, d Durability) (err error) {
	returned := false
	defer func() {
		if !returned {
			c.leaderPanicked(recover())
		}
	}()
	began := latency.Start(false, c.log.lastSeq)
	r := entryRecord(kind, key, value, d)
	err = c.commit(&r)
	if began != 0 {
		c.o.Latency.Put.End(began, false, err)
	}
	returned = true
	c.queue.stepDown(1)
	return err
}

// putLarge commits one large entry from its caller's memory.
func (c *Committer) putLarge(kind base.Kind, key, value []byte, d Durability) error {
	if err := batch.CheckEntry(key, value); err != nil {
		return err
	}
	began := latency.Start(d == OnDisk, c.o.Current.VisibleSeq.Load())
	err := c.run(&request{durability: d, alone: func() error {
		r := entryRecord(kind, key, value, d)
		err := c.commit(&r)
		if err == nil {
			c.retireOversized()
		}
		return err
	}})
	c.o.Latency.Put.End(began, d == OnDisk, err)
	return err
}

// Apply commits a batch, which must not change meanwhile. It is not written if check, which may be nil, returns an
// error: then Apply returns that error as it is. An empty batch fails as a write would; with OnDisk it makes all
// earlier writes durable.
func (c *Committer) Apply(b *batch.Batch, d Durability, check txn.Check) error {
	if err := b.Refused(); err != nil {
		return err
	}
	if err := b.CheckMemory(); err != nil {
		return err
	}
	r := c.queue.requests.Get().(*request)
	r.batch, r.durability, r.check = b, d, check
	began := latency.Start(d == OnDisk, c.o.Current.VisibleSeq.Load())
	err := c.run(r)
	c.o.Latency.Put.End(began, d == OnDisk, err)
	r.batch, r.err, r.check = nil, nil, nil
	c.queue.requests.Put(r)
	return err
}

// retireOversized starts the flush of a memtable that was made for one large write, if it uses more memory than all
// memtables otherwise do: nothing else fits into it, and it would wait for the next write. It does not wait for a flush
// in progress, because the write that made the memtable is done. Only the leader calls it.
func (c *Committer) retireOversized() {
	l := c.limits.Load()
	usual := memtable.ArenaSize(l.MemtableSize) * (l.MaxMemtables + 1)
	if mem := c.state().Mem; mem.Capacity() <= usual && !mem.Grant.Overdraft() {
		return
	}
	if c.stalled() || c.closed.Load() {
		return
	}
	if err := c.rotate(0); err != nil {
		// If the log has failed, the next write reports that.
		c.o.Dir.Logger.Warn("the memtable of a large write stays until the next write", "err", err)
	}
}

// run queues r and returns when it has ended.
func (c *Committer) run(r *request) error {
	if c.queue.enter(r) {
		c.lead()
	}
	return r.err
}

// lead commits the group at the head of the queue, the caller's request first.
func (c *Committer) lead() {
	returned := false
	defer func() {
		if !returned {
			c.leaderPanicked(recover())
		}
	}()
	c.queue.gather()
	c.queue.takeGroup(c.state().Mem.Available())
	err := base.NoSpace(c.commitGroup())
	returned = true
	c.queue.endGroup(err)
}

// commitGroup commits the group. Only the leader calls it.
func (c *Committer) commitGroup() error {
	q := &c.queue
	if alone := q.group[0].alone; alone != nil {
		return alone()
	}
	if q.checked {
		q.dropConflicts()
	}
	r := groupRecord(q.group)
	switch {
	case r.count > 0:
		if err := c.commit(&r); err != nil {
			return err
		}
		c.retireOversized()
		return nil
	case r.durability == OnDisk: // only empty batches that are to be synced
		return c.syncLog()
	}
	return c.ready() // only empty batches, or transactions that have met conflicts
}

// Leader is what only the leader may do. It is for the function that Lead calls, until that returns.
type Leader struct{ c *Committer }

// Lead calls f while no writer writes, in the order of the queue. If ctx is done before its turn, it returns the error
// of ctx. If writes have ended, it returns the reason. In both cases f is not called.
func (c *Committer) Lead(ctx context.Context, f func(l *Leader) error) error {
	return c.run(&request{ctx: ctx, alone: func() error {
		if err := c.ready(); err != nil {
			return err
		}
		return f(&Leader{c})
	}})
}

// LastSeq returns the last sequence number assigned, even to a write that failed.
func (l *Leader) LastSeq() uint64 { return l.c.log.lastSeq }

// LogSize returns how many bytes of the log have records. Its file may be longer.
func (l *Leader) LogSize() int64 { return l.c.log.w.Size() }

// Logged returns the last sequence number of a write or an edit that did not fail.
func (l *Leader) Logged() uint64 { return l.c.log.logged }

// Advance makes seq the last and the visible sequence number, after an edit with entries up to it is in force, or may
// be: otherwise the next opening could find later writes hidden. durable says that it is in force.
func (l *Leader) Advance(seq uint64, durable bool) {
	c := l.c
	c.log.lastSeq = seq
	c.o.Recent.Forget(seq)
	c.o.Current.VisibleSeq.Store(seq)
	if durable {
		c.log.logged = seq
		c.synced.Store(seq)
		c.wakeReaders()
	}
}

// Flush makes the active memtable immutable and waits until all memtables are tables. It also works while compactions
// are paused.
func (l *Leader) Flush() error {
	end := l.c.FlushInPause()
	err := l.c.rotate(0)
	end()
	if err != nil {
		return err
	}
	return l.c.waitForMemtables()
}

// HandOver writes the buffered records of the log to the operating system.
func (l *Leader) HandOver() error { return l.c.handOver() }
