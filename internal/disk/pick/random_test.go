package pick

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/manifest"
)

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
func (s *pickedStore) table(content map[byte]int) *manifest.FileMeta {
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

func (s *pickedStore) apply(e *manifest.Edit) {
	next, err := s.v.Apply(e)
	require.NoError(s.t, err)
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
	s.apply(&manifest.Edit{Added: []manifest.LevelFile{{Level: 0, File: s.table(content)}}})
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
	e, merged := &manifest.Edit{}, map[byte]int{}
	for level, files := range map[int][]*manifest.FileMeta{c.Level: c.Inputs, c.OutputLevel: c.Overlaps} {
		for _, f := range files {
			f.Compacting = false
			e.Deleted = append(e.Deleted, manifest.DeletedFile{Level: level, Num: f.Num})
			for k, v := range s.content[f.Num] {
				if max(v, -v) > max(merged[k], -merged[k]) {
					merged[k] = v
				}
			}
		}
	}
	var pos [manifest.NumLevels]int
	part := map[byte]int{}
	for k := byte('a'); k <= 'z'; k++ {
		v, ok := merged[k]
		if !ok || v < 0 && !c.HasKeyBelow([]byte{k}, &pos) {
			continue
		}
		part[k] = v
		if s.rnd.IntN(4) == 0 {
			e.Added, part = append(e.Added, manifest.LevelFile{Level: c.OutputLevel, File: s.table(part)}), map[byte]int{}
		}
	}
	if len(part) > 0 {
		e.Added = append(e.Added, manifest.LevelFile{Level: c.OutputLevel, File: s.table(part)})
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
