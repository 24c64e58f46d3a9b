package sstable

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

// randomAsks returns at most 12 lookups that the table's filter does not rule out.
func randomAsks(rnd *rand.Rand, r *Reader, es entries) (asks []Ask) {
	for range 1 + rnd.IntN(12) {
		lk := new(Lookup)
		lk.Init(randomUser(rnd, es), randomSeq(rnd))
		if !r.Denies(lk) {
			asks = append(asks, Ask{Reader: r, Lookup: lk})
		}
	}
	return asks
}

// asksFor returns lookups of the newest versions of these keys.
func asksFor(r *Reader, users ...[]byte) []Ask {
	asks := make([]Ask, len(users))
	for i, user := range users {
		asks[i] = Ask{Reader: r, Lookup: new(Lookup)}
		asks[i].Lookup.Init(user, base.MaxSeq)
	}
	return asks
}

// requireGetOf checks that g's result for a is that of Get for the same lookup.
func requireGetOf(t *testing.T, g *Group, a *Ask) {
	got := result.Of(g.Get(a))(t)
	var lk Lookup
	lk.Init(a.Lookup.userKey, 0)
	lk.trailer = a.Lookup.trailer
	want := result.Of(a.Reader.Get(&lk))(t)
	require.Equal(t, string(want.Value), string(got.Value))
	require.Equal(t, want.Trailer, got.Trailer)
	require.Equal(t, want.Found, got.Found)
	require.Equal(t, want.Filter, got.Filter)
	lk.Release()
}

// A group returns the results of Get: for tables with each kind of filter and with none,
// with a cache and without one, in any order of the lookups.
func TestAGroupReturnsTheResultsOfGet(t *testing.T) {
	rnd := newRand(t)
	es := trickyEntries(rnd, base.Bytewise, 800)
	tables := map[string][]byte{
		"whole-table filter": buildTable(t, WriterOptions{Filter: lines, BlockSize: 300}, es),
		"LevelDB's filters":  buildPerBlock(t, bloom, es, 300, minBaseLg),
		"no filter":          buildTable(t, WriterOptions{BlockSize: 300, Compression: NoCompression}, es),
	}
	for name, data := range tables {
		for _, cacheSize := range []int64{0, 4 << 10, 1 << 20} {
			t.Run(name, func(t *testing.T) {
				o := ReaderOptions{Policies: []filter.Policy{lines, bloom}}
				if cacheSize > 0 {
					o.Cache = NewBlockCache(cacheSize)
				}
				r, _ := openTable(t, data, o)
				var g Group
				for range 60 {
					asks := randomAsks(rnd, r, es)
					g.Prepare(asks)
					for i := range asks {
						requireGetOf(t, &g, &asks[i])
					}
					if rnd.IntN(4) == 0 {
						g.Release()
					}
				}
				g.Release()
			})
		}
	}
}

// A lookup that shares its block with no other decodes only the slice that it needs. Lookups
// that share a block decode it once.
func TestAGroupDecodesSlicesOfUnsharedBlocks(t *testing.T) {
	rnd := newRand(t)
	es := trickyEntries(rnd, base.Bytewise, 400)
	c := newCache()
	r, _ := openTable(t, buildTable(t, WriterOptions{BlockSize: 2000, BlockRestartInterval: 4}, es), ReaderOptions{Cache: c})
	for range 50 {
		require.Positive(t, putInSlices(t, r, c))
		var lookups [6]Lookup
		var asks [6]Ask
		for i := range asks {
			lookups[i].Init(randomUser(rnd, es), randomSeq(rnd))
			asks[i] = Ask{Reader: r, Lookup: &lookups[i]}
		}
		var g Group
		g.Prepare(asks[:])
		for i := range asks {
			got := result.Of(g.Get(&asks[i]))(t)
			requireModel(t, base.Bytewise, es, lookups[i].userKey, lookups[i].trailer>>8, got)
		}
		g.Release()
	}

	require.Positive(t, putInSlices(t, r, c))
	ix := r.index.Load()
	decoded := func(users ...[]byte) (whole bool) {
		asks := asksFor(r, users...)
		var g Group
		defer g.Release()
		g.Prepare(asks)
		result.Of(g.Get(&asks[0]))(t)
		return g.last.index != nil
	}
	i := 0
	for ix.slots[i].Peek().kind != slicedKind {
		i++
	}
	user := base.UserKey(ix.Separator(i))
	require.False(t, decoded(user))
	require.True(t, decoded(user, user))
}

// A slice is decoded to memory that held the shared block before.
func TestAGroupReturnsToABlockAfterASliceOfAnother(t *testing.T) {
	es := plainEntries(200, 100)
	c := newCache()
	r, _ := openTable(t, buildTable(t, WriterOptions{BlockSize: 2000, BlockRestartInterval: 4}, es), ReaderOptions{Cache: c})
	require.Positive(t, putInSlices(t, r, c))
	var users [][]byte
	order := []int{0, 1, 100, 2, 150, 101}
	for _, e := range order {
		users = append(users, base.UserKey(es[e].Key))
	}
	asks := asksFor(r, users...)
	var g Group
	defer g.Release()
	g.Prepare(asks)
	for i, e := range order {
		res := result.Of(g.Get(&asks[i]))(t)
		require.Equal(t, string(es[e].Value), string(res.Value))
	}
}

// Adjacent lookups that need the same block read it once.
func TestAGroupReadsASharedBlockOnce(t *testing.T) {
	es := plainEntries(200, 20)
	r, _ := openTable(t, buildTable(t, WriterOptions{BlockSize: 1 << 20}, es), ReaderOptions{})
	var g Group
	var users [][]byte
	for i := range 50 {
		users = append(users, base.UserKey(es[3*i].Key))
	}
	asks := asksFor(r, users...)
	g.Prepare(asks)
	reads := 0
	for i := range asks {
		res := result.Of(g.Get(&asks[i]))(t)
		require.Equal(t, string(es[3*i].Value), string(res.Value))
		if res.BlockFromDisk {
			reads++
		}
	}
	require.Equal(t, 1, reads)
	g.Release()
}
