package sstable

import (
	"cmp"
	"fmt"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/tail"
	"github.com/sievedb/sievedb/vfs"
)

// Open opens the table in f and takes ownership of f: Close closes it, or Open if it fails.
// It reads the end of the file with one read, which usually covers footer, metaindex,
// filter and index (see TailGuess). If ReaderOptions.Smallest and Largest are set and
// another program wrote the table, it also reads the first and last data blocks.
//
// If the metaindex or a filter is damaged, Open still succeeds. The Reader then uses another filter of the table or
// none, see FilterStatus. If the index is damaged, the calls that need it return an error.
func Open(f vfs.File, o ReaderOptions) (*Reader, error) {
	r := &Reader{
		cmp: cmp.Or(o.Comparer, base.Bytewise), policies: o.Policies, rangePolicies: o.RangePolicies,
		cache: o.Cache, name: o.Name, file: f,
	}
	if o.Tail == nil {
		o.Tail = new(TailGuess)
	}
	r.countMemory(o.Memory)
	r.refs.Store(1)
	r.opening = new(tail.Opening)
	err := r.open(o.Tail)
	if err == nil {
		r.takeIndex()
		r.takeProperties()
		o.Tail.Learn(r.opening)
		err = r.checkBounds(o.Smallest, o.Largest)
	}
	r.charge(int64(r.FilterSize() + r.RangeFilterSize()))
	r.cost = r.opening.End()
	r.opening = nil
	if err != nil {
		r.closed.Store(true)
		r.ReturnMemory()
		_ = f.Close() // the first error is more useful, and nothing was written
		return nil, base.InFile(err, o.Name, -1)
	}
	r.released = o.Released
	r.demand.Begin(o.Prefetch, f)
	return r, nil
}

// open reads the parts that are needed of every table, with separate reads if r.opening is not set.
func (r *Reader) open(guess *TailGuess) error {
	if len(r.policies) > MaxPolicies {
		return fmt.Errorf("sstable: %d filter policies; at most %d are supported", len(r.policies), MaxPolicies)
	}
	size, err := r.file.Size()
	if err != nil {
		return err
	}
	if size < footerLen {
		return base.Corruptf("footer", 0, "the file has %d bytes; want at least %d", size, footerLen)
	}
	r.limit = uint64(size) - footerLen
	if r.opening != nil {
		r.opening.Read(func(buf []byte, off int64) error {
			_, err := vfs.ReadFull(r.file, buf, off)
			return err
		}, uint64(size), guess)
	}
	var buf [footerLen]byte
	if err := r.readAt(buf[:], r.limit, "footer"); err != nil {
		return err
	}
	if r.foot, err = codec.DecodeFooter(buf[:], uint64(size)); err != nil {
		return base.InFile(err, r.name, int64(r.limit))
	}
	r.metaStart = min(r.foot.Index.Offset, r.foot.Metaindex.Offset)
	r.opening.Need(r.foot.Index)
	r.opening.Need(r.foot.Metaindex)
	return r.openFilter()
}

// takeProperties loads the properties, if they were read with the tail.
func (r *Reader) takeProperties() {
	if r.meta.properties.Size > 0 && r.meta.properties.Check(r.limit, "metaindex block", propertiesPart) == nil &&
		r.opening.Has(r.meta.properties) != nil {
		r.Properties()
	}
}

// takeIndex keeps the index block for later, if it was read with the tail. It is kept as
// it is stored, since many lookups need only the filter.
func (r *Reader) takeIndex() {
	if stored := r.opening.Has(r.foot.Index); stored != nil {
		kept := owned(stored)
		r.storedIndex.Store(&kept)
		r.charge(int64(cap(kept)))
	}
}
