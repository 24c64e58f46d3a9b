package changes

import (
	"bytes"
	"io/fs"
	"iter"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// Change is a part of the history. Its slices are valid until the Reader reads the next one.
type Change struct {
	Kind        Kind
	First, Last uint64 // sequence numbers
	// Record is a batch of the log. For a batch that deleted ranges, it has the other writes. Nil means no writes.
	Record []byte
	Ranges []Range
	Tables []string // the paths of the tables of a load or an ingest

	content
}

// content is what the entries of a change need.
type content struct {
	fs     vfs.FS
	cmp    *base.Comparer
	expiry *expiry.Policy
}

// Entries yields the entries: deleted ranges first, then other writes under a prefix, in the order of the
// batch, or in the order of the keys for a load or an ingest. A value that has expired is a deletion. The
// slices are valid until the next entry.
func (c *Change) Entries(prefix []byte) iter.Seq2[batch.Entry, error] {
	return func(each func(batch.Entry, error) bool) {
		yield := func(e batch.Entry, err error) bool {
			if err == nil && e.Kind != batch.EntryDeleteRange && !bytes.HasPrefix(e.Key, prefix) {
				return true
			}
			return each(e, err)
		}
		for _, r := range c.Ranges {
			if !yield(batch.Entry{Kind: batch.EntryDeleteRange, Key: r.Start, Value: r.Limit}, nil) {
				return
			}
		}
		if c.Record != nil && !c.ofRecord(yield) {
			return
		}
		for _, path := range c.Tables {
			if !c.ofTable(path, yield) {
				return
			}
		}
	}
}

// entry returns what an entry says at this moment.
func (c *content) entry(kind base.Kind, key, value []byte) batch.Entry {
	if kind == base.KindDelete {
		return batch.Entry{Kind: batch.EntryDelete, Key: key}
	}
	e := batch.Entry{Kind: batch.EntryPut, Key: key, Value: value}
	if !c.expiry.Under(key) {
		return e
	}
	at, ok := expiry.Decode(value)
	if !ok { // the value was written without Options.Expiry, so it has no deadline
		return e
	}
	e.Value = value[expiry.HeaderLen:]
	if at == expiry.Never {
		return e
	}
	now := c.expiry.Now()
	if at <= now {
		return batch.Entry{Kind: batch.EntryDelete, Key: key}
	}
	e.TTL = time.Duration(min(at-now, uint64(maxTTL/time.Millisecond))) * time.Millisecond
	return e
}

const maxTTL = time.Duration(1<<63 - 1)

func (c *Change) ofRecord(yield func(batch.Entry, error) bool) bool {
	b, err := batch.NewReader(c.Record)
	for err == nil {
		kind, key, value, _, ok, nextErr := b.Next()
		if nextErr != nil {
			err = nextErr
			break
		}
		if !ok {
			return true
		}
		if !yield(c.entry(kind, key, value), nil) {
			return false
		}
	}
	yield(batch.Entry{}, err)
	return false
}

// tableReadAhead is the number of bytes of a table that are read at a time.
const tableReadAhead = 256 << 10

// ofTable yields the newest entry of each key.
func (c *Change) ofTable(path string, yield func(batch.Entry, error) bool) bool {
	f, err := c.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) { // the change is not kept any more
		yield(batch.Entry{}, &GoneError{c.First - 1, c.Last, path + " was removed"})
		return false
	}
	if err != nil {
		yield(batch.Entry{}, errors.Wrap(err, "sievedb: a table of a change"))
		return false
	}
	r, err := sstable.Open(f, sstable.ReaderOptions{Comparer: c.cmp, Name: path})
	if err != nil {
		yield(batch.Entry{}, errors.CombineErrors(err, f.Close()))
		return false
	}
	defer r.Close()
	it, err := r.NewIter(sstable.IterOptions{NoFillCache: true, ReadAhead: tableReadAhead})
	if err != nil {
		yield(batch.Entry{}, err)
		return false
	}
	defer it.Close()
	var before []byte
	for first, ok := true, it.First(); ok; first, ok = false, it.Next() {
		key := base.UserKey(it.Key())
		if !first && c.cmp.Compare(before, key) == 0 {
			continue // an older version
		}
		before = append(before[:0], key...)
		_, kind := base.SplitTrailer(base.Trailer(it.Key()))
		if !yield(c.entry(kind, key, it.Value()), nil) {
			return false
		}
	}
	if err := it.Err(); err != nil {
		yield(batch.Entry{}, err)
		return false
	}
	return true
}
