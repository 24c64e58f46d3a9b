package pick

import (
	"math"
	"slices"
	"sort"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// levelRatio is the ratio of the target sizes of a level and the level above it.
const levelRatio = 10

// Picker chooses compactions of a version.
type Picker struct{ *version.Version }

// From returns a Picker for v. The caller keeps its reference to v as long as it uses the Picker and the Compactions.
func From(v *version.Version) Picker { return Picker{v} }

// Options are the sizes that determine the choice of compactions.
type Options struct {
	L0Trigger    int    // the number of tables in level 0 that triggers a compaction
	MaxLevelBase uint64 // bytes that any level may have; about the size of a batch from level 0
	TableSize    uint64 // target size of output tables; 0: it grows with the last level, see TableSizeIn
	LargestTable uint64 // bounds the growth
	OldestReader uint64 // all readers, present and later, see all entries up to this sequence number

	// InBurst says that memtables become full one after the other. Tombstones in level 0 then wait for the next ones.
	InBurst bool

	// Quiet says that nothing has been written for a while. Then tables are looked at whose entries are no tombstones.
	Quiet bool
	// WaitsFor, if not nil, is lowered to the sequence number that OldestReader must have before more space can be
	// freed.
	WaitsFor *uint64

	// Expired, if not nil, reports whether all values of a table are hidden from all readers, present and later ones,
	// because they have expired. It is called for tables whose TableCounts.Expiry is at most ExpiredBy; 0 means any.
	Expired   func(*version.FileMeta) bool
	ExpiredBy uint64

	// NoValues means that no values are collected.
	NoValues bool

	Running []*Compaction       // the running compactions
	Claimed []*version.FileMeta // the files that are Compacting, but in none of Running
}

// maxBase is the size up to which level 0 is compacted into a level directly. Merging a batch from level 0 into a level
// of five times its size is cheaper than another level in between, for which all entries are written once more. A level
// in between that has at most a fifth of the one below also wastes little space for the entries that it shadows there.
func (o Options) maxBase() uint64 {
	if o.MaxLevelBase > math.MaxUint64/5 {
		return math.MaxUint64
	}
	return 5 * o.MaxLevelBase
}

// maxGrandparentOverlap limits, in bytes, the overlap of a table of a level with the level below its
// own, so that compacting it later stays cheap. It is as in LevelDB.
func (v Picker) maxGrandparentOverlap(level int, o Options) uint64 {
	return 10 * v.TableSizeIn(min(level+1, version.NumLevels-1), o)
}

// TableSizeIn returns the size in bytes at which a new table of a level ends. It is that of the options, if they have
// one. Otherwise the last level and the one above it have tables of the same size, because a merge rewrites tables of
// the lower level that it only touches. Further up the size halves from level to level, so that a step into a level
// of few tables does not take it whole.
func (v Picker) TableSizeIn(level int, o Options) uint64 {
	if o.TableSize > 0 {
		return o.TableSize
	}
	last := v.LastLevel()
	size := version.GrownTableSize(v.Levels[last].Bytes, o.LargestTable)
	for range last - level - 1 {
		size /= 2
	}
	return max(size, version.LeastTableSize)
}

// Compaction is a chosen compaction: the tables of Level and the overlapping ones of OutputLevel that
// are merged into OutputLevel.
type Compaction struct {
	Version            *version.Version
	Level, OutputLevel int
	Inputs             []*version.FileMeta // of Level, in its order
	Overlaps           []*version.FileMeta // of OutputLevel
	Grandparents       []*version.FileMeta // of OutputLevel+1, within the inputs' range
	Reason             string
	// Drop means that Inputs are removed without a merge: all their values have expired.
	Drop bool
	// Weigh, if not nil, is one of Inputs. They are not merged: it gets its Gain, by which the next choice is made.
	Weigh *version.FileMeta
	// Unhurried means that nothing waits for it: it takes half of the time.
	Unhurried bool
	// Left is, after the merge, why a value could not be read; its reference stays.
	Left error
	// TableSize is the size in bytes at which an output table ends.
	TableSize uint64

	maxGrandparentOverlap uint64
}

// AllInputs returns Inputs and Overlaps.
func (c *Compaction) AllInputs() []*version.FileMeta {
	all := make([]*version.FileMeta, 0, len(c.Inputs)+len(c.Overlaps))
	return append(append(all, c.Inputs...), c.Overlaps...)
}

// InputBytes returns the size of all inputs.
func (c *Compaction) InputBytes() uint64 {
	return version.TotalSize(c.Inputs) + version.TotalSize(c.Overlaps)
}

// TrivialMove reports whether the only input can be moved to the output level without rewriting it,
// and would not overlap too much of the level below.
func (c *Compaction) TrivialMove() bool {
	return c.Level != c.OutputLevel && len(c.Inputs) == 1 && len(c.Overlaps) == 0 &&
		version.TotalSize(c.Grandparents) <= c.maxGrandparentOverlap
}

// Shape is the target size of each level, and the level into which level 0 is compacted.
type Shape struct {
	BaseLevel int                       // level 0 is compacted into this level
	Target    [version.NumLevels]uint64 // bytes; 0 for level 0 and for levels above the base level
}

// Shape sizes the levels from the last one up. Each level has a target of a tenth of the one below, or
// of MaxLevelBase. The first level that is small enough for level 0 (maxBase) becomes the base level;
// the levels above it stay empty. So the last level has at least five sixths of the data, whatever
// the total, which bounds the space of shadowed versions, and a small database has one or two levels.
// (RocksDB calls this dynamic level bytes.) If LevelDB filled the upper levels, they stay in use.
func (v Picker) Shape(o Options) Shape {
	first, last := 0, 0
	for level := 1; level < version.NumLevels; level++ {
		if len(v.Levels[level].Files) > 0 {
			if first == 0 {
				first = level
			}
			last = level
		}
	}
	var s Shape
	if last == 0 {
		s.BaseLevel = version.NumLevels - 1
		s.Target[s.BaseLevel] = o.MaxLevelBase
		return s
	}
	size := v.Levels[last].Bytes
	level := last
	for level > 1 && size > o.maxBase() {
		s.Target[level] = size
		size = max(size/levelRatio, o.MaxLevelBase)
		level--
	}
	if level == 1 && size > o.maxBase() && last < version.NumLevels-1 {
		// There are too few levels for the data: size them from the top. The last one will
		// exceed its size and overflow into the next.
		size = o.MaxLevelBase
		for level := 1; level < version.NumLevels; level++ {
			s.Target[level] = size
			size *= levelRatio
		}
		s.BaseLevel = 1
		return s
	}
	s.Target[level] = max(size, o.MaxLevelBase)
	s.Target[last] = math.MaxUint64 // there is no deeper level
	s.BaseLevel = min(level, first)
	return s
}

// score returns how urgent the compaction of a level is: it is due from 1 on. Files that are already
// being compacted do not count; claimed is their size, except on level 0.
func (v Picker) score(level int, s Shape, claimed uint64, o Options) float64 {
	l := &v.Levels[level]
	if level == 0 {
		n := 0
		for _, f := range l.Files {
			if !f.Compacting {
				n++
			}
		}
		return float64(n) / float64(o.L0Trigger)
	}
	size := l.Bytes - min(claimed, l.Bytes)
	if size == 0 || level == version.NumLevels-1 {
		return 0
	}
	if s.Target[level] == 0 {
		// No data should remain above the base level, but that is not urgent.
		return 1
	}
	return float64(size) / float64(s.Target[level])
}

// claimedBytes returns the size of the files of each level that are being compacted.
func (v Picker) claimedBytes(o Options) (bytes [version.NumLevels]uint64) {
	add := func(files []*version.FileMeta) {
		for _, f := range files {
			if level, ok := v.LevelOf(f); ok && level < version.NumLevels {
				bytes[level] += f.Size
			}
		}
	}
	add(o.Claimed)
	for _, c := range o.Running {
		add(c.Inputs)
		add(c.Overlaps)
	}
	return bytes
}

// Next returns the most urgent compaction whose inputs are free, or nil. Tables whose values have
// expired come first, since they need not be read. If no level is too large, Next returns a compaction
// that frees space, and then one of many small tables. The caller marks the inputs as Compacting.
func (v Picker) Next(o Options) *Compaction {
	if o.Expired != nil {
		if c := v.pickExpired(o); c != nil {
			return c
		}
	}
	if !v.level0Waits(o) {
		if c := v.pickValues(garbageUrgent, o); c != nil {
			return c
		}
	}
	shape, claimed := v.Shape(o), v.claimedBytes(o)
	tried := [version.NumLevels]bool{}
	for {
		best, score := -1, 1.0
		for level := 0; level < version.NumLevels-1; level++ {
			if tried[level] {
				continue
			}
			if s := v.score(level, shape, claimed[level], o); s >= score {
				best, score = level, s
			}
		}
		if best < 0 {
			if c := v.pickFreeing(shape, o); c != nil {
				return c
			}
			if c := v.pickValues(garbageDue, o); c != nil {
				return c
			}
			if c := v.pickSmallValues(o); c != nil {
				return c
			}
			return v.pickSmall(o)
		}
		tried[best] = true
		if c := v.pickLevel(best, shape, o); c != nil {
			return c
		}
	}
}

func (v Picker) pickLevel(level int, s Shape, o Options) *Compaction {
	if level == 0 {
		return v.pickLevel0(s.BaseLevel, o)
	}
	var best *Compaction
	bestRatio := 0.0
	for i, ratio := range v.OverlapRatios(level) {
		if best != nil && ratio >= bestRatio {
			continue
		}
		f := v.Levels[level].Files[i]
		if f.Compacting {
			continue
		}
		if c := v.build(level, level+1, []*version.FileMeta{f}, "level exceeds its size", o); c != nil {
			best, bestRatio = c, ratio
		}
	}
	return best
}

// Small tables, as a program leaves that opens the store for one write at a time, are merged with each other and with
// their neighbours below. Otherwise each would move down on its own, and their number would grow without end.

// smallInputs limits the bytes that are merged together for that.
func (o Options) smallInputs() uint64 { return o.leastTableSize() / 16 }

// leastTableSize returns TableSize, or that of the highest level.
func (o Options) leastTableSize() uint64 {
	if o.TableSize > 0 {
		return o.TableSize
	}
	return version.LeastTableSize
}

// oldestOfLevel0 returns the oldest table of level 0, and the next ones if all of them together are small.
func (v Picker) oldestOfLevel0(o Options) []*version.FileMeta {
	files := v.Levels[0].Files
	i, size := len(files)-1, files[len(files)-1].Size
	for ; i > 0 && !files[i-1].Compacting && size+files[i-1].Size <= o.smallInputs(); i-- {
		size += files[i-1].Size
	}
	return files[i:]
}

// pickLevel0 returns a compaction of the oldest table of level 0, or of several small ones if all that is merged with
// them is small too: between their keys there may be large tables.
func (v Picker) pickLevel0(outputLevel int, o Options) *Compaction {
	for seed := v.oldestOfLevel0(o); ; seed = seed[1:] {
		c := v.build(0, outputLevel, seed, "level 0 has too many tables", o)
		switch {
		case len(seed) == 1 && c == nil:
			return nil
		case len(seed) == 1, c != nil && c.InputBytes() <= o.smallInputs():
			c.joinNeighbours(o)
			return c
		}
	}
}

// joinNeighbours adds tables of the output level that are next to the range of c, as long as the inputs are small.
func (c *Compaction) joinNeighbours(o Options) {
	v := From(c.Version)
	start, limit := v.userRange(c.AllInputs())
	for _, f := range v.neighbours(c.OutputLevel, start, limit) {
		lo, hi := v.userRange([]*version.FileMeta{f})
		if v.Cmp.Compare(start, lo) < 0 {
			lo = start
		}
		if v.Cmp.Compare(limit, hi) > 0 {
			hi = limit
		}
		joined, lo, hi := v.closure(c.OutputLevel, lo, hi)
		if version.TotalSize(c.Inputs)+version.TotalSize(joined) > o.smallInputs() || anyCompacting(joined) || meetsSpan(v.Cmp, o.outputSpans(c.OutputLevel), lo, hi) {
			continue
		}
		c.Overlaps, start, limit = joined, lo, hi
	}
	if c.OutputLevel+1 < version.NumLevels {
		c.Grandparents = v.Overlapping(c.OutputLevel+1, start, limit)
	}
}

// neighbours returns up to neighboursToJoin tables of a level on each side of [start, limit], the nearest first.
func (v Picker) neighbours(level int, start, limit []byte) (files []*version.FileMeta) {
	all := v.Levels[level].Files
	after := sort.Search(len(all), func(i int) bool { return v.Cmp.Compare(base.UserKey(all[i].Smallest), limit) > 0 })
	before := sort.Search(len(all), func(i int) bool { return v.Cmp.Compare(base.UserKey(all[i].Largest), start) >= 0 })
	for n := range neighboursToJoin {
		if i := before - 1 - n; i >= 0 {
			files = append(files, all[i])
		}
		if i := after + n; i < len(all) {
			files = append(files, all[i])
		}
	}
	return files
}

// neighboursToJoin bounds the work of a choice. Each compaction of level 0 brings fewer tables.
const neighboursToJoin = 8

// ReasonManual is the reason of what a caller asked for.
const ReasonManual = "manual"

// OfFiles returns the compaction of files into outputLevel, or of as many of the first ones as are needed for
// maxBytes. It returns nil if files is empty. The files must be adjacent on level and in its order. busy means that a
// needed table is already being compacted: the caller waits and tries again.
func (v Picker) OfFiles(
	level, outputLevel int, files []*version.FileMeta, maxBytes uint64, o Options,
) (c *Compaction, busy bool) {
	if len(files) == 0 {
		return nil, false
	}
	if level > 0 {
		var size uint64
		for i, f := range files {
			if size += f.Size; size >= maxBytes {
				files = files[:i+1]
				break
			}
		}
	}
	c = v.build(level, outputLevel, files, ReasonManual, o)
	return c, c == nil
}

// build completes a choice. The inputs are closed over user keys, so that no version of a key moves below an older one
// that stays (LevelDB issues 320 and 376). build adds the overlapping tables of the output level, and the grandparents.
// It returns nil if one of the tables is in another compaction, or if the outputs of both could overlap.
func (v Picker) build(level, outputLevel int, seed []*version.FileMeta, reason string, o Options) *Compaction {
	c := &Compaction{
		Version: v.Version, Level: level, OutputLevel: outputLevel, Reason: reason,
		TableSize: v.TableSizeIn(outputLevel, o), maxGrandparentOverlap: v.maxGrandparentOverlap(outputLevel, o),
	}
	start, limit := v.userRange(seed)
	c.Inputs, start, limit = v.closure(level, start, limit)
	if outputLevel != level {
		c.Overlaps, start, limit = v.closure(outputLevel, start, limit)
	}
	if anyCompacting(c.Inputs) || anyCompacting(c.Overlaps) {
		return nil
	}
	if meetsSpan(v.Cmp, o.outputSpans(outputLevel), start, limit) {
		return nil
	}
	if outputLevel+1 < version.NumLevels {
		c.Grandparents = v.Overlapping(outputLevel+1, start, limit)
	}
	return c
}

func anyCompacting(files []*version.FileMeta) bool {
	return slices.ContainsFunc(files, func(f *version.FileMeta) bool { return f.Compacting })
}

// userSpan is a range of user keys, both ends included.
type userSpan struct{ start, limit []byte }

// outputSpans returns the ranges of level to which the running compactions may write. A single output table may span
// the gaps between their inputs, where other tables may appear meanwhile, from a load or from a level above.
func (o Options) outputSpans(level int) (spans []userSpan) {
	for _, c := range o.Running {
		if c.OutputLevel == level {
			start, limit := From(c.Version).userRange(c.AllInputs())
			spans = append(spans, userSpan{start, limit})
		}
	}
	return spans
}

// meetsSpan reports whether one of spans overlaps [start, limit].
func meetsSpan(cmp *base.Comparer, spans []userSpan, start, limit []byte) bool {
	return slices.ContainsFunc(spans, func(s userSpan) bool {
		return cmp.Compare(start, s.limit) <= 0 && cmp.Compare(s.start, limit) <= 0
	})
}

// userRange returns the smallest and largest user keys of files.
func (v Picker) userRange(files []*version.FileMeta) (start, limit []byte) {
	for i, f := range files {
		lo, hi := base.UserKey(f.Smallest), base.UserKey(f.Largest)
		if i == 0 || v.Cmp.Compare(lo, start) < 0 {
			start = lo
		}
		if i == 0 || v.Cmp.Compare(hi, limit) > 0 {
			limit = hi
		}
	}
	return start, limit
}

// closure returns the files of level that overlap [start, limit], extended until no other file shares
// a user key with the range of the result.
func (v Picker) closure(level int, start, limit []byte) (files []*version.FileMeta, lo, hi []byte) {
	for {
		files = v.Overlapping(level, start, limit)
		if len(files) == 0 {
			return nil, start, limit
		}
		lo, hi = v.userRange(files)
		if v.Cmp.Compare(start, lo) < 0 {
			lo = start
		}
		if v.Cmp.Compare(limit, hi) > 0 {
			hi = limit
		}
		if v.Cmp.Compare(lo, start) == 0 && v.Cmp.Compare(hi, limit) == 0 {
			return files, lo, hi
		}
		start, limit = lo, hi
	}
}

// HasKeyBelow reports whether a level below OutputLevel may have the key, so that a tombstone for it must stay. It must
// be called with keys in ascending order. pos keeps its state between calls and is zero at first.
func (c *Compaction) HasKeyBelow(key []byte, pos *[version.NumLevels]int) bool {
	for level := c.OutputLevel + 1; level < version.NumLevels; level++ {
		files := c.Version.Levels[level].Files
		for pos[level] < len(files) {
			f := files[pos[level]]
			if c.Version.Cmp.Compare(key, base.UserKey(f.Largest)) <= 0 {
				if c.Version.Cmp.Compare(key, base.UserKey(f.Smallest)) >= 0 {
					return true
				}
				break
			}
			// A key in the middle of the level comes first, and then each key is near the one before it.
			left := files[pos[level]+1:]
			pos[level] += 1 + gallop(len(left), func(i int) bool {
				return c.Version.Cmp.Compare(key, base.UserKey(left[i].Largest)) <= 0
			})
		}
	}
	return false
}

// gallop is sort.Search, but calls found only about as often as the result has bits.
func gallop(n int, found func(int) bool) int {
	lo, step := 0, 1
	for lo+step <= n && !found(lo+step-1) {
		lo, step = lo+step, 2*step
	}
	return lo + sort.Search(min(step-1, n-lo), func(i int) bool { return found(lo + i) })
}

// HoldsOldest reports whether the inputs have the oldest entries of all their keys: no level below
// OutputLevel has a table within their range. The tables above have newer entries.
func (c *Compaction) HoldsOldest() bool {
	start, limit := From(c.Version).userRange(c.AllInputs())
	for level := c.OutputLevel + 1; level < version.NumLevels; level++ {
		if len(c.Version.Overlapping(level, start, limit)) > 0 {
			return false
		}
	}
	return c.OutputLevel > 0
}

// OutputCutter decides where an output table should end for the sake of later compactions: when it
// overlaps too much of the grandparents.
type OutputCutter struct {
	c       *Compaction
	pos     int
	overlap uint64
}

// NewOutputCutter returns a cutter for one pass over the merged keys.
func (c *Compaction) NewOutputCutter() *OutputCutter { return &OutputCutter{c: c} }

// ShouldCut reports whether the table should end before the internal key ikey; hasEntries says whether
// the table has entries. It must be called with keys in ascending order.
func (o *OutputCutter) ShouldCut(ikey []byte, hasEntries bool) bool {
	for o.pos < len(o.c.Grandparents) &&
		base.CompareInternal(o.c.Version.Cmp, ikey, o.c.Grandparents[o.pos].Largest) > 0 {
		if hasEntries {
			o.overlap += o.c.Grandparents[o.pos].Size
		}
		o.pos++
	}
	if o.overlap > o.c.maxGrandparentOverlap {
		o.overlap = 0
		return true
	}
	return false
}
