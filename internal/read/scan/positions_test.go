package scan_test

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: Next of a fresh iterator returned false without an error, so the loop that LevelDB's ports
// accept, "for it.Next() { … }", visited nothing.
func TestAFreshIteratorIsBeforeTheFirstKey(t *testing.T) {
	d := storetest.Open(t, storetest.Options(vfs.NewMem()))
	for i := range 3 {
		require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.NoSync))
	}
	it := storetest.Iter(t, d, nil)
	require.False(t, it.Valid())
	require.False(t, it.Prev(), "no key is before it")
	var seen []string
	for it.Next() {
		seen = append(seen, string(it.Key()))
	}
	require.Equal(t, []string{string(fixture.Key(0)), string(fixture.Key(1)), string(fixture.Key(2))}, seen)
	require.False(t, it.Next(), "it stays after the last key")
	for it.Prev() {
		seen = seen[:len(seen)-1]
	}
	require.Empty(t, seen)
	require.NoError(t, it.Close())
	require.False(t, it.Next(), "it is closed")
	require.False(t, it.Prev())
	require.NoError(t, it.Close())
}

// position is the position of the model's iterator among its keys.
type position string

const (
	beforeFirst position = "before the first"
	atFirst     position = "at the first"
	between     position = "between"
	atLast      position = "at the last"
	afterLast   position = "after the last"
)

// positionModel is an iterator over a sorted slice.
type positionModel struct {
	keys []int
	at   int // -1 is before the first, len(keys) after the last
}

func (m *positionModel) position() position {
	switch {
	case m.at < 0:
		return beforeFirst
	case m.at == len(m.keys):
		return afterLast
	case m.at == 0:
		return atFirst
	case m.at == len(m.keys)-1:
		return atLast
	}
	return between
}

// positionMoves are all movements. Each moves the model and returns the iterator's result.
var positionMoves = []struct {
	name string
	move func(m *positionModel, it *db.Iterator, target int) bool
}{
	{"First", func(m *positionModel, it *db.Iterator, _ int) bool { m.at = 0; return it.First() }},
	{"Last", func(m *positionModel, it *db.Iterator, _ int) bool { m.at = len(m.keys) - 1; return it.Last() }},
	{"Next", func(m *positionModel, it *db.Iterator, _ int) bool { m.at = min(m.at+1, len(m.keys)); return it.Next() }},
	{"Prev", func(m *positionModel, it *db.Iterator, _ int) bool { m.at = max(m.at-1, -1); return it.Prev() }},
	{"SeekGE", func(m *positionModel, it *db.Iterator, target int) bool {
		m.at = sort.SearchInts(m.keys, target)
		return it.SeekGE(fixture.Key(target))
	}},
	{"SeekLT", func(m *positionModel, it *db.Iterator, target int) bool {
		m.at = sort.SearchInts(m.keys, target) - 1
		return it.SeekLT(fixture.Key(target))
	}},
}

// Iterators over a memtable, tables, both or nothing, with and without bounds, of the store and of a
// snapshot, move as the sorted slice does, whatever movements follow each other at whatever position.
func TestIteratorPositionsAgreeWithASortedSlice(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 15))
	type visit struct {
		from        position
		last, moved string // the previous movement, and this one
	}
	visits := map[visit]int{}
	for _, n := range []int{0, 1, 2, 6, 40} {
		for _, where := range []string{"memtable", "tables", "both"} {
			for _, bounds := range []string{"none", "lower", "upper", "both", "empty", "wrong order"} {
				t.Run(fmt.Sprintf("%d keys, %s, bounds %s", n, where, bounds), func(t *testing.T) {
					it, m := newPositions(t, rnd, n, where, bounds)
					last := "none"
					for range 400 {
						step := positionMoves[rnd.IntN(len(positionMoves))]
						from := m.position()
						visits[visit{from, last, step.name}]++
						ok := step.move(m, it, rnd.IntN(2*n+6))
						last = step.name
						requirePosition(t, m, it, ok, string(from)+", "+step.name)
					}
					require.NoError(t, it.Close())
				})
			}
		}
	}
	for _, from := range []position{beforeFirst, atFirst, between, atLast, afterLast} {
		for _, step := range positionMoves {
			require.NotZero(t, visits[visit{from, "Next", step.name}]+visits[visit{from, "Prev", step.name}], "%s: %s", from, step.name)
		}
	}
	for _, fresh := range positionMoves {
		require.NotZero(t, visits[visit{beforeFirst, "none", fresh.name}], "a fresh iterator: %s", fresh.name)
	}
	for _, seek := range []visit{
		{afterLast, "SeekGE", "Prev"}, {afterLast, "SeekGE", "Next"},
		{beforeFirst, "SeekLT", "Next"}, {beforeFirst, "SeekLT", "Prev"},
	} {
		require.NotZero(t, visits[seek], "%v", seek)
	}
}

func requirePosition(t *testing.T, m *positionModel, it *db.Iterator, ok bool, what string) {
	t.Helper()
	require.Equal(t, m.at >= 0 && m.at < len(m.keys), ok, what)
	require.Equal(t, ok, it.Valid(), what)
	require.NoError(t, it.Err(), what)
	if !ok {
		require.Nil(t, it.Key(), what)
		return
	}
	require.Equal(t, string(fixture.Key(m.keys[m.at])), string(it.Key()), what)
	require.Equal(t, string(fixture.Value(m.keys[m.at])), string(it.Value()), what)
}

// newPositions returns an iterator over a store with n keys, 3, 5, 7 and so on, and its model. The
// store also has overwritten versions and tombstones.
func newPositions(t *testing.T, rnd *rand.Rand, n int, where, bounds string) (*db.Iterator, *positionModel) {
	d := storetest.Open(t, storetest.Options(vfs.NewMem()))
	m := &positionModel{at: -1}
	for i := range n + 1 {
		key := 3 + 2*i
		require.NoError(t, d.Put(fixture.Key(key), []byte("overwritten"), db.NoSync))
		if where == "tables" || where == "both" && rnd.IntN(2) == 0 {
			require.NoError(t, d.Flush())
		}
		require.NoError(t, d.Delete(fixture.Key(key), db.NoSync))
		if i < n {
			require.NoError(t, d.Put(fixture.Key(key), fixture.Value(key), db.NoSync))
			m.keys = append(m.keys, key)
		}
	}
	if where == "tables" {
		require.NoError(t, d.Flush())
	}
	low, high := 2+rnd.IntN(n+1), 3+n+rnd.IntN(n+2)
	o := &db.IterOptions{}
	switch bounds {
	case "lower":
		o.LowerBound, high = fixture.Key(low), 1<<20
	case "upper":
		o.UpperBound, low = fixture.Key(high), 0
	case "both":
		o.LowerBound, o.UpperBound = fixture.Key(low), fixture.Key(high)
	case "empty":
		o.LowerBound, o.UpperBound, high = fixture.Key(low), fixture.Key(low), low
	case "wrong order":
		o.LowerBound, o.UpperBound, high = fixture.Key(high), fixture.Key(low), low
	default:
		low, high = 0, 1<<20
	}
	first := sort.SearchInts(m.keys, low)
	m.keys = m.keys[first:max(first, sort.SearchInts(m.keys, high))]
	if rnd.IntN(2) == 0 {
		it := storetest.Iter(t, d, o)
		return it, m
	}
	s := d.NewSnapshot()
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	for i := range 2*n + 8 {
		require.NoError(t, d.Put(fixture.Key(i), []byte("too new"), db.NoSync))
	}
	it := storetest.Iter(t, s, o)
	return it, m
}

// An iterator that failed stays invalid, whatever movement follows.
func TestAnIteratorThatFailedStaysInvalid(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	storetest.Compacted(t, o, 900)
	for _, begin := range []func(*db.Iterator) bool{(*db.Iterator).Next, (*db.Iterator).Last} {
		failing := false
		o.ReadOnly, o.Cache.Size = true, 4<<10
		o.FS = wrap.NewFaulty(mem, wrap.FailIf(nil, func(op wrap.Op) bool {
			return failing && fixture.IsTable(op.Name) && op.Kind == wrap.OpRead
		}))
		d := storetest.MustOpen(t, o)
		it := storetest.Iter(t, d, nil)
		failing = true
		require.False(t, begin(it))
		failing = false
		require.ErrorIs(t, it.Err(), wrap.ErrInjected)
		for _, m := range positionMoves {
			require.False(t, m.move(&positionModel{}, it, 100), m.name)
			require.False(t, it.Valid())
			require.ErrorIs(t, it.Err(), wrap.ErrInjected)
		}
		require.ErrorIs(t, it.Close(), wrap.ErrInjected)
		require.NoError(t, d.Close())
	}
}
