package db

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/read/latency"
	"github.com/sievedb/sievedb/internal/write/txn"
	"github.com/sievedb/sievedb/memtable"
)

// logState is the log that the leader appends to.
type logState struct {
	w       *wal.Writer
	lastSeq uint64 // the last sequence number assigned, even to a write that failed
	// logged is the number of the last write or load that did not fail, or of a failed one that the MANIFEST counts.
	logged uint64
	// full is set if the disk was full: the log takes no more records, but a new one may.
	// replaced says that w is already the new one; see replaceLog.
	full     error
	replaced bool
	// buffered signals handOverLoop that w may hold back records; nil until it runs.
	buffered chan struct{}
	next     *successor // the prepared log and memtable, or the ones being prepared; nil if not begun
	// inserter remembers the position of the last insert: ascending keys are cheap.
	inserter memtable.Inserter
}

// close makes the log durable and closes it.
func (l *logState) close(d *DB) error {
	if l.w == nil {
		return nil
	}
	// The content of a log that a full disk ended cannot be made durable any more.
	err := l.full
	if err == nil && l.w.Unsynced() > 0 && d.failure() == nil { // after a failure the file is not touched again
		err = l.w.Sync()
	}
	return errors.CombineErrors(err, l.w.Close())
}

// Put writes value under key. Nil WriteOptions mean Sync. A key above MaxKeySize or a value
// above MaxValueSize is ErrTooLarge, and nothing is written. After another error the write
// may or may not be present when the database is opened again. Put keeps neither slice.
func (d *DB) Put(key, value []byte, wo *WriteOptions) error {
	return d.write(base.KindSet, key, value, wo)
}

// Delete deletes key. Deleting a key that does not exist is no error. Otherwise it is like Put.
func (d *DB) Delete(key []byte, wo *WriteOptions) error {
	return d.write(base.KindDelete, key, nil, wo)
}

// write commits one entry. A single writer needs no batch and no place in the queue.
func (d *DB) write(kind base.Kind, key, value []byte, wo *WriteOptions) error {
	if d == nil {
		return ErrClosed
	}
	if d.listenerCalls.InThisGoroutine() {
		return ErrInListener
	}
	if d.expiry != nil {
		var err error
		if kind, value, err = d.seal(kind, key, value); err != nil {
			return err
		}
	}
	keep := wo.durability()
	if len(key)+len(value) >= largeWrite {
		return d.writeLarge(kind, key, value, keep)
	}
	if keep != onDisk && !d.opts.ReadOnly && len(key) <= maxLoneBytes && len(value) <= maxLoneBytes && d.commit.tryLead() {
		return base.NoSpace(d.commitAlone(kind, key, value, keep))
	}
	b := batches.Get().(*batch.Batch)
	b.Add(kind, key, value)
	b.MarkSealed()
	err := d.applyUnder(context.Background(), b, wo)
	release(b)
	return err
}

// commitAlone commits one entry and releases the leadership, which the caller has.
func (d *DB) commitAlone(kind base.Kind, key, value []byte, keep durability) (err error) {
	returned := false
	defer func() {
		if !returned {
			d.leaderPanicked(recover())
		}
	}()
	err = d.commitEntry(kind, key, value, keep)
	returned = true
	d.commit.stepDown(1)
	return err
}

// maxLoneBytes bounds the buffers that are kept for the entries of single writes.
const maxLoneBytes = 64 << 10

var batches = sync.Pool{New: func() any { return new(batch.Batch) }}

// release returns b to the pool, unless its buffer is too large to be worth keeping.
func release(b *batch.Batch) {
	if b.Cap() <= maxLoneBytes {
		b.Reset()
		batches.Put(b)
	}
}

// Apply writes the batch atomically: after a crash either all of its writes are present or
// none, and readers see all of them or none. Otherwise it is like Put. The batch must not be
// used until Apply returns, and does not change. A batch with a key, a value or a size above
// the limits is ErrTooLarge. A nil batch, a copy of a Batch, and a batch that several
// goroutines use at the same time are refused with an error, and nothing is written; see
// Batch. An empty batch writes nothing; with Sync it syncs the log, as SyncLog does.
func (d *DB) Apply(b *Batch, wo *WriteOptions) error {
	return d.applyUnder(context.Background(), b.own(), wo)
}

// applyUnder is Apply with a context for the ranges of a batch.
func (d *DB) applyUnder(ctx context.Context, b *batch.Batch, wo *WriteOptions) (err error) {
	switch {
	case d == nil || d.closed.Load():
		return ErrClosed
	case d.opts.ReadOnly:
		return ErrReadOnly
	case d.listenerCalls.InThisGoroutine():
		return ErrInListener
	case b == nil:
		return errors.New("sievedb: Apply: the batch is nil; pass a pointer to a Batch")
	case !b.Begin():
		return b.Misuse()
	}
	defer func() {
		if !b.End() && err == nil {
			err = errors.New("sievedb: Apply: the batch was written, but another goroutine used it meanwhile, and its writes to it were refused; " +
				"give each goroutine its own Batch")
		}
	}()
	if b.HasRanges() {
		if err := b.Refused(); err != nil {
			return err
		}
		return d.applyRanges(ctx, b, wo)
	}
	return d.apply(b, wo, nil)
}

// SyncLog makes all acknowledged writes durable, whatever their WriteOptions were, as the
// next write with Sync would: after it returns nil, all of them survive a power cut. It costs
// one fsync of the log, which concurrent writes share, or none if nothing was written since
// the last one.
//
// After an error, writes that were acknowledged with NoSync or Buffered may be lost in a power
// cut. A failed sync ends the writes of the store, like the failed sync of a write; see
// ErrReadOnly. On a full disk the error is ErrNoSpace, and the next call tries again. A closed
// store returns ErrClosed, a read-only one ErrReadOnly, and a call from a function of the
// EventListener ErrInListener.
//
// It may be called from any goroutine. It waits for writes that are already queued, which may
// wait for a flush. Flush makes writes durable too, but writes a table.
func (d *DB) SyncLog() error { return d.Apply(new(Batch), Sync) }

// apply is Apply for a batch that the caller has exclusively. It is not written if check, which
// may be nil, returns an error.
func (d *DB) apply(b *batch.Batch, wo *WriteOptions, check txn.Check) error {
	if err := b.Refused(); err != nil {
		return err
	}
	if b.NeedsSeal(d.expiry) {
		return d.sealBatch(b, func(b *batch.Batch) error { return d.apply(b, wo, check) })
	}
	if err := b.CheckMemory(); err != nil {
		return err
	}
	if b.Len() == 0 && wo.durability() != onDisk {
		return nil
	}
	r := d.commit.requests.Get().(*commitRequest)
	r.batch, r.keep, r.alone = b, wo.durability(), nil
	r.check = check
	began := latency.Start(r.keep == onDisk, d.finder.VisibleSeq.Load())
	err := d.commit.run(d, r)
	d.latency.Put.End(began, r.keep == onDisk, err)
	r.batch, r.err, r.check = nil, nil, nil
	d.commit.requests.Put(r)
	return err
}

// commitGroup writes the group to the log and the memtable. Only the leader
// runs it.
func (d *DB) commitGroup(q *commitQueue) error {
	if alone := q.group[0].alone; alone != nil {
		if err := d.needLog(); err != nil {
			return err
		}
		return alone(d)
	}
	var memSize uint64
	count, batches, size, keep := uint64(0), 0, 0, inBuffer
	if q.checked {
		q.dropConflicts()
	}
	for _, r := range q.group {
		if r.batch.Len() > 0 {
			batches++
		}
		memSize += r.batch.MemSize()
		count += uint64(r.batch.Count())
		size += r.batch.Size()
		keep = max(keep, r.keep)
	}
	if count == 0 && keep == onDisk { // the group has only empty batches that are to be synced
		return d.syncLog()
	}
	if count == 0 { // it had only transactions, and all have met conflicts
		return nil
	}
	if err := d.prepareRecord(count, memSize, size); err != nil {
		return err
	}
	if err := d.commitRecord(q.groupRecord(d.log.lastSeq+1, count), count, batches, keep); err != nil {
		return err
	}
	d.retireOversized()
	return nil
}

// syncLog makes the content of the log durable. Older logs are durable since they were
// replaced. Only the leader runs it.
func (d *DB) syncLog() error {
	if err := d.needLog(); err != nil {
		return err
	}
	if err := d.writeErr(); err != nil {
		return err
	}
	if d.log.w.Unsynced() == 0 {
		return nil
	}
	if err := d.noteAppended(nil, d.log.w.Size(), onDisk); err != nil {
		d.logFailed(err)
		return err
	}
	return nil
}

// commitEntry is commitGroup for one entry of a writer that leads by itself.
func (d *DB) commitEntry(kind base.Kind, key, value []byte, keep durability) error {
	began := latency.Start(keep == onDisk, d.log.lastSeq)
	memSize := uint64(memtable.EntrySize(len(key), len(value)))
	if err := d.prepareRecord(1, memSize, len(key)+len(value)); err != nil {
		return err
	}
	prepared := began.Again()
	seq := d.log.lastSeq + 1
	d.commit.record = batch.AppendRecord(d.commit.record[:0], seq, kind, key, value)
	if err := d.logRecord(d.commit.record, 1, keep); err != nil {
		return err
	}
	// To decode what was just encoded would take 3 % of an ascending put.
	if !d.state().Mem.AddWith(&d.log.inserter, seq, kind, key, value) {
		panic(batch.NoRoom)
	}
	if d.recent.Watched() {
		d.recent.Note(d.finder.VisibleSeq.Load(), d.commit.record)
	}
	d.show(1, len(d.commit.record))
	if began != 0 {
		d.latency.Put.End(began, keep == onDisk, nil)
		d.latency.Commit.End(prepared, keep == onDisk, nil)
	}
	return nil
}

// needLog makes sure that a log for new records exists. Only the leader runs it.
func (d *DB) needLog() error {
	if d.closed.Load() {
		return ErrClosed
	}
	if d.ended.Load() == frozen {
		return ErrReadOnly
	}
	if d.log.full != nil {
		return d.replaceLog()
	}
	return nil
}

// prepareRecord makes sure that log, memtable and sequence numbers have room for a
// record of about so many bytes with count entries. Only the leader runs it.
func (d *DB) prepareRecord(count, memSize uint64, recordBytes int) error {
	if err := d.needLog(); err != nil {
		return err
	}
	if err := d.makeRoom(memSize, recordBytes); err != nil {
		return err
	}
	if d.log.lastSeq+count > base.MaxSeq {
		return errors.Newf("sievedb: out of sequence numbers: %d are used, %d are the limit of the format", d.log.lastSeq, base.MaxSeq)
	}
	return nil
}

// commitRecord writes a record of so many entries and batches, which is numbered from
// the next sequence number on, to the log and the memtable. Only the leader runs it.
func (d *DB) commitRecord(record []byte, count uint64, batches int, keep durability) error {
	began := latency.Start(keep == onDisk, d.log.lastSeq)
	if err := d.logRecord(record, count, keep); err != nil {
		return err
	}
	batch.Insert(d.state().Mem.Memtable, &d.log.inserter, record)
	if d.recent.Watched() {
		d.recent.Note(d.finder.VisibleSeq.Load(), record)
	}
	d.show(batches, len(record))
	d.latency.Commit.End(began, keep == onDisk, nil)
	return nil
}

// logRecord gives a record of so many entries their sequence numbers and writes it to the log.
func (d *DB) logRecord(record []byte, count uint64, keep durability) error {
	d.log.lastSeq += count // even if the write fails: its numbers are never used again
	if err := d.appendLog(record, keep); err != nil {
		d.logFailed(err)
		return err
	}
	d.log.logged = d.log.lastSeq
	return nil
}

// show makes the last record of so many batches and bytes, all of which is in the memtable and
// was noted in d.recent, visible to readers.
func (d *DB) show(batches, recordBytes int) {
	d.finder.VisibleSeq.Store(d.log.lastSeq)
	if d.changes != nil {
		d.wakeReaders()
	}
	d.counters.writes.Add(uint64(batches))
	d.counters.writeBytes.Add(uint64(recordBytes))
}

// groupRecord returns the log record of the group: a lone batch's own bytes, or
// one batch made of all of them.
func (q *commitQueue) groupRecord(seq, count uint64) []byte {
	if len(q.group) == 1 {
		return q.group[0].batch.Record(seq)
	}
	q.record = binary.LittleEndian.AppendUint64(q.record[:0], seq)
	q.record = binary.LittleEndian.AppendUint32(q.record, uint32(count))
	for _, r := range q.group {
		q.record = append(q.record, r.batch.Entries()...)
	}
	return q.record
}

// appendLog appends a record to the log and takes it as far as keep says.
func (d *DB) appendLog(record []byte, keep durability) error {
	before := d.log.w.Size()
	err := d.beginLog()
	switch {
	case err != nil:
	case keep == inBuffer:
		err = d.log.w.BufferRecord(record)
	default:
		err = d.log.w.WriteRecord(record)
	}
	return d.noteAppended(err, before, keep)
}

// beginLog buffers the preamble of a log that is empty. Every append to a log calls it first.
func (d *DB) beginLog() error {
	if d.log.w.Size() > 0 {
		return nil
	}
	return batch.BufferPreamble(d.log.w, d.log.logged)
}

// noteAppended ends an append to the log, which was before bytes long and whose error is err.
func (d *DB) noteAppended(err error, before int64, keep durability) error {
	if err != nil {
		return errors.Wrap(err, "sievedb: writing the log")
	}
	d.counters.logBytes.Add(uint64(d.log.w.Size() - before))
	switch keep {
	case inBuffer:
		d.noteBuffered()
	case onDisk:
		if err := d.fsyncLog(); err != nil {
			return errors.Wrap(err, "sievedb: syncing the log")
		}
	}
	return nil
}

// fsyncLog syncs the log once.
func (d *DB) fsyncLog() error {
	began := latency.Now()
	err := d.log.w.Sync()
	if err == nil {
		d.synced.Store(d.log.lastSeq)
		if d.changes != nil {
			d.wakeReaders()
		}
		d.latency.Fsync.End(began)
		d.counters.logSyncs.Add(1)
	}
	return err
}
