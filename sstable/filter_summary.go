package sstable

import (
	"math"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
)

// FilterSummary describe the filter that lookups in a table use.
type FilterSummary struct {
	// Filters is their number: one for the whole table, or those of ranges of blocks.
	Filters int
	// Bytes is their size without the envelope.
	Bytes uint64
	// Keys is the number of distinct keys in them, as the writer recorded it or, if it
	// did not, as filter.Shape estimates it. It is 0 if it is not known.
	Keys uint64
	// Predicted is the expected false-positive rate, 0 to 1, averaged over absent keys in
	// the table's range. It is negative if it is not known.
	Predicted float64
	// HashBits is the width of the hash that the filter uses, or 0 if it is not known.
	HashBits int
}

// FilterSummary returns the figures of the filter that lookups use, or zeros and a negative
// rate if there is none. It reads the whole filter, and the properties from disk once.
func (r *Reader) FilterSummary() FilterSummary {
	f := r.filter
	if f == nil {
		return FilterSummary{Predicted: -1}
	}
	props, _ := r.Properties() // zeros if there are none
	if f.whole {
		return figuresOf(f.policy, f.filter, props.FilterKeys, true)
	}
	sum := FilterSummary{Predicted: -1}
	var weighted, predicted float64
	for i := range f.num {
		if part := f.at(i); len(part) > 0 { // a range without blocks has an empty one
			g := figuresOf(f.policy, part, 0, i%(1+f.num/mostPredicted) == 0)
			sum.Filters, sum.Bytes = sum.Filters+1, sum.Bytes+g.Bytes
			sum.Keys, sum.HashBits = sum.Keys+g.Keys, g.HashBits
			if g.Predicted >= 0 {
				weighted, predicted = weighted+g.Predicted*float64(g.Keys), predicted+float64(g.Keys)
			}
		}
	}
	if predicted > 0 {
		sum.Predicted = weighted / predicted
	}
	return sum
}

// mostPredicted is of how many filters of a table the rate is predicted, evenly spread: a forged one has 10,000 shapes.
const mostPredicted = 256

func figuresOf(p filter.Policy, b []byte, keys uint64, predict bool) FilterSummary {
	g := FilterSummary{Filters: 1, Bytes: uint64(len(b)), Keys: keys, Predicted: -1}
	s, ok := filter.ShapeOf(p, b)
	if !ok {
		return g
	}
	g.HashBits = s.HashBits
	full := false
	if g.Keys == 0 {
		g.Keys, full = keysOfShape(s)
	}
	if predict && full {
		g.Predicted = 1
	} else if predict {
		g.Predicted = s.PredictedRate(g.Keys)
	}
	return g
}

// keysOfShape returns the estimated number of keys in a filter. If no bit is clear the
// number cannot be estimated, and full is true.
func keysOfShape(s filter.Shape) (keys uint64, full bool) {
	if keys = s.EstimatedKeys(); keys == math.MaxUint64 {
		return s.Bits, true
	}
	return keys, false
}

// FilterKeys returns only the number of keys, which costs less than FilterSummary. It is
// always estimated from the filter, never read from the properties. 0 means unknown.
func (r *Reader) FilterKeys() (keys uint64) {
	f := r.filter
	if f == nil {
		return 0
	}
	for i := range f.num {
		part := f.at(i)
		if s, ok := filter.ShapeOf(f.policy, part); ok && len(part) > 0 {
			n, _ := keysOfShape(s)
			keys += n
		}
	}
	return keys
}

// Verdict returns the verdict of the table's filter that Get would use, without reading from disk. It also returns
// FilterNone if the table has filters for ranges of blocks but its index is not in memory.
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
	if i >= ix.Len() {
		return FilterNone
	}
	var res Result
	res.passes(f, lk, ix.Offset(i))
	return res.Filter
}

// VerdictAt is Verdict for a key that is, or if present would be, in the data block at offset.
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

// DataBlocks returns the number of data blocks and their size in the file, including
// trailers, in bytes. It reads the index if it is not in memory.
func (r *Reader) DataBlocks() (blocks int, bytes uint64, err error) {
	ix, err := r.needIndex()
	if err != nil {
		return 0, 0, err
	}
	for i := range ix.Len() {
		bytes += uint64(ix.Size(i)) + blockTrailerLen
	}
	return ix.Len(), bytes, nil
}

// SampleBlocks calls fn with the entries of at most n data blocks, spread evenly over the table, in the order of the
// file, and with the offset of their block. Key and value are valid only during the call. The blocks are read from
// disk and not cached. The first error, of fn or of reading, ends the iteration and is returned.
func (r *Reader) SampleBlocks(n int, fn func(offset uint64, ikey, value []byte) error) error {
	ix, err := r.needIndex()
	if err != nil {
		return err
	}
	for j := range min(n, ix.Len()) {
		i := int(uint64(j) * uint64(ix.Len()) / uint64(min(n, ix.Len())))
		b, err := r.readData(ix, i)
		if err != nil {
			return err
		}
		err = b.eachEntry(dataPart, func(key, value []byte) error {
			if !base.ValidInternalKey(key) {
				return base.Corruptf(dataPart, -1, "a key of %d bytes is not an internal key", len(key))
			}
			return fn(ix.Offset(i), key, value)
		})
		if err != nil {
			return r.located(err, ix, i)
		}
	}
	return nil
}
