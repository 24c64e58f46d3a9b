package db

import (
	"slices"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
)

// filterState is the levels as they will be after a compaction, the bytes of the filters
// that it leaves alone, and the keys that it writes. Level 0 counts with as many tables as
// it usually comes to hold. budget is what Options.FilterBudget has for filters of keys.
type filterState struct {
	levels                         []filter.LevelLoad
	filterBytes, rewritten, budget float64
}

// filterLoads returns the state after c, or the present one if c is nil, and after newKeys
// are written that no table has yet.
func (d *DB) filterLoads(v *manifest.Version, c *manifest.Compaction, newKeys float64) *filterState {
	s := &filterState{levels: make([]filter.LevelLoad, NumLevels)}
	inputs := map[*manifest.FileMeta]bool{}
	if c != nil {
		for _, f := range c.AllInputs() {
			inputs[f] = true
		}
	}
	guess, runs := newGuess(v), 0
	for level := range s.levels {
		s.levels[level].Weight = 1
		for _, f := range v.Levels[level].Files {
			keys, bytes := guess.of(level, f)
			if inputs[f] {
				s.rewritten += keys
				continue
			}
			s.levels[level].Keys += keys
			if level == 0 {
				runs++
			}
			s.filterBytes += bytes
		}
	}
	if c != nil {
		s.levels[c.OutputLevel].Keys += s.rewritten
	}
	s.budget = max(0, (1-undealt)*float64(d.opts.FilterBudget)-guess.rangeBytes(v, inputs, s.rewritten+newKeys))
	top := &s.levels[0]
	top.Weight = float64(max(d.opts.L0CompactionTrigger, runs))
	top.Keys = max(top.Keys, top.Weight*float64(d.flushedKeys.Load()))
	return s
}

// grown returns the levels when half of the last one's tables have been written anew: by
// then half of what stands on the level above has come there. What comes from level 0 all
// at once needs no such care.
func (s *filterState) grown() []filter.LevelLoad {
	loads := slices.Clone(s.levels)
	for last := NumLevels - 1; last > 1; last-- {
		if loads[last].Keys > 0 {
			loads[last].Keys += min(loads[last-1].Keys/2, loads[last].Keys)
			break
		}
	}
	return loads
}

// guess knows the keys and filter bytes of tables in proportion to their size, by level
// and, last, over all, for tables whose figures are not known.
type guess [NumLevels + 1]struct{ size, keys, filterBytes, rangeBytes float64 }

func newGuess(v *manifest.Version) *guess {
	g := &guess{}
	v.Files(func(level int, f *manifest.FileMeta) {
		if known := tables.Of(f).FilterSizes(); known != nil {
			for _, i := range []int{level, NumLevels} {
				g[i].size += float64(f.Size)
				g[i].keys += float64(known.Keys)
				g[i].filterBytes += float64(known.FilterBytes)
				g[i].rangeBytes += float64(known.RangeBytes)
			}
		}
	})
	return g
}

func (g *guess) of(level int, f *manifest.FileMeta) (keys, filterBytes float64) {
	if known := tables.Of(f).FilterSizes(); known != nil {
		return float64(known.Keys), float64(known.FilterBytes)
	}
	for _, i := range []int{level, NumLevels} {
		if part := float64(f.Size) / g[i].size; g[i].size > 0 {
			return part * g[i].keys, part * g[i].filterBytes
		}
	}
	return float64(f.Size) / tables.UnknownKeyBytes, 0
}

// rangeBytes returns what filters of ranges will take when the inputs have given way to
// tables of so many keys.
func (g *guess) rangeBytes(v *manifest.Version, inputs map[*manifest.FileMeta]bool, written float64) (bytes float64) {
	all := &g[NumLevels]
	if all.rangeBytes == 0 || all.keys == 0 {
		return 0
	}
	v.Files(func(_ int, f *manifest.FileMeta) {
		known := tables.Of(f).FilterSizes()
		switch {
		case inputs[f]:
		case known != nil:
			bytes += float64(known.RangeBytes)
		default:
			bytes += float64(f.Size) / all.size * all.rangeBytes
		}
	})
	return bytes + written*all.rangeBytes/all.keys
}

// learnFrom is how many tables of a level, spread over it, are known when the others are guessed.
const learnFrom = 8

// learnFigures opens those of them of which nothing is known: after Open,
// or when LevelDB wrote them. What else is known need not be like the rest: lookups may have opened the
// one table of the level that holds three keys. What cannot be opened is left to guesses.
func (d *DB) learnFigures(v *manifest.Version) {
	for level := range v.Levels {
		files := v.Levels[level].Files
		n := min(learnFrom, len(files))
		for i := range n {
			f := files[i*len(files)/n]
			if tables.Of(f).FilterSizes() != nil {
				continue
			}
			if r, err := d.tables.Ref(f); err == nil {
				r.Unref()
			}
		}
	}
}
