package sstable

import (
	"math"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
)

// FilterFigures describe the filter that lookups of a table ask.
type FilterFigures struct {
	// Filters counts them: one for the whole table, or those of ranges of blocks.
	Filters int
	// Bytes is what they take, the envelope left out.
	Bytes uint64
	// Keys is how many distinct keys they were made of: what the writer noted or, where
	// it did not, filter.Shape's estimate. 0: not known.
	Keys uint64
	// Predicted is the rate, 0 to 1, with which an absent key is expected to pass, all
	// keys of the table's range alike; negative where it is not known.
	Predicted float64
	// HashBits is the width of the hash that the filter goes by; 0 where it is not
	// known.
	HashBits int
}

// FilterFigures returns the figures of the filter that lookups ask, zeros where there
// is none. It reads all of the filter, and from disk the table's properties, once.
func (r *Reader) FilterFigures() FilterFigures {
	f := r.filter
	if f == nil {
		return FilterFigures{Predicted: -1}
	}
	props, _ := r.Properties() // zeros if there are none
	if f.whole {
		return figuresOf(f.policy, f.filter, props.FilterKeys)
	}
	var sum FilterFigures
	var weighted float64
	for i := range f.num {
		if part := f.at(i); len(part) > 0 { // a range without blocks has an empty one
			g := figuresOf(f.policy, part, 0)
			sum.Filters++
			sum.Bytes += g.Bytes
			sum.Keys += g.Keys
			sum.HashBits = g.HashBits
			weighted += max(g.Predicted, 0) * float64(g.Keys)
		}
	}
	sum.Predicted = -1
	if sum.Keys > 0 {
		sum.Predicted = weighted / float64(sum.Keys)
	}
	return sum
}

func figuresOf(p filter.Policy, b []byte, keys uint64) FilterFigures {
	g := FilterFigures{Filters: 1, Bytes: uint64(len(b)), Keys: keys, Predicted: -1}
	s, ok := filter.ShapeOf(p, b)
	if !ok {
		return g
	}
	g.HashBits = s.HashBits
	full := false
	if g.Keys == 0 {
		g.Keys, full = keysOfShape(s)
	}
	if g.Predicted = 1; !full {
		g.Predicted = s.PredictedRate(g.Keys)
	}
	return g
}

// keysOfShape returns of how many keys a filter was made. Where no bit is clear it may be any
// number: full.
func keysOfShape(s filter.Shape) (keys uint64, full bool) {
	if keys = s.EstimatedKeys(); keys == math.MaxUint64 {
		return s.Bits, true
	}
	return keys, false
}

// FilterKeys is FilterFigures' Keys alone, which costs less, and of the filter itself: what
// the table's properties say of it is left aside. 0 where it does not tell.
func (r *Reader) FilterKeys() (keys uint64) {
	f := r.filter
	if f == nil {
		return 0
	}
	parts := [][]byte{f.filter}
	if !f.whole {
		parts = parts[:0]
		for i := range f.num {
			parts = append(parts, f.at(i))
		}
	}
	for _, part := range parts {
		if s, ok := filter.ShapeOf(f.policy, part); ok && len(part) > 0 {
			n, _ := keysOfShape(s)
			keys += n
		}
	}
	return keys
}

// Verdict returns what Get would hear from the table's filter, without reading from
// disk: FilterNone also where filters of block ranges cannot be chosen from, since the
// index is not in memory.
func (r *Reader) Verdict(lk *Lookup) Verdict {
	f := r.filter
	switch {
	case f == nil:
		return FilterNone
	case f.whole:
		if f.mayContain(lk) {
			return FilterPassed
		}
		return FilterNegative
	}
	ix := r.index.Load()
	if ix == nil {
		return FilterNone
	}
	i := ix.find(r.cmp, lk.userKey, lk.trailer)
	if i >= ix.n {
		return FilterNone
	}
	var res Result
	res.passes(f, lk, ix.offsets[i])
	return res.Filter
}

// VerdictAt is Verdict for a key of the data block at offset, or of none that would
// be in that block.
func (r *Reader) VerdictAt(userKey []byte, offset uint64) Verdict {
	if r.filter == nil {
		return FilterNone
	}
	var lk Lookup
	lk.Init(userKey, base.MaxSeq)
	if r.filter.whole {
		return r.Verdict(&lk)
	}
	var res Result
	res.passes(r.filter, &lk, offset)
	return res.Filter
}

// DataBlocks returns the number of data blocks and the bytes of the file that they
// take, trailers included. It reads the index if it is not in memory.
func (r *Reader) DataBlocks() (blocks int, bytes uint64, err error) {
	ix := r.index.Load()
	if ix == nil {
		if ix, _, err = r.loadIndex(); err != nil {
			return 0, 0, err
		}
	}
	for _, size := range ix.sizes {
		bytes += uint64(size) + blockTrailerLen
	}
	return ix.n, bytes, nil
}

// SampleBlocks calls fn with the internal keys of at most n data blocks, spread evenly
// over the table, in the order of the file, and with the offset of their block. The
// keys are valid during the call only. The blocks come from disk and do not go to the
// cache. An error of fn, or of reading, ends it.
func (r *Reader) SampleBlocks(n int, fn func(offset uint64, ikey []byte) error) error {
	ix := r.index.Load()
	if ix == nil {
		var err error
		if ix, _, err = r.loadIndex(); err != nil {
			return err
		}
	}
	for j := range min(n, ix.n) {
		i := int(uint64(j) * uint64(ix.n) / uint64(min(n, ix.n)))
		b, err := r.readData(ix, i)
		if err != nil {
			return err
		}
		err = b.eachEntry(dataPart, func(key, _ []byte) error {
			if !base.ValidInternalKey(key) {
				return base.Corruptf(dataPart, -1, "a key of %d bytes is no internal key", len(key))
			}
			return fn(ix.offsets[i], key)
		})
		if err != nil {
			return r.located(err, ix, i)
		}
	}
	return nil
}
