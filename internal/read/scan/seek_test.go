package scan_test

import (
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// Seeks from the iterator's position agree with the sorted keys: near or far, forward or backward,
// through several levels, a memtable, tombstones and bounds, whatever movements come between them.
func TestSeeksFromTheCurrentPositionAgreeWithTheKeys(t *testing.T) {
	const n = 4000
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	o := storetest.Options(vfs.NewMem())
	d := storetest.Open(t, o)
	storetest.Fill(t, d, 0, n)
	storetest.Settle(t, d)
	stored := map[int]bool{}
	for i := range n {
		stored[i] = true
	}
	for range 3 {
		for range n / 10 { // runs of tombstones, and single ones
			i, length := rnd.IntN(n), 1+rnd.IntN(20)*rnd.IntN(2)
			for j := i; j < min(i+length, n); j++ {
				require.NoError(t, d.Delete(fixture.Key(j), db.NoSync))
				stored[j] = false
			}
			i = rnd.IntN(n)
			require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.NoSync))
			stored[i] = true
		}
		if rnd.IntN(2) == 0 {
			require.NoError(t, d.Flush())
		}
	}
	for range 30 {
		lower, upper := 0, n
		var bounds db.IterOptions
		if rnd.IntN(2) == 0 {
			lower = rnd.IntN(n)
			bounds.LowerBound = fixture.Key(lower)
		}
		if rnd.IntN(2) == 0 {
			upper = lower + rnd.IntN(n-lower+1)
			bounds.UpperBound = fixture.Key(upper)
		}
		var keys []int
		for i := lower; i < upper; i++ {
			if stored[i] {
				keys = append(keys, i)
			}
		}
		it := storetest.Iter(t, d, &bounds)
		seekAround(t, it, rnd, keys, n)
		require.NoError(t, it.Close())
	}
}

// seekAround moves the iterator and compares it with its place in keys.
func seekAround(t *testing.T, it *db.Iterator, rnd *rand.Rand, keys []int, n int) {
	t.Helper()
	at, target := -1, 0
	for range 400 {
		if rnd.IntN(10) == 0 {
			target = rnd.IntN(n)
		} else {
			target += rnd.IntN(40) - 8
			target = min(max(target, 0), n)
		}
		var ok bool
		switch op := rnd.IntN(10); {
		case op < 6:
			at = sort.SearchInts(keys, target)
			ok = it.SeekGE(fixture.Key(target))
		case op == 6:
			at = sort.SearchInts(keys, target) - 1
			ok = it.SeekLT(fixture.Key(target))
		case op == 7:
			at, ok = 0, it.First()
		case op == 8:
			at, ok = min(at+1, len(keys)), it.Next()
		default:
			at, ok = max(at-1, -1), it.Prev()
		}
		require.Equal(t, at >= 0 && at < len(keys), ok)
		if ok {
			require.Equal(t, string(fixture.Key(keys[at])), string(it.Key()))
			require.Equal(t, string(fixture.Value(keys[at])), string(it.Value()))
		}
	}
	require.NoError(t, it.Err())
}
