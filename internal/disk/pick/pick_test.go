package pick

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/result"
)

func file(num uint64, smallest, largest string, size uint64) *version.FileMeta {
	return version.NewFileMeta(num, size, ikey(smallest, 1), ikey(largest, 1))
}

func newPicker(t testing.TB, levels map[int][]*version.FileMeta) Picker {
	t.Helper()
	var e version.Change
	for level, files := range levels {
		for _, f := range files {
			e.Added = append(e.Added, version.LevelFile{Level: level, File: f})
		}
	}
	v := result.Of(version.New(base.Bytewise, new(version.Owner)).Apply(e))(t)
	return From(v)
}

func numsOf(files []*version.FileMeta) (n []uint64) {
	for _, f := range files {
		n = append(n, f.Num)
	}
	return n
}

// smallTables returns a version whose last level has n tables of a size.
func smallTables(t *testing.T, n int, size uint64) Picker {
	t.Helper()
	files := make([]*version.FileMeta, n)
	for i := range files {
		files[i] = file(uint64(i+1), fmt.Sprintf("%06d", i), fmt.Sprintf("%06d+", i), size)
	}
	return newPicker(t, map[int][]*version.FileMeta{6: files})
}

func TestNeighboursAreMergedIfThereAreManySmallTables(t *testing.T) {
	o := Options{L0Trigger: 4, MaxLevelBase: 16 << 20, TableSize: 8 << 20}
	v := smallTables(t, fewTables+1, 1<<20)
	require.Equal(t, fewTables+1-(fewTables+1)/8, v.TablesToMerge(o))
	c := v.Next(o)
	require.NotNil(t, c)
	require.Len(t, c.Inputs, 64)
	require.Equal(t, []int{6, 6}, []int{c.Level, c.OutputLevel})
	require.True(t, c.Unhurried)
	require.EqualValues(t, 8<<20, c.TableSize)

	busy := o
	busy.Running = []*Compaction{c}
	require.Nil(t, v.Next(busy), "one at a time")
	busy = o
	busy.InBurst = true
	require.Nil(t, v.Next(busy), "while memtables become full, there is something else to do")

	v.Levels[6].Files[3].Compacting = true
	require.Len(t, v.Next(o).Inputs, 3)
}

func TestTablesThatAreFewOrLargeEnoughAreNotMerged(t *testing.T) {
	o := Options{L0Trigger: 4, MaxLevelBase: 16 << 20, TableSize: 8 << 20}
	for name, v := range map[string]Picker{
		"few":          smallTables(t, fewTables, 1<<20),
		"large enough": smallTables(t, fewTables+1, 2<<20),
		"none":         newPicker(t, nil),
	} {
		require.Zero(t, v.TablesToMerge(o), name)
		require.Nil(t, v.Next(o), name)
	}
}

// Each merge halves the number of its tables, so all of them end.
func TestMergesOfSmallTablesEnd(t *testing.T) {
	const size = 8 << 20
	o := Options{L0Trigger: 4, MaxLevelBase: 16 << 20, TableSize: size}
	v := smallTables(t, 2*fewTables, 1<<20)
	num := uint64(1 << 20)
	for merges := 0; ; merges++ {
		require.Less(t, merges, 2*fewTables/64+1)
		c := v.Next(o)
		if c == nil {
			break
		}
		var e version.Change
		var bytes uint64
		for _, f := range c.Inputs {
			bytes += f.Size
			e.Deleted = append(e.Deleted, version.DeletedFile{Level: 6, Num: f.Num})
		}
		for i := range (bytes + size - 1) / size {
			f := c.Inputs[i]
			e.Added = append(e.Added, version.LevelFile{Level: 6, File: version.NewFileMeta(num, min(size, bytes), f.Smallest, f.Largest)})
			num++
			bytes -= min(size, bytes)
		}
		next := result.Of(v.Apply(e))(t)
		v = From(next)
	}
	require.Zero(t, v.TablesToMerge(o))
}

// pickedStore is a store of one-letter keys in which compactions run at the same time and end in any order.
type pickedStore struct {
	t       *testing.T
	rnd     *rand.Rand
	v       Picker
	o       Options
	content map[uint64]map[byte]int // of each table by its number; the values ascend, and negative ones are deletions
	newest  map[byte]int
	num     uint64
	last    int
}

// table returns a table of content, which may be larger than it looks.
func (s *pickedStore) table(content map[byte]int) *version.FileMeta {
	s.num++
	s.content[s.num] = content
	lo, hi := byte('z'), byte('a')
	for k := range content {
		lo, hi = min(lo, k), max(hi, k)
	}
	size := uint64(len(content)) * 3
	if s.rnd.IntN(6) == 0 {
		size = 200
	}
	return file(s.num, string(lo), string(hi), size)
}

func (s *pickedStore) apply(e version.Change) {
	next := result.Of(s.v.Apply(e))(s.t)
	s.v = From(next)
}

// flush adds a table to level 0.
func (s *pickedStore) flush() {
	content := map[byte]int{}
	for range 1 + s.rnd.IntN(3) {
		s.last++
		k, v := byte('a'+s.rnd.IntN(26)), s.last
		if s.rnd.IntN(4) == 0 {
			v = -v
		}
		content[k], s.newest[k] = v, v
	}
	s.apply(version.Change{Added: []version.LevelFile{{Level: 0, File: s.table(content)}}})
}

func (s *pickedStore) begin() {
	c := s.v.Next(s.o)
	if c == nil {
		return
	}
	for _, f := range c.AllInputs() {
		require.False(s.t, f.Compacting)
		f.Compacting = true
	}
	s.o.Running = append(s.o.Running, c)
}

// end installs the result of a running compaction: one table, which covers the gaps, or several.
func (s *pickedStore) end() {
	if len(s.o.Running) == 0 {
		return
	}
	i := s.rnd.IntN(len(s.o.Running))
	c := s.o.Running[i]
	e, merged := version.Change{}, map[byte]int{}
	for level, files := range map[int][]*version.FileMeta{c.Level: c.Inputs, c.OutputLevel: c.Overlaps} {
		for _, f := range files {
			f.Compacting = false
			e.Deleted = append(e.Deleted, version.DeletedFile{Level: level, Num: f.Num})
			for k, v := range s.content[f.Num] {
				if max(v, -v) > max(merged[k], -merged[k]) {
					merged[k] = v
				}
			}
		}
	}
	var pos [version.NumLevels]int
	part := map[byte]int{}
	for k := byte('a'); k <= 'z'; k++ {
		v, ok := merged[k]
		if !ok || v < 0 && !c.HasKeyBelow([]byte{k}, &pos) {
			continue
		}
		part[k] = v
		if s.rnd.IntN(4) == 0 {
			e.Added, part = append(e.Added, version.LevelFile{Level: c.OutputLevel, File: s.table(part)}), map[byte]int{}
		}
	}
	if len(part) > 0 {
		e.Added = append(e.Added, version.LevelFile{Level: c.OutputLevel, File: s.table(part)})
	}
	s.apply(e)
	s.o.Running = slices.Delete(s.o.Running, i, i+1)
}

func (s *pickedStore) get(k byte) int {
	for level := range s.v.Levels {
		for _, f := range s.v.Overlapping(level, []byte{k}, []byte{k}) {
			if v, ok := s.content[f.Num][k]; ok {
				return v
			}
		}
	}
	return 0
}

// Whatever is picked, and in whatever order compactions end, the newest version of each key is found first.
func TestPickedCompactionsKeepTheOrderOfVersions(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, round))
		s := &pickedStore{
			t: t, rnd: rnd, v: newPicker(t, nil), content: map[uint64]map[byte]int{}, newest: map[byte]int{}, num: 100,
			o: Options{L0Trigger: 1 + rnd.IntN(3), MaxLevelBase: 1 + rnd.Uint64N(300), TableSize: 16 * rnd.Uint64N(60)},
		}
		for range 150 {
			[]func(){s.flush, s.begin, s.begin, s.end}[rnd.IntN(4)]()
			for k, want := range s.newest {
				got := s.get(k)
				require.True(t, got == want || got == 0 && want < 0, "round %d: key %c: %d, want %d", round, k, got, want)
			}
		}
	}
}
