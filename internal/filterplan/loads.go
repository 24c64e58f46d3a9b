package filterplan

import (
	"slices"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/manifest"
)

// filterState is the levels as they will be after a compaction, the bytes of the filters
// that it leaves alone, and the keys that it writes. Level 0 counts with as many tables as
// it usually comes to hold. budget is the part of Options.Budget that is for filters of keys.
type filterState struct {
	levels                         []filter.LevelLoad
	filterBytes, rewritten, budget float64
}

// loads returns the state after c, or the present one if c is nil, and after newKeys
// are written that no table has yet.
func (p *Planner) loads(v *manifest.Version, c *manifest.Compaction, newKeys float64) *filterState {
	s := &filterState{levels: make([]filter.LevelLoad, manifest.NumLevels)}
	inputs := map[*manifest.FileMeta]bool{}
	if c != nil {
		for _, f := range c.AllInputs() {
			inputs[f] = true
		}
	}
	guess, runs := newGuess(v, p.tables), 0
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
	s.budget = max(0, (1-budgetReserve)*float64(p.Budget)-guess.rangeBytes(v, inputs, s.rewritten+newKeys))
	top := &s.levels[0]
	top.Weight = float64(max(p.L0CompactionTrigger, runs))
	top.Keys = max(top.Keys, top.Weight*float64(p.flushedKeys.Load()))
	return s
}

// grown returns the levels when half of the last one's tables have been written anew: by
// then half of what stands on the level above has come there. What comes from level 0 all
// at once needs no such care.
func (s *filterState) grown() []filter.LevelLoad {
	loads := slices.Clone(s.levels)
	for last := manifest.NumLevels - 1; last > 1; last-- {
		if loads[last].Keys > 0 {
			loads[last].Keys += min(loads[last-1].Keys/2, loads[last].Keys)
			break
		}
	}
	return loads
}

// unknownKeyBytes is what an entry takes in a table of which nothing is known.
const unknownKeyBytes = 128

// guess knows the keys and filter bytes of tables in proportion to their size, by level
// and, last, over all, for tables whose sizes are not known.
type guess struct {
	tables Tables
	known  [manifest.NumLevels + 1]struct{ size, keys, filterBytes, rangeBytes float64 }
}

func newGuess(v *manifest.Version, tables Tables) *guess {
	g := &guess{tables: tables}
	v.Files(func(level int, f *manifest.FileMeta) {
		s, ok := tables.Sizes(f)
		if !ok {
			return
		}
		for _, i := range []int{level, manifest.NumLevels} {
			k := &g.known[i]
			k.size += float64(f.Size)
			k.keys += float64(s.Keys)
			k.filterBytes += float64(s.FilterBytes)
			k.rangeBytes += float64(s.RangeBytes)
		}
	})
	return g
}

func (g *guess) of(level int, f *manifest.FileMeta) (keys, filterBytes float64) {
	if s, ok := g.tables.Sizes(f); ok {
		return float64(s.Keys), float64(s.FilterBytes)
	}
	for _, i := range []int{level, manifest.NumLevels} {
		k := &g.known[i]
		if part := float64(f.Size) / k.size; k.size > 0 {
			return part * k.keys, part * k.filterBytes
		}
	}
	return float64(f.Size) / unknownKeyBytes, 0
}

// rangeBytes returns what range filters will take when the inputs have been replaced by
// tables of so many keys.
func (g *guess) rangeBytes(v *manifest.Version, inputs map[*manifest.FileMeta]bool, written float64) (bytes float64) {
	all := &g.known[manifest.NumLevels]
	if all.rangeBytes == 0 || all.keys == 0 {
		return 0
	}
	v.Files(func(_ int, f *manifest.FileMeta) {
		s, known := g.tables.Sizes(f)
		switch {
		case inputs[f]:
		case known:
			bytes += float64(s.RangeBytes)
		default:
			bytes += float64(f.Size) / all.size * all.rangeBytes
		}
	})
	return bytes + written*all.rangeBytes/all.keys
}

// LearnFrom is how many tables of a level, spread over it, are known when the others are guessed.
const LearnFrom = 8

// learnSizes learns the sizes of those tables of which nothing is known: after Open, or when
// LevelDB wrote them. The sizes that are known need not be typical: lookups may have opened
// the one table of the level that holds three keys. The sizes of tables that cannot be
// opened are guessed.
func (p *Planner) learnSizes(v *manifest.Version) {
	for level := range v.Levels {
		files := v.Levels[level].Files
		n := min(LearnFrom, len(files))
		for i := range n {
			f := files[i*len(files)/n]
			if _, known := p.tables.Sizes(f); !known {
				p.tables.Learn(f)
			}
		}
	}
}
