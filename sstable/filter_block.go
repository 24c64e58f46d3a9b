package sstable

import (
	"math/bits"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/util"
)

const (
	// filterKeyPrefix begins the metaindex key of a filter block; the policy's
	// name follows.
	filterKeyPrefix = "filter."
	// minBaseLg is what LevelDB writes: a filter for each 2 KiB of the file.
	minBaseLg = 11
	// maxBaseLg is the last shift of an offset that every reader defines.
	maxBaseLg = 63
)

// wholeTableBaseLg returns the base_lg under which every data block's offset,
// up to the last one's, maps to filter 0.
func wholeTableBaseLg(lastOffset uint64) uint8 {
	return uint8(min(max(minBaseLg, bits.Len64(lastOffset)), maxBaseLg))
}

// appendFilterEnvelope makes a filter block of dst, which holds the one filter
// of a table and nothing else: LevelDB's table_format.md, "filter meta block".
func appendFilterEnvelope(dst []byte, lastOffset uint64) []byte {
	arrayStart := uint32(len(dst))
	dst = util.AppendFixed32(dst, 0)          // filter 0 begins here
	dst = util.AppendFixed32(dst, arrayStart) // and ends where the array begins
	return append(dst, wholeTableBaseLg(lastOffset))
}

// filterBlock reads a filter block.
//
//	+----------+-----+----------+-------------+-----+-------------------+---------+
//	| filter 0 | ... | filter n | offset of 0 | ... | start of the      | base_lg |
//	|          |     |          | (4 bytes)   |     | offset array (4)  | (1)     |
//	+----------+-----+----------+-------------+-----+-------------------+---------+
type filterBlock struct {
	data       []byte // the whole block; pinned for the table's life
	arrayStart int
	num        int
	baseLg     uint8

	policy filter.Policy
	slot   int                 // the policy's place in ReaderOptions.Policies
	hashed filter.HashPolicy   // the policy again, or nil
	direct filter.DirectPolicy // and again, or nil
	// whole is set where one filter answers for every key of the table.
	whole  bool
	filter []byte       // the whole-table filter
	probe  filter.Probe // the same, ready to be asked; nil if hashed is
}

// newFilterBlock checks the shape of data. ok is false where it has none, and
// then nothing can be concluded from it.
//
// endOfData is an offset that every data block begins below. It takes the proof
// that every offset maps to filter 0 to believe a lone filter for the table: one
// that covers only the first blocks would deny the keys of the others.
func newFilterBlock(data []byte, p filter.Policy, slot int, endOfData uint64) (f *filterBlock, ok bool) {
	n := len(data)
	if n < 5 {
		return nil, false
	}
	start := uint64(util.Fixed32(data[n-5:]))
	if start > uint64(n-5) || (uint64(n-5)-start)%4 != 0 {
		return nil, false
	}
	f = &filterBlock{
		data: data, arrayStart: int(start), num: (n - 5 - int(start)) / 4, baseLg: data[n-1],
		policy: p, slot: slot,
	}
	f.hashed, _ = p.(filter.HashPolicy)
	f.direct, _ = p.(filter.DirectPolicy)
	if f.num == 1 && f.baseLg <= maxBaseLg && (endOfData == 0 || (endOfData-1)>>f.baseLg == 0) {
		// LevelDB reads an empty filter as "absent", which is right where a range
		// without blocks has one; a whole table without a bit is more likely an
		// error of its writer, and is not believed.
		if b, ok := f.at(0); ok && len(b) > 0 {
			f.whole, f.filter = true, b
			if f.hashed != nil {
				f.probe = f.hashed.NewProbe(b)
			}
		}
	}
	return f, true
}

// at returns filter i; ok is false where its offsets are malformed.
func (f *filterBlock) at(i int) (b []byte, ok bool) {
	// The word behind the last offset is the array's own start: the last limit.
	start := uint64(util.Fixed32(f.data[f.arrayStart+4*i:]))
	limit := uint64(util.Fixed32(f.data[f.arrayStart+4*i+4:]))
	if start > limit || limit > uint64(f.arrayStart) {
		return nil, false
	}
	return f.data[start:limit:limit], true
}

// mayContain asks the whole-table filter.
func (f *filterBlock) mayContain(lk *Lookup) bool {
	if f.probe != nil {
		return f.probe.HashMayMatch(lk.hash(f.slot, f.hashed))
	}
	return f.policy.KeyMayMatch(lk.userKey, f.filter)
}

// mayContainAt asks the filter of the data block at offset. Where there is
// none, or base_lg is no shift, or offsets are malformed, the answer is yes, as
// LevelDB's. asked is false where no filter was consulted.
func (f *filterBlock) mayContainAt(lk *Lookup, offset uint64) (may, asked bool) {
	if f.baseLg > maxBaseLg {
		return true, false
	}
	i := offset >> f.baseLg
	if i >= uint64(f.num) {
		return true, false
	}
	b, ok := f.at(int(i))
	switch {
	case !ok:
		return true, false
	case len(b) == 0: // no block of this range has a key: LevelDB's FilterBlockReader
		return false, true
	}
	// A probe for each of hundreds of filters would cost more than it saves.
	if f.direct != nil {
		return f.direct.HashMayMatchFilter(lk.hash(f.slot, f.direct), b), true
	}
	return f.policy.KeyMayMatch(lk.userKey, b), true
}

// FilterState says what a table's filter is good for.
type FilterState uint8

// The states of a table's filter.
const (
	// FilterOff: the reader was given no policies.
	FilterOff FilterState = iota
	// FilterMissing: the table was written without a filter.
	FilterMissing
	// FilterUnknown: the table has filters, but none under a name known here.
	FilterUnknown
	// FilterWholeTable: one filter answers for the table, before its index.
	FilterWholeTable
	// FilterPerBlock: filters answer for ranges of blocks, behind the index.
	FilterPerBlock
	// FilterDamaged: the filter block failed its checksum, or has no shape; every
	// key may be in the table. Err of the status tells more.
	FilterDamaged
)

// String returns the state in words.
func (s FilterState) String() string {
	switch s {
	case FilterOff:
		return "off"
	case FilterMissing:
		return "none in the table"
	case FilterUnknown:
		return "unknown policy"
	case FilterWholeTable:
		return "whole table"
	case FilterPerBlock:
		return "per block range"
	case FilterDamaged:
		return "damaged"
	}
	return "invalid"
}

// FilterStatus describes a table's filter, for metrics and tools.
type FilterStatus struct {
	State FilterState
	// Policy is the name of the filter that is used or, where none can be, of the
	// last that the table lists; empty if it lists none.
	Policy string
	// Err is why a damaged filter is not used. It wraps base.ErrCorruption.
	Err error
}
