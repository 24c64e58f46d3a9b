package compact

import (
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/pick"
)

const (
	// A piece of a compaction has at least pieceTables output tables, since it may end with one that is smaller than
	// the others. Two large ones are enough: those of 16 MiB or more that a piece ends with have some MiB.
	pieceTables, largePieceTables = 4, 2
	largePiece                    = 32 << 20
	// stretchesPerPiece is the granularity with which the inputs are measured. A table that is
	// smaller than a stretch counts completely at its smallest key.
	stretchesPerPiece = 16
)

// splitKeys returns the user keys at which to divide the merging of c into pieces, in
// ascending order. Each is the lower bound of a piece; the first piece has none. There are at
// most as many pieces as slots, and they have about the same number of input bytes.
func (s *Scheduler) splitKeys(c *pick.Compaction) ([][]byte, error) {
	total, t := c.InputBytes(), s.tuning.Load()
	pieces := min(uint64(t.MaxConcurrent), total/leastPiece(c.TableSize))
	if pieces < 2 {
		return nil, nil
	}
	stretches, err := s.inputStretches(c, total/(pieces*stretchesPerPiece))
	if err != nil || len(stretches) == 0 { // tables with empty indexes have no stretches
		return nil, err
	}
	cmp := s.o.Cmp.Compare
	slices.SortStableFunc(stretches, func(a, b inputStretch) int { return cmp(a.begin, b.begin) })
	var keys [][]byte
	before, last := uint64(0), stretches[0].begin // input bytes before the stretch; begin of the piece
	for _, stretch := range stretches {
		if before >= total/pieces*uint64(len(keys)+1) && cmp(last, stretch.begin) < 0 {
			last = stretch.begin
			keys = append(keys, last)
		}
		before += stretch.bytes
	}
	return keys, nil
}

// leastPiece returns the least bytes of a piece whose output tables have a size.
func leastPiece(tableSize uint64) uint64 {
	return min(pieceTables*tableSize, max(largePieceTables*tableSize, largePiece))
}

// inputStretch is a part of a table whose user keys are at or after begin.
type inputStretch struct {
	begin []byte
	bytes uint64
}

// inputStretches divides the inputs of c into stretches of about stepBytes. It divides larger
// tables by their indexes, which the merge needs anyway.
func (s *Scheduler) inputStretches(c *pick.Compaction, stepBytes uint64) (all []inputStretch, err error) {
	for _, f := range c.AllInputs() {
		smallest := base.UserKey(f.Smallest)
		if f.Size <= stepBytes {
			all = append(all, inputStretch{smallest, f.Size})
			continue
		}
		r, err := s.o.Cache.Ref(f)
		if err != nil {
			return nil, err
		}
		err = r.Stretches(stepBytes, func(begin []byte, bytes uint64) {
			if begin == nil {
				begin = smallest
			}
			all = append(all, inputStretch{begin, bytes})
		})
		r.Unref()
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
