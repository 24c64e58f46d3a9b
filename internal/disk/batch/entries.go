package batch

import (
	"iter"
	"time"

	"github.com/sievedb/sievedb/internal/base"
)

// EntryKind says what an entry of a Batch does. The numbers are those of db.EntryKind.
type EntryKind uint8

// The kinds of entries.
const (
	EntryPut EntryKind = iota + 1
	EntryDelete
	EntryDeleteRange
)

// Entry is one write of a Batch; db.BatchEntry documents it.
type Entry struct {
	Kind       EntryKind
	Key, Value []byte
	TTL        time.Duration
	Until      uint64 // when the value expires if TTL is 0; expiry.Never if it does not
}

// All returns the entries that the batch holds now, numbered from 0 in the order in which they were added. Writes that
// the loop adds to the batch are not among them. The slices are the batch's memory.
func (b *Batch) All() iter.Seq2[int, Entry] {
	return func(yield func(int, Entry) bool) {
		if b.Len() == 0 {
			return
		}
		ranges, ttls := b.ranges, b.ttls
		r := ReaderOf(b.Entries(), b.entries)
		points := 0
		for i := 0; ; i++ {
			if len(ranges) > 0 && ranges[0].after == points {
				if !yield(i, Entry{Kind: EntryDeleteRange, Key: ranges[0].start, Value: ranges[0].limit}) {
					return
				}
				ranges = ranges[1:]
				continue
			}
			kind, key, value, _, ok, _ := r.Next()
			if !ok {
				return
			}
			e := Entry{Kind: EntryPut, Key: key, Value: value}
			e.TTL, e.Until = ttls.Next(points)
			points++
			if kind == base.KindDelete {
				e.Kind = EntryDelete
			}
			if !yield(i, e) {
				return
			}
		}
	}
}
