package version

import (
	"fmt"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

// scaleKey returns the i-th user key, of 16 bytes.
func scaleKey(i int) string { return fmt.Sprintf("k%015d", i) }

// scaleStore is a version of many tables of one size. Each level has about ten times the tables of the one
// above, and the tables of a level ascend without gaps.
type scaleStore struct {
	v    *Version
	num  uint64
	span [NumLevels]int // keys in a table
	keys int
}

const scaleTableSize = 2 << 20

// scaleEdit returns the edit that adds the tables to an empty version, in the order of their levels.
func (s *scaleStore) scaleEdit(tables int) Change {
	var e Change
	const level0 = 4
	counts := [NumLevels]int{0: level0}
	for level, left := NumLevels-1, tables-level0; level > 0 && left > 0; level-- {
		counts[level] = max(1, left-left/10)
		if level == 1 {
			counts[level] = left
		}
		left -= counts[level]
	}
	s.keys = counts[NumLevels-1] * 1000
	for level, n := range counts {
		for i := range n {
			if s.span[level] = s.keys / n; level == 0 {
				s.span[level] = s.keys
				e.Added = append(e.Added, LevelFile{0, s.table(0, 0)})
				continue
			}
			e.Added = append(e.Added, LevelFile{level, s.table(level, i)})
		}
	}
	return e
}

// table returns a new table with the range of the i-th one of a level.
func (s *scaleStore) table(level, i int) *FileMeta {
	s.num++
	f := file(s.num, scaleKey(i*s.span[level]), scaleKey((i+1)*s.span[level]-1), scaleTableSize)
	f.SetCounts(&TableCounts{Entries: 30_000, Tombstones: 100, LargestSeq: 1})
	f.Seqs.Store(&SeqRange{Smallest: s.num, Largest: s.num, Known: true})
	return f
}

func newScaleStore(t testing.TB, tables int) *scaleStore {
	s := new(scaleStore)
	v := result.Of(New(base.Bytewise, new(Owner)).Apply(s.scaleEdit(tables)))(t)
	s.v = v
	return s
}

// apply installs the result of an edit.
func (s *scaleStore) apply(t testing.TB, e Change) {
	next, err := s.v.Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	s.v.Unref()
	s.v = next
}

// flush adds a table to level 0 and removes the oldest one, so that the size stays the same.
func (s *scaleStore) flush() Change {
	oldest := s.v.Levels[0].Files[len(s.v.Levels[0].Files)-1]
	return Change{Deleted: []DeletedFile{{0, oldest.Num}}, Added: []LevelFile{{0, s.table(0, 0)}}}
}

// compaction replaces a table of a level and ten of the next one by as many.
func (s *scaleStore) compaction(i int) Change {
	var e Change
	for level, n := range map[int]int{NumLevels - 2: 1, NumLevels - 1: 10} {
		all := s.v.Levels[level].Files
		n = min(n, len(all))
		at := i * 7919 % (len(all) - n + 1)
		for _, f := range all[at : at+n] {
			s.num++
			g := NewFileMeta(s.num, f.Size, f.Smallest, f.Largest)
			g.SetCounts(f.Counts())
			g.Seqs.Store(f.Seqs.Load())
			e.Deleted = append(e.Deleted, DeletedFile{level, f.Num})
			e.Added = append(e.Added, LevelFile{level, g})
		}
	}
	return e
}

// overlaps makes the version know what a choice of compactions needs, so that the next one hands it on.
func (s *scaleStore) overlaps() {
	for level := 1; level < NumLevels-1; level++ {
		s.v.OverlapRatios(level)
	}
}

// BenchmarkEdit measures an edit, what it keeps for the choice of compactions, and the release of the old version.
func BenchmarkEdit(b *testing.B) {
	for _, tables := range []int{30, 4_000, 40_000, 400_000} {
		b.Run(fmt.Sprintf("tables=%d", tables), func(b *testing.B) {
			s := newScaleStore(b, tables)
			b.Run("edit=flush", func(b *testing.B) {
				for b.Loop() {
					s.apply(b, s.flush())
					s.overlaps()
				}
			})
			b.Run("edit=compaction", func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					s.apply(b, s.compaction(i))
					s.overlaps()
				}
			})
		})
	}
}
