package db

import (
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
)

const (
	// tablesPerPiece is how many output tables a piece of a compaction must be worth:
	// each piece but the last may end with a table that is smaller than the others.
	tablesPerPiece = 4
	// stretchesPerPiece is how finely the inputs are measured. A table that is smaller
	// than a stretch counts as a whole, where it begins.
	stretchesPerPiece = 16
)

// splitKeys returns the user keys at which the merging of c is divided, ascending: each
// piece begins with one, the first before all. There are at most as many pieces as
// slots, of about as many input bytes each.
func (d *DB) splitKeys(c *manifest.Compaction) ([][]byte, error) {
	total := c.InputBytes()
	pieces := min(uint64(d.opts.MaxConcurrentCompactions), total/(tablesPerPiece*uint64(d.opts.TableSize)))
	if pieces < 2 {
		return nil, nil
	}
	stretches, err := d.inputStretches(c, total/(pieces*stretchesPerPiece))
	if err != nil || len(stretches) == 0 { // tables whose indexes list nothing have no stretches
		return nil, err
	}
	slices.SortStableFunc(stretches, func(a, b inputStretch) int { return d.cmp.Compare(a.begin, b.begin) })
	var keys [][]byte
	before, last := uint64(0), stretches[0].begin // input bytes before the stretch; where the piece begins
	for _, s := range stretches {
		if before >= total/pieces*uint64(len(keys)+1) && d.cmp.Compare(last, s.begin) < 0 {
			last = s.begin
			keys = append(keys, last)
		}
		before += s.bytes
	}
	return keys, nil
}

// inputStretch is a part of a table whose user keys are not before begin.
type inputStretch struct {
	begin []byte
	bytes uint64
}

// inputStretches divides the inputs of c into stretches of about stepBytes. Of tables
// that are larger the indexes say where they begin, which the merge needs anyway.
func (d *DB) inputStretches(c *manifest.Compaction, stepBytes uint64) (all []inputStretch, err error) {
	for _, f := range c.AllInputs() {
		smallest := base.UserKey(f.Smallest)
		if f.Size <= stepBytes {
			all = append(all, inputStretch{smallest, f.Size})
			continue
		}
		r, err := d.tables.Ref(f)
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
