package sstable

import (
	"math/bits"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

const (
	// minBaseLg is what LevelDB writes: a filter for each 2 KiB of the file.
	minBaseLg = 11
	// maxBaseLg is the last shift of an offset that every reader defines.
	maxBaseLg = 63
)

// wholeTableBaseLg returns the base_lg under which every data block's offset, up to the last one's, maps to filter 0.
func wholeTableBaseLg(lastOffset uint64) uint8 {
	return uint8(min(max(minBaseLg, bits.Len64(lastOffset)), maxBaseLg))
}

// FilterEnvelopeLen is the number of bytes after the filter in a filter block with one filter.
const FilterEnvelopeLen = 4 + 4 + 1

// appendFilterEnvelope makes a filter block of dst, which holds only the one filter
// of a table: LevelDB's table_format.md, "filter meta block".
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
	slot   int                 // where a Lookup keeps the policy's hash
	hashed filter.HashPolicy   // policy, or nil if that is not one
	direct filter.DirectPolicy // policy, or nil if that is not one
	// whole is set if one filter covers every key of the table.
	whole  bool
	filter []byte       // the whole-table filter
	probe  filter.Probe // for probing it; nil if hashed is
}

// newFilterBlock checks the shape of data. If the shape is not a known one, the error is a
// sievedb.CorruptionError without a location, and nothing can be concluded from the block.
//
// Every data block begins below the offset endOfData. A lone filter is used for the whole table only if that proves
// that every block's offset maps to it. A filter that covers only the first blocks would deny the keys of the others.
func newFilterBlock(data []byte, p filter.Policy, slot int, endOfData uint64) (f *filterBlock, err error) {
	const part = "filter block"
	n := len(data)
	if n < 5 {
		return nil, base.Corruptf(part, -1, "it has %d bytes; want at least 5", n)
	}
	start := uint64(util.Fixed32(data[n-5:]))
	if start >= uint64(n-5) || (uint64(n-5)-start)%4 != 0 {
		return nil, base.Corruptf(part, -1, "its %d bytes do not end in an array of offsets that begins at %d", n, start)
	}
	if data[n-1] > maxBaseLg {
		return nil, base.Corruptf(part, -1, "base_lg is %d; want at most %d", data[n-1], maxBaseLg)
	}
	f = &filterBlock{
		data: data, arrayStart: int(start), num: (n - 5 - int(start)) / 4, baseLg: data[n-1],
		policy: p, slot: slot,
	}
	if err := f.checkOffsets(); err != nil {
		return nil, err
	}
	f.hashed, _ = p.(filter.HashPolicy)
	f.direct, _ = p.(filter.DirectPolicy)
	if f.num == 1 && (endOfData == 0 || (endOfData-1)>>f.baseLg == 0) {
		f.whole, f.filter = true, f.at(0)
		if len(f.filter) == 0 {
			return nil, base.Corruptf(part, -1, "the filter for the whole table is empty")
		}
		if f.hashed != nil {
			f.probe = f.hashed.NewProbe(f.filter)
		}
	}
	return f, nil
}

// understood reports whether the policy can read the version of the table's filter.
func (f *filterBlock) understood() bool {
	p, versioned := f.policy.(filter.VersionedPolicy)
	return !versioned || !f.whole || p.Understands(f.filter)
}

// checkOffsets checks that no filter ends before it begins. Each filter ends where the
// next one begins, and the last one where the array begins.
func (f *filterBlock) checkOffsets() error {
	for i := range f.num {
		start, limit := f.offset(i), f.offset(i+1)
		if start > limit {
			return base.Corruptf("filter block", -1, "filter %d of %d is from offset %d to %d", i, f.num, start, limit)
		}
	}
	return nil
}

// offset returns where filter i begins. The word after the last offset is the
// array's own start, which is the end of the last filter.
func (f *filterBlock) offset(i int) uint32 { return util.Fixed32(f.data[f.arrayStart+4*i:]) }

// at returns filter i.
func (f *filterBlock) at(i int) []byte {
	limit := f.offset(i + 1)
	return f.data[f.offset(i):limit:limit]
}

// mayContain probes the whole-table filter.
func (f *filterBlock) mayContain(lk *Lookup) bool {
	if f.probe != nil {
		return f.probe.HashMayMatch(lk.Hash(f.slot, f.hashed))
	}
	return f.policy.KeyMayMatch(lk.userKey, f.filter)
}

// mayContainAt probes the filter of the data block at offset. If there is none, it returns true, as LevelDB does. It
// also returns true if the filter is empty, unlike LevelDB: only a range in which no block begins should have an empty
// filter. consulted reports whether a filter was consulted.
func (f *filterBlock) mayContainAt(lk *Lookup, offset uint64) (may, consulted bool) {
	i := offset >> f.baseLg
	if i >= uint64(f.num) {
		return true, false
	}
	b := f.at(int(i))
	if len(b) == 0 {
		return true, false
	}
	// A probe for each of hundreds of filters would cost more than it saves.
	if f.direct != nil {
		return f.direct.HashMayMatchFilter(lk.Hash(f.slot, f.direct), b), true
	}
	return f.policy.KeyMayMatch(lk.userKey, b), true
}

// FilterState says which filter of a table is used, or why none is.
type FilterState uint8

// The states of a table's filter.
const (
	// FilterOff: the reader was given no policies.
	FilterOff FilterState = iota
	// FilterMissing: the table was written without a filter.
	FilterMissing
	// FilterUnknown: the table has filters, but none of a known policy, or only of later versions.
	FilterUnknown
	// FilterWholeTable: one filter covers the table and is probed before the index.
	FilterWholeTable
	// FilterPerBlock: filters cover ranges of blocks and are probed after the index.
	FilterPerBlock
	// FilterDamaged: the filter block failed its checksum, or has no known shape, and
	// there is no other; any key may be in the table. FilterStatus.Err has the reason.
	FilterDamaged
)

var filterStates = [...]string{
	FilterOff: "off", FilterMissing: "none in the table", FilterUnknown: "unknown policy",
	FilterWholeTable: "whole table", FilterPerBlock: "per block range", FilterDamaged: "damaged",
}

// String returns the state in words.
func (s FilterState) String() string {
	if int(s) < len(filterStates) {
		return filterStates[s]
	}
	return "invalid"
}

// FilterStatus describes a table's filter, for metrics and tools.
type FilterStatus struct {
	State FilterState
	// Policy is the name of the filter that is used or, if none can be used, of the
	// last one that the table lists; empty if it lists none.
	Policy string
	// Damaged is the name of the best filter if that is damaged, and Err the reason; State then says whether another is
	// used instead. Err wraps sievedb.ErrCorruption. If the metaindex is damaged, Err is set and Damaged is empty.
	Damaged string
	Err     error
}
