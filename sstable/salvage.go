package sstable

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// SalvageReport is the result of Salvage.
type SalvageReport struct {
	// Entries is the number of entries passed to fn.
	Entries uint64
	// Blocks counts the data blocks that were read completely. BlocksLost counts those that were not, or only in part,
	// and BytesLost their bytes in the file. If the index is lost, the number of blocks is unknown; then BlocksLost is
	// 0, and BytesLost counts from the first byte that could not be read as a data block.
	Blocks, BlocksLost uint64
	BytesLost          uint64
	// Disordered says that the search for blocks without an index ended at one that is sound except for its order.
	Disordered bool
	// Gaps are where keys may be missing, in the order of the file. There are none if the
	// damage is outside the data blocks.
	Gaps []SalvageGap
	// IndexLost is set if the footer or the index could not be read, so that the data
	// blocks were found by their checksums.
	IndexLost bool
	// Err is the first fault of the table, including a damaged filter and damaged properties, or nil if it is sound. It
	// is a sievedb.CorruptionError or a sievedb.NewerError, or matches db.ErrForeign: then nothing was read.
	Err error
	// Newer is the first sievedb.NewerError, or nil.
	Newer error
	// Properties are those that the writer stored, zero if there are none or if they cannot be read.
	Properties Properties
	// Refs are what the table says that it refers to; see Reader.Refs.
	Refs []base.RefSum
}

// SalvageGap is the place of neighbouring lost blocks in the order of the keys.
type SalvageGap struct {
	// After is the last internal key before them, nil if there is none; Before is the
	// first one after them, nil if there is none.
	After, Before []byte
}

func (s *SalvageReport) record(err error) {
	if s.Err == nil {
		s.Err = err
	}
	if s.Newer == nil && errors.Is(err, base.ErrNewer) {
		s.Newer = err
	}
}

// Salvage reads all of a table and calls fn with each entry that can be read, in the order of the file. It continues
// after damaged blocks, and finds data blocks without the index if that is lost. For a sound table it checks everything
// that a lookup relies on: every block, the order of all entries, the separators of the index, that every filter of a
// known policy admits every key, and the mark of the first and last key that Open checks. It reads the properties too.
//
// The slices are valid only during the call of fn. Keys are internal keys that ParseKey accepts. They are strictly
// ascending unless the report has an Err. f stays open. Salvage returns errors of reading the file and of fn, while
// damage is only in the report.
//
// Memory is bounded by the largest block and the index, time by the file's size.
func Salvage(f vfs.File, o ReaderOptions, fn func(ikey, value []byte) error) (SalvageReport, error) {
	r := &Reader{policies: o.Policies, rangePolicies: o.RangePolicies, name: o.Name, file: f}
	r.cmp = cmp.Or(o.Comparer, base.Bytewise)
	r.refs.Store(1) // never dropped: the caller owns the file
	size, err := f.Size()
	if err != nil {
		return SalvageReport{}, base.InFile(err, o.Name, -1)
	}
	s := salvager{r: r, fn: fn, keyBudget: maxSalvageKeys(size)}
	ix, err := s.open()
	switch {
	case err == nil:
		if err = s.byIndex(ix); err == nil {
			err = s.checkBounds()
		}
	case onlyIO(err) == nil:
		s.rep.record(err)
		s.rep.IndexLost = true
		err = s.byChecksum(uint64(size))
	}
	if err == errKeysUnfold {
		err = nil
		err := base.Corruptf(dataPart, -1, "the keys expand to more than %d bytes; the remaining ones are not read", maxSalvageKeys(size))
		s.rep.record(base.InFile(err, o.Name, -1))
		s.beginGap()
	}
	s.endGap(nil)
	return s.rep, base.InFile(err, o.Name, -1)
}

// maxSalvageKeys bounds the total length of the rebuilt keys of a table of size bytes, so that a crafted table cannot
// share a long key millions of times. Prefix compression by a factor of 16 and block compression by 22, the most that
// Snappy achieves, make 352.
func maxSalvageKeys(size int64) uint64 { return 64<<20 + 1024*uint64(max(size, 0)) }

// errKeysUnfold ends the reading of a table whose keys exceed that bound.
var errKeysUnfold = errors.Sentinel("sstable: the keys are too long in total")

// salvageReadAhead is how many bytes one read covers.
const salvageReadAhead = 256 << 10

type salvager struct {
	r   *Reader
	fn  func(ikey, value []byte) error
	rep SalvageReport

	first     []byte // the first key passed to fn
	prev      []byte // the last key passed to fn
	filters   FilterSet
	keyBudget uint64

	inGap    bool   // blocks were lost since the last key
	gapAfter []byte // SalvageGap.After
}

// damage records an error that is about the bytes of the table, and returns any other one.
func (s *salvager) damage(err error) error {
	if base.IsUnreadable(err) {
		s.rep.record(err)
		return nil
	}
	return err
}

// beginGap notes that keys may be missing after the last one.
func (s *salvager) beginGap() {
	if !s.inGap {
		s.inGap, s.gapAfter = true, bytes.Clone(s.prev)
	}
}

// endGap ends the present gap, if any, before the given key, or nil for the end of the table.
func (s *salvager) endGap(before []byte) {
	if s.inGap {
		s.inGap = false
		s.rep.Gaps = append(s.rep.Gaps, SalvageGap{s.gapAfter, bytes.Clone(before)})
	}
}

// open reads footer, filter and index. The error says that footer or index is damaged or could not be read.
func (s *salvager) open() (*index, error) {
	r := s.r
	if err := r.open(nil); err != nil {
		return nil, base.InFile(err, r.name, -1)
	}
	var err error
	s.filters, err = r.FiltersToCheck(r.policies)
	if err = s.damage(err); err != nil {
		return nil, err
	}
	s.rep.Properties, _, err = r.CheckProperties()
	if err == nil {
		s.rep.Refs, err = r.Refs()
	}
	if err = s.damage(err); err != nil {
		return nil, err
	}
	stored, err := r.readStoredIndex()
	if err != nil {
		return nil, err
	}
	ix, err := r.decodeIndex(stored)
	if base.IsUnreadable(err) { // its separators may be in the order of another comparer
		s.rep.record(err)
		defer func(own *base.Comparer) { r.cmp = own }(r.cmp)
		r.cmp = &base.Comparer{Compare: func(_, _ []byte) int { return -1 }}
		ix, err = r.decodeIndex(stored)
	}
	if err == nil {
		r.index.Store(ix)
	}
	return ix, err
}

// checkBounds checks the first and last keys found, as Open does with the keys of the MANIFEST.
func (s *salvager) checkBounds() error {
	if s.rep.Err != nil {
		return nil // not all keys were found
	}
	return s.damage(s.r.checkBounds(s.first, s.prev))
}

// byIndex visits the data blocks that the index lists.
func (s *salvager) byIndex(ix *index) error {
	it := &Iter{r: s.r, ix: ix, at: -1, stats: new(IterStats),
		opts: IterOptions{NoFillCache: true, ReadAhead: salvageReadAhead}}
	it.data.pos = -1
	for i := range ix.Len() {
		if err := s.block(it, i); err != nil {
			return err
		}
	}
	return nil
}

// block visits data block i. The first damage stops an iterator permanently, so
// block clears its error before the next block.
func (s *salvager) block(it *Iter, i int) error {
	h := it.ix.Handle(i)
	if it.load(i, true) {
		for ok := it.data.First(); ok; ok = it.data.Next() {
			s.check(it.ix, i, it.data.key, it.data.pos == 0, it.data.cur.valueEnd == it.data.block.entriesEnd)
			if err := s.emit(it.data.key, it.data.Value()); err != nil {
				return err
			}
		}
	}
	if !it.failed() {
		if s.prev != nil && it.ix.Compare(it.r.cmp, i, base.UserKey(s.prev), base.Trailer(s.prev)) < 0 {
			s.rep.record(s.located(h, "its last entry sorts after its separator in the index"))
		}
		s.rep.Blocks++
		return nil
	}
	err := it.err
	it.err, it.data.err, it.at = nil, nil, -1
	if ioErr := onlyIO(err); ioErr != nil {
		return ioErr
	}
	s.loseBlock(h, err)
	return nil
}

func (s *salvager) located(h handle, detail string) error {
	return base.InFile(base.Corruptf(dataPart, int64(h.Offset), "%s", detail), s.r.name, -1)
}

func (s *salvager) loseBlock(h handle, err error) {
	s.rep.record(err)
	s.beginGap()
	s.rep.BlocksLost++
	s.rep.BytesLost += h.Size + blockTrailerLen
}

// check checks the facts about an entry of block i that lookups rely on.
func (s *salvager) check(ix *index, i int, ikey []byte, first, last bool) {
	if s.rep.Err != nil {
		return // only the first fault is reported
	}
	h := ix.Handle(i)
	switch cmp := s.r.cmp; {
	case s.prev != nil && base.CompareInternal(cmp, s.prev, ikey) >= 0:
		s.rep.record(s.located(h, "an entry does not sort after the previous one"))
	case first && i > 0 && ix.Compare(cmp, i-1, base.UserKey(ikey), base.Trailer(ikey)) >= 0:
		s.rep.record(s.located(h, "its first entry does not sort after the separator of the previous block"))
	case ix.isWrongAlone(cmp, i, ikey, first, last):
		s.rep.record(s.located(h, wrongAlone))
	default:
		if name, denied := s.filters.Denies(base.UserKey(ikey), h.Offset); denied {
			s.rep.record(s.located(h, "the filter "+strconv.Quote(name)+" denies a key that the block holds"))
		}
	}
}

// emit passes an entry to fn.
func (s *salvager) emit(ikey, value []byte) error {
	if uint64(len(ikey)) > s.keyBudget {
		return errKeysUnfold
	}
	s.keyBudget -= uint64(len(ikey))
	s.endGap(ikey)
	if s.rep.Entries == 0 {
		s.first = append([]byte(nil), ikey...)
	}
	s.prev = append(s.prev[:0], ikey...)
	s.rep.Entries++
	return s.fn(ikey, value)
}

// byChecksum visits the data blocks of a table without an index. They are contiguous from the beginning of the file, so
// a block ends where a checksum matches all bytes since the end of the last one. It stops at the first block that is
// damaged or is not a data block: further on, the index itself could look like data.
func (s *salvager) byChecksum(size uint64) error {
	buf := make([]byte, 64<<10)
	for off := uint64(0); !errors.Is(s.rep.Err, base.ErrForeign); {
		h, found, err := NextBlock(s.r.file, size, off, buf)
		if err != nil {
			return err
		}
		if !found {
			s.rep.BytesLost = size - off
			s.beginGap()
			return nil
		}
		isData, err := s.unlistedBlock(h, size)
		if !isData || err != nil {
			return err
		}
		off = h.End()
	}
	return nil
}

// unlistedBlock emits the entries of the block at h if it is a sound data block whose
// keys continue those of the previous blocks. size is that of the file.
func (s *salvager) unlistedBlock(h handle, size uint64) (isData bool, err error) {
	data, err := s.r.readBlock(h, dataPart)
	if err != nil {
		if errors.Is(err, base.ErrNewer) {
			s.rep.record(err)
		}
		return false, onlyIO(err)
	}
	b, err := newBlock(data, dataPart)
	if err != nil {
		return false, nil
	}
	var it blockIter
	it.init(s.r.cmp, b, dataPart)
	prev := append([]byte(nil), s.prev...)
	first := true
	for ok := it.First(); ok; ok = it.Next() {
		if len(prev) > 0 && base.CompareInternal(s.r.cmp, prev, it.key) >= 0 {
			if !first {
				s.rep.Disordered = true
				s.rep.BytesLost = size - h.Offset
				s.beginGap()
			}
			return false, nil
		}
		prev, first = append(prev[:0], it.key...), false
	}
	if it.err != nil || b.empty() {
		return false, nil
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := s.emit(it.key, it.Value()); err != nil {
			return false, err
		}
	}
	s.rep.Blocks++
	return true, nil
}
