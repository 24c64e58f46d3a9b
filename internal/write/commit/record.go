package commit

import (
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/read/latency"
	"github.com/sievedb/sievedb/memtable"
)

// record is what the leader commits at once: one entry, or the batches of a group.
type record struct {
	group      []*request // nil: the entry
	kind       base.Kind
	key, value []byte

	batches    int    // those of the group that are not empty
	count      uint64 // entries
	memSize    uint64 // bytes in the memtable
	size       int    // bytes in the log, about
	durability Durability
}

// entryRecord returns the record of one entry.
func entryRecord(kind base.Kind, key, value []byte, d Durability) record {
	return record{
		kind: kind, key: key, value: value, batches: 1, count: 1,
		memSize: uint64(memtable.EntrySize(len(key), len(value))), size: len(key) + len(value), durability: d,
	}
}

// groupRecord returns the record of a group of batches.
func groupRecord(group []*request) record {
	r := record{group: group, durability: InBuffer}
	for _, q := range group {
		if q.batch.Len() > 0 {
			r.batches++
		}
		r.memSize += q.batch.MemSize()
		r.count += uint64(q.batch.Count())
		r.size += q.batch.Size()
		r.durability = max(r.durability, q.durability)
	}
	return r
}

// encode appends the parts of the record in the log, numbered from first on, to parts, and returns scratch, which may
// have grown. A lone batch's own bytes and a large value are not copied.
func (r *record) encode(parts [][]byte, scratch []byte, first uint64) ([][]byte, []byte) {
	switch {
	case len(r.group) == 1:
		return append(parts, r.group[0].batch.Record(first)), scratch
	case r.group == nil && r.size >= largeWrite:
		return append(parts, batch.RecordParts(first, r.kind, r.key, r.value)...), scratch
	case r.group == nil:
		scratch = batch.AppendRecord(scratch[:0], first, r.kind, r.key, r.value)
	default:
		scratch = binary.LittleEndian.AppendUint64(scratch[:0], first)
		scratch = binary.LittleEndian.AppendUint32(scratch, uint32(r.count))
		for _, q := range r.group {
			scratch = append(scratch, q.batch.Entries()...)
		}
	}
	return append(parts, scratch), scratch
}

// commit writes r to the log and the memtable, and makes it visible. Only the leader calls it.
func (c *Committer) commit(r *record) error {
	if err := c.makeReady(r); err != nil {
		return err
	}
	began := latency.Start(r.durability == OnDisk, c.log.lastSeq)
	first := c.log.lastSeq + 1
	var one [1][]byte
	parts, scratch := r.encode(one[:0], c.log.scratch, first)
	c.log.scratch = scratch
	if err := c.writeLog(r.count, parts, r.durability); err != nil {
		return err
	}
	mem := c.state().Mem
	if r.group != nil {
		batch.Insert(mem.Memtable, &c.log.inserter, parts[0])
	} else if !mem.AddWith(&c.log.inserter, first, r.kind, r.key, r.value) { // to decode it would take 3 % of a put
		panic(batch.NoRoom)
	}
	if c.o.Recent.Watched() {
		c.remember(r, parts[0])
	}
	// All of it is in the memtable, and transactions can find it: now readers may see it.
	c.o.Current.VisibleSeq.Store(c.log.lastSeq)
	c.wakeReaders()
	if !c.waitsForQuiet.Load() {
		c.AwaitQuiet()
	}
	if n := mem.Tombstones(); n >= leastHindering {
		c.considerTombstones(mem)
	}
	bytes := 0
	for _, part := range parts {
		bytes += len(part)
	}
	c.counters.batches.Add(uint64(r.batches))
	c.counters.bytes.Add(uint64(bytes))
	if began != 0 {
		c.o.Latency.Commit.End(began, r.durability == OnDisk, nil)
	}
	return nil
}

// remember keeps the keys of r, whose bytes a group needs, for transactions that are being examined.
func (c *Committer) remember(r *record, bytes []byte) {
	last := c.o.Current.VisibleSeq.Load()
	if r.group == nil {
		c.o.Recent.AddKey(last, r.key)
	} else {
		c.o.Recent.Add(last, bytes)
	}
}

// makeReady makes sure that log, memtable and sequence numbers have room for r. It slows the writer down if flushes or
// compactions fall behind. Only the leader calls it.
func (c *Committer) makeReady(r *record) error {
	if err := c.ready(); err != nil {
		return err
	}
	if mem := c.state().Mem; uint64(mem.Available()) < r.memSize {
		if err := c.rotate(r.memSize); err != nil {
			return err
		}
	} else {
		c.throttle.Slow(r.size)
		if c.log.next == nil && mem.Available() < mem.Capacity()/successorShare {
			c.prepareSuccessor()
		}
	}
	if c.log.lastSeq+r.count > base.MaxSeq {
		return errors.Newf("sievedb: out of sequence numbers: %d are used, %d are the limit of the format", c.log.lastSeq, base.MaxSeq)
	}
	return nil
}

// ready makes sure that writes have not ended, and that there is a log for new records. Only the leader calls it.
func (c *Committer) ready() error {
	if err := c.refusal(); err != nil {
		return err
	}
	switch {
	case c.log.failed == nil:
		return nil
	case c.logEnded.Load() != nil:
		return c.logEnded.Load()
	}
	return c.replaceLog()
}
