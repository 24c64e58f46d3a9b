package db

import (
	"encoding/binary"
	"runtime"
	"sync"

	"github.com/cockroachdb/errors"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/wal"
	"github.com/sievedb/sievedb/memtable"
)

// maxGroupBytes bounds the log record that a leader writes for several batches,
// so that the first of them does not wait long for the others. As LevelDB.
const maxGroupBytes = 1 << 20

// commitRequest is one writer's place in the queue.
type commitRequest struct {
	batch *Batch // nil for what goes alone
	keep  durability
	alone func(*DB) error // what is to be done in place of a write, by itself
	err   error
	wake  chan bool // true: the receiver leads now; false: err is set
}

var commitRequests = sync.Pool{New: func() any { return &commitRequest{wake: make(chan bool, 1)} }}

// commitQueue orders writers. The first one to find no leader leads: it commits
// a group from the head of the queue, itself first, then hands the leadership to
// the new head. While a leader waits for the disk, the next group gathers.
type commitQueue struct {
	mu      sync.Mutex
	waiting []*commitRequest
	led     bool
	closed  bool

	// What follows is the leader's.
	group    []*commitRequest
	record   []byte
	expected int // how many writers there were when the last group was done
}

// run queues r and returns when it was committed.
func (q *commitQueue) run(d *DB, r *commitRequest) error {
	if r.wake == nil {
		r.wake = make(chan bool, 1)
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrClosed
	}
	q.waiting = append(q.waiting, r)
	lead := !q.led
	q.led = true
	q.mu.Unlock()
	if !lead && !<-r.wake {
		return r.err
	}
	q.lead(d)
	return r.err
}

// lead commits the group at the head of the queue, the caller's request first.
func (q *commitQueue) lead(d *DB) {
	q.gather()
	q.takeGroup()
	err := base.NoSpace(d.commitGroup(q))
	own := q.group[0]
	own.err = err
	for _, r := range q.group[1:] {
		r.err = err
		r.wake <- false
	}
	q.mu.Lock()
	q.expected = len(q.waiting) + len(q.group)
	clear(q.group)
	if len(q.waiting) > 0 {
		q.waiting[0].wake <- true
	} else {
		q.led = false
	}
	q.mu.Unlock()
}

// gatherYields bounds how often a leader lets others run before it syncs: that many
// passes of the run queue take some microseconds, a sync a hundred times that.
const gatherYields = 4

// gather gives those whom the last leader has just answered the time to queue up
// again before a sync. Without that two halves of the writers would take turns, each
// waiting for the other's sync and then for its own.
func (q *commitQueue) gather() {
	for range gatherYields {
		q.mu.Lock()
		enough := q.waiting[0].keep != onDisk || len(q.waiting) >= q.expected
		q.mu.Unlock()
		if enough {
			return
		}
		runtime.Gosched()
	}
}

// takeGroup moves what is committed together from the queue to q.group. What is no
// write goes alone.
func (q *commitQueue) takeGroup() {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for _, r := range q.waiting {
		if r.alone != nil {
			n = max(n, 1)
			break
		}
		if size += r.batch.Size(); size > maxGroupBytes && n > 0 {
			break
		}
		n++
	}
	q.group = append(q.group[:0], q.waiting[:n]...)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
}

// shut refuses new requests and waits until those queued are done, which is
// soon: the store is closed, so each of them fails.
func (q *commitQueue) shut() {
	q.mu.Lock()
	q.closed = true
	wait := q.led
	var last *commitRequest
	if wait {
		last = &commitRequest{wake: make(chan bool, 1), alone: (*DB).handOver}
		q.waiting = append(q.waiting, last)
	}
	q.mu.Unlock()
	if wait {
		<-last.wake // leadership, which is never given on
	}
}

// logState is the log that the leader appends to.
type logState struct {
	w       *wal.Writer
	lastSeq uint64 // the last sequence number given out, be it to a write that failed
	// full is why the log takes no more records although another one may: the disk
	// was full. replaced says that w is that other one already; see replaceLog.
	full     error
	replaced bool
	// buffered tells handOverLoop that w may hold back records; nil until it runs.
	buffered chan struct{}
	// inserter remembers where the last insert went: ascending keys are cheap.
	inserter memtable.Inserter
}

// close makes the log durable and closes it.
func (l *logState) close(d *DB) error {
	if l.w == nil {
		return nil
	}
	// What a log holds that a full disk ended cannot be made durable any more.
	err := l.full
	if err == nil && l.w.Unsynced() > 0 && d.writeErr() == nil { // after a failure the file is not touched again
		err = l.w.Sync()
	}
	return errors.CombineErrors(err, l.w.Close())
}

// Put writes value under key. The nil WriteOptions are Sync. After an error the
// write may or may not be there when the database is opened again.
func (d *DB) Put(key, value []byte, wo *WriteOptions) error {
	b := batches.Get().(*Batch)
	b.Put(key, value)
	return d.applyPooled(b, wo)
}

// Delete deletes key; deleting what does not exist is fine. Otherwise as Put.
func (d *DB) Delete(key []byte, wo *WriteOptions) error {
	b := batches.Get().(*Batch)
	b.Delete(key)
	return d.applyPooled(b, wo)
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

func (d *DB) applyPooled(b *Batch, wo *WriteOptions) error {
	err := d.Apply(b, wo)
	if cap(b.data) <= 64<<10 { // a huge value's buffer is not worth keeping
		b.Reset()
		batches.Put(b)
	}
	return err
}

// Apply writes the batch atomically: after a crash all of it is there or none,
// and readers see all of it or none. Otherwise as Put. The batch must not be
// used until Apply returns, and is unchanged then.
func (d *DB) Apply(b *Batch, wo *WriteOptions) error {
	switch {
	case d.closed.Load():
		return ErrClosed
	case d.opts.ReadOnly:
		return ErrReadOnly
	case b.tooBig || b.memSize > maxBatchSize:
		return errors.Newf("sievedb: the batch exceeds %d bytes or %d entries; apply it in parts", maxBatchSize, 1<<31-1)
	case b.Len() == 0:
		return nil
	}
	r := commitRequests.Get().(*commitRequest)
	r.batch, r.keep, r.alone = b, wo.durability(), nil
	err := d.commit.run(d, r)
	r.batch, r.err = nil, nil
	commitRequests.Put(r)
	return err
}

// commitGroup writes the group to the log and the memtable. Only the leader
// runs it.
func (d *DB) commitGroup(q *commitQueue) error {
	if d.closed.Load() {
		return ErrClosed
	}
	if d.log.full != nil {
		if err := d.replaceLog(); err != nil {
			return err
		}
	}
	if alone := q.group[0].alone; alone != nil {
		return alone(d)
	}
	var memSize uint64
	count, size, keep := uint64(0), 0, inBuffer
	for _, r := range q.group {
		memSize += r.batch.memSize
		count += uint64(r.batch.count())
		size += r.batch.Size()
		keep = max(keep, r.keep)
	}
	if err := d.makeRoom(memSize, size); err != nil {
		return err
	}
	if d.log.lastSeq+count > base.MaxSeq {
		return errors.Newf("sievedb: out of sequence numbers: %d are used, %d are the limit of the format", d.log.lastSeq, base.MaxSeq)
	}
	record := q.groupRecord(d.log.lastSeq+1, count)
	d.log.lastSeq += count // even if the write fails: its numbers are never used again
	if err := d.appendLog(record, keep); err != nil {
		d.logFailed(err)
		return err
	}
	insertBatch(d.state.Load().mem.Memtable, &d.log.inserter, record)
	d.visibleSeq.Store(d.log.lastSeq)
	d.counters.writes.Add(uint64(len(q.group)))
	d.counters.writeBytes.Add(uint64(len(record)))
	return nil
}

// groupRecord returns the log record of the group: a lone batch's own bytes, or
// one batch made of all of them.
func (q *commitQueue) groupRecord(seq, count uint64) []byte {
	if len(q.group) == 1 {
		b := q.group[0].batch
		b.setSeq(seq)
		return b.data
	}
	q.record = binary.LittleEndian.AppendUint64(q.record[:0], seq)
	q.record = binary.LittleEndian.AppendUint32(q.record, uint32(count))
	for _, r := range q.group {
		q.record = append(q.record, r.batch.data[batchHeaderLen:]...)
	}
	return q.record
}

// appendLog appends a record to the log and takes it as far as keep says.
func (d *DB) appendLog(record []byte, keep durability) error {
	before := d.log.w.Size()
	var err error
	if keep == inBuffer {
		err = d.log.w.BufferRecord(record)
	} else {
		err = d.log.w.WriteRecord(record)
	}
	if err != nil {
		return errors.Wrap(err, "sievedb: writing the log")
	}
	d.counters.logBytes.Add(uint64(d.log.w.Size() - before))
	switch keep {
	case inBuffer:
		d.noteBuffered()
	case onDisk:
		if err := d.log.w.Sync(); err != nil {
			return errors.Wrap(err, "sievedb: syncing the log")
		}
		d.counters.logSyncs.Add(1)
	}
	return nil
}
