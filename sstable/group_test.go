package sstable

import (
	"math/rand/v2"
	"testing"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
)

// A group answers what Get answers: of tables with each kind of filter and with
// none, through a cache and without one, in any order of the lookups.
func TestAGroupAnswersAsGetDoes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
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
					var lookups [12]Lookup
					asks := make([]Ask, 1+rnd.IntN(len(lookups)))
					for i := range asks {
						lookups[i].Init(randomUser(rnd, es), randomSeq(rnd))
						asks[i] = Ask{Reader: r, Lookup: &lookups[i]}
					}
					g.Prepare(asks)
					for i := range asks {
						got, err := g.Get(&asks[i])
						require.NoError(t, err)
						var lk Lookup
						lk.Init(lookups[i].userKey, 0)
						lk.trailer = lookups[i].trailer
						want, err := r.Get(&lk)
						require.NoError(t, err)
						require.Equal(t, string(want.Value), string(got.Value))
						require.Equal(t, want.Trailer, got.Trailer)
						require.Equal(t, want.Found, got.Found)
						require.Equal(t, want.Filter, got.Filter)
						require.Equal(t, asks[i].Denied(), got.Filter == FilterNegative && r.filter.whole)
						lk.Release()
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

// Lookups next to each other that need the same block read it once.
func TestAGroupReadsASharedBlockOnce(t *testing.T) {
	es := plainEntries(200, 20)
	r, _ := openTable(t, buildTable(t, WriterOptions{BlockSize: 1 << 20}, es), ReaderOptions{})
	var g Group
	var lookups [50]Lookup
	asks := make([]Ask, len(lookups))
	for i := range asks {
		lookups[i].Init(base.UserKey(es[3*i].Key), base.MaxSeq)
		asks[i] = Ask{Reader: r, Lookup: &lookups[i]}
	}
	g.Prepare(asks)
	reads := 0
	for i := range asks {
		res, err := g.Get(&asks[i])
		require.NoError(t, err)
		require.Equal(t, string(es[3*i].Value), string(res.Value))
		if res.BlockFromDisk {
			reads++
		}
	}
	require.Equal(t, 1, reads)
	g.Release()
}
