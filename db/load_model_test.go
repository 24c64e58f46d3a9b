package db

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// Loads of the whole range or of parts of it, and writes, are compared with a map, while
// compactions run.
func TestLoadsAndWritesAgreeWithAMap(t *testing.T) {
	testSeeds(t, func(t *testing.T, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 77))
		o := testOptions(vfs.NewMem())
		o.Compaction.MaxConcurrent, o.Tables.Size, o.Tables.Compression = 2, 4<<10, NoCompression
		d := openTest(t, o)
		want := map[int]int{}
		for round := range 60 {
			l := newLoader(t, d)
			from, step := rnd.IntN(1000), 1+rnd.IntN(40)
			to := from + rnd.IntN(1500)
			loaded := map[int]int{}
			for i := from; i < to; i += step {
				if rnd.IntN(5) == 0 {
					require.NoError(t, l.Delete(testKey(i)))
					loaded[i] = -1
				} else {
					loaded[i] = rnd.IntN(1e6)
					require.NoError(t, l.Put(testKey(i), testValue(loaded[i])))
				}
				if w := rnd.IntN(2500); w%4 == 0 && round%3 > 0 {
					want[w] = rnd.IntN(1e6)
					require.NoError(t, d.Put(testKey(w), testValue(want[w]), NoSync))
				}
			}
			if rnd.IntN(6) == 0 {
				require.NoError(t, l.Close())
				continue
			}
			require.NoError(t, l.Commit())
			for i, v := range loaded {
				want[i] = v
			}
			for range 300 {
				i := rnd.IntN(2500)
				got, err := d.Get(testKey(i))
				if v, ok := want[i]; ok && v >= 0 {
					require.NoError(t, err, "key %d, round %d", i, round)
					require.Equal(t, string(testValue(v)), string(got), "key %d, round %d", i, round)
				} else {
					require.Equal(t, ErrNotFound, err, "key %d, round %d", i, round)
				}
			}
		}
		report, err := d.Check(context.Background())
		require.NoError(t, err)
		require.Empty(t, report.Faults)
		m := d.Metrics()
		t.Logf("%d loads of %d tables, %d compactions, %d moves", m.Loads.Count, m.Loads.Tables, m.Compactions.Count, m.Compactions.TrivialMoves)
	})
}
