package filterplan

import (
	"slices"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// filterState is the state of the filters after a compaction: the levels, the bytes of the filters that remain, and the
// keys that the compaction writes. Level 0 counts with its usual maximum number of tables, unless a caller asked for
// all tables to be on one level, as they are now: then only forLevel0 is kept back for others. budget is the part of
// Options.Budget for key filters, and room what the filters that remain leave of it and of the reserve.
type filterState struct {
	levels                               []filter.LevelLoad
	filterBytes, rewritten, budget, room float64
}

// loads returns the state after c, or the present one if c is nil, and after newKeys keys are
// written that are in no table yet.
func (p *Planner) loads(v *version.Version, c *pick.Compaction, newKeys float64, asked bool) *filterState {
	s := &filterState{levels: make([]filter.LevelLoad, version.NumLevels)}
	inputs := map[*version.FileMeta]bool{}
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
	s.room = max(0, s.budget+budgetReserve*float64(p.Budget)-s.filterBytes)
	if asked && s.oneLevel() {
		s.budget -= forLevel0 * float64(p.Budget)
		return s
	}
	top := &s.levels[0]
	top.Weight = float64(max(p.L0CompactionTrigger, runs))
	top.Keys = max(top.Keys, top.Weight*float64(p.flushedKeys.Load()))
	return s
}

func (s *filterState) oneLevel() bool {
	levels := 0
	for _, l := range s.levels {
		if l.Keys > 0 {
			levels++
		}
	}
	return levels == 1 && s.levels[0].Keys == 0
}

// grown returns the levels when half of the last one's tables have been rewritten: by then half of the level above has
// been merged into it. Level 0 needs no such adjustment, because it is compacted as a whole.
func (s *filterState) grown() []filter.LevelLoad {
	loads := slices.Clone(s.levels)
	for last := version.NumLevels - 1; last > 1; last-- {
		if loads[last].Keys > 0 {
			loads[last].Keys += min(loads[last-1].Keys/2, loads[last].Keys)
			break
		}
	}
	return loads
}

// unknownKeyBytes is the assumed size of an entry in a table about which nothing is known.
const unknownKeyBytes = 128

// guess estimates the keys and filter bytes of tables of unknown sizes in proportion to their
// file size, from the known tables of the level or, at the last index, of all levels.
type guess struct {
	tables Tables
	known  [version.NumLevels + 1]struct{ size, keys, filterBytes, rangeBytes float64 }
}

func newGuess(v *version.Version, tables Tables) *guess {
	g := &guess{tables: tables}
	v.Files(func(level int, f *version.FileMeta) {
		s, ok := tables.Sizes(f)
		if !ok {
			return
		}
		for _, i := range []int{level, version.NumLevels} {
			k := &g.known[i]
			k.size += float64(f.Size)
			k.keys += float64(s.Keys)
			k.filterBytes += float64(s.FilterBytes)
			k.rangeBytes += float64(s.RangeBytes)
		}
	})
	return g
}

func (g *guess) of(level int, f *version.FileMeta) (keys, filterBytes float64) {
	if s, ok := g.tables.Sizes(f); ok {
		return float64(s.Keys), float64(s.FilterBytes)
	}
	for _, i := range []int{level, version.NumLevels} {
		k := &g.known[i]
		if part := float64(f.Size) / k.size; k.size > 0 {
			return part * k.keys, part * k.filterBytes
		}
	}
	return float64(f.Size) / unknownKeyBytes, 0
}

// rangeBytes returns the size of the range filters after the inputs have been replaced by tables with that many keys.
func (g *guess) rangeBytes(v *version.Version, inputs map[*version.FileMeta]bool, written float64) (bytes float64) {
	all := &g.known[version.NumLevels]
	if all.rangeBytes == 0 || all.keys == 0 {
		return 0
	}
	v.Files(func(_ int, f *version.FileMeta) {
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

// LearnFrom is how many tables of a level, spread over it, must be known to guess the others.
const LearnFrom = 8

// learnSizes learns the sizes of those tables if they are unknown: after Open, or if LevelDB wrote
// them. The tables with known sizes may not be typical: lookups may have opened just the one
// table of the level that has three keys. The sizes of tables that cannot be opened are guessed.
func (p *Planner) learnSizes(v *version.Version) {
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
