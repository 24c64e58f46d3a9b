package commit

import (
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/read/latency"
	"github.com/sievedb/sievedb/memtable"
)

// Durability is where a write must be before it is acknowledged. A group has the greatest durability of its writes.
type Durability uint8

// The durabilities, in ascending order.
const (
	InBuffer   Durability = iota // in the log's buffer
	WithSystem                   // written to the log
	OnDisk                       // and synced
)

// logState is the log that the leader appends to.
type logState struct {
	w       *wal.Writer // nil in a store that only reads
	num     uint64
	lastSeq uint64 // the last sequence number assigned, even to a write that failed
	// logged is the number of the last write or load that did not fail, or of a failed one that the MANIFEST counts.
	logged uint64
	// failed is set if a write or sync failed: the log takes no more records, but a new one may.
	// replaced says that w is already the new one; see replaceLog.
	failed   error
	replaced bool
	// buffered signals handOverLoop that w may hold back records; nil until it runs.
	buffered chan struct{}
	next     *successor // the prepared log and memtable, or the ones being prepared; nil if not begun
	// inserter remembers the position of the last insert: ascending keys are cheap.
	inserter memtable.Inserter
	scratch  []byte // a record
}

// append appends a record, which is in parts. The first record of a log comes after its preamble.
func (l *logState) append(parts [][]byte, d Durability) error {
	if l.w.Size() == 0 {
		if err := batch.BufferPreamble(l.w, l.logged); err != nil {
			return err
		}
	}
	if d == InBuffer && len(parts) == 1 {
		return l.w.BufferRecord(parts[0])
	}
	return l.w.WriteRecordParts(parts...)
}

// writeLog appends a record of count entries, in parts, which are numbered after the last sequence number. It takes the
// record as far as d says. Only the leader calls it.
func (c *Committer) writeLog(count uint64, parts [][]byte, d Durability) error {
	l := &c.log
	if d == InBuffer && c.store.Changes != nil {
		d = WithSystem // the history counts what was acknowledged, and a failure would take the buffer along
	}
	l.lastSeq += count // even if the write fails: its numbers are never used again
	before := l.w.Size()
	if err := l.append(parts, d); err != nil {
		return c.logFailed(errors.Wrap(err, "sievedb: writing the log"))
	}
	c.counters.logBytes.Add(uint64(l.w.Size() - before))
	switch d {
	case InBuffer:
		if c.log.w.Buffered() > 0 {
			c.announceBuffered()
		}
	case OnDisk:
		if err := c.fsync(); err != nil {
			return c.logFailed(errors.Wrap(err, "sievedb: syncing the log"))
		}
	}
	l.logged = l.lastSeq
	return nil
}

// syncLog makes the content of the log durable. Older logs are durable since they were
// replaced. Only the leader calls it.
func (c *Committer) syncLog() error {
	if err := c.ready(); err != nil {
		return err
	}
	if c.log.w.Unsynced() == 0 {
		return nil
	}
	if err := c.fsync(); err != nil {
		return c.logFailed(errors.Wrap(err, "sievedb: syncing the log"))
	}
	return nil
}

// fsync syncs the log once. Only the leader calls it.
func (c *Committer) fsync() error { return c.syncBy(c.log.w.Sync) }

// finishLog syncs a log that takes no more records. Only the leader calls it.
func (c *Committer) finishLog() error {
	if !c.log.w.Unfinished() {
		return nil
	}
	return c.syncBy(c.log.w.Finish)
}

func (c *Committer) syncBy(sync func() error) error {
	began := latency.Now()
	if err := sync(); err != nil {
		return err
	}
	c.synced.Store(c.log.lastSeq)
	c.wakeReaders()
	c.o.Latency.Fsync.End(began)
	c.counters.logSyncs.Add(1)
	return nil
}

// wakeReaders wakes the readers of the history. Only the leader calls it.
func (c *Committer) wakeReaders() {
	if c.store.Changes != nil {
		c.store.Changes.Wake()
	}
}

// close makes the log durable, unless it has failed, and closes it. An error becomes its failure.
func (l *logState) close() {
	if l.failed == nil && l.w.Unfinished() {
		l.failed = l.w.Finish()
	}
	if err := l.w.Close(); l.failed == nil {
		l.failed = err
	}
}
