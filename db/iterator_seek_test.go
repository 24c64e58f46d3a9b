package db

import (
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// Seeks from the iterator's position agree with the sorted keys: near or far, forward or backward,
// through several levels, a memtable, tombstones and bounds, whatever movements come between them.
func TestSeeksFromTheCurrentPositionAgreeWithTheKeys(t *testing.T) {
	const n = 4000
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	o := testOptions(vfs.NewMem())
	d := openTest(t, o)
	fill(t, d, 0, n)
	settle(t, d)
	stored := map[int]bool{}
	for i := range n {
		stored[i] = true
	}
	for range 3 {
		for range n / 10 { // runs of tombstones, and single ones
			i, length := rnd.IntN(n), 1+rnd.IntN(20)*rnd.IntN(2)
			for j := i; j < min(i+length, n); j++ {
				require.NoError(t, d.Delete(testKey(j), NoSync))
				stored[j] = false
			}
			i = rnd.IntN(n)
			require.NoError(t, d.Put(testKey(i), testValue(i), NoSync))
			stored[i] = true
		}
		if rnd.IntN(2) == 0 {
			require.NoError(t, d.Flush())
		}
	}
	for range 30 {
		lower, upper := 0, n
		var bounds IterOptions
		if rnd.IntN(2) == 0 {
			lower = rnd.IntN(n)
			bounds.LowerBound = testKey(lower)
		}
		if rnd.IntN(2) == 0 {
			upper = lower + rnd.IntN(n-lower+1)
			bounds.UpperBound = testKey(upper)
		}
		var keys []int
		for i := lower; i < upper; i++ {
			if stored[i] {
				keys = append(keys, i)
			}
		}
		it, err := d.NewIterator(&bounds)
		require.NoError(t, err)
		seekAround(t, it, rnd, keys, n)
		require.NoError(t, it.Close())
	}
}

// seekAround moves the iterator and compares it with its place in keys.
func seekAround(t *testing.T, it *Iterator, rnd *rand.Rand, keys []int, n int) {
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
			ok = it.SeekGE(testKey(target))
		case op == 6:
			at = sort.SearchInts(keys, target) - 1
			ok = it.SeekLT(testKey(target))
		case op == 7:
			at, ok = 0, it.First()
		case op == 8:
			at, ok = min(at+1, len(keys)), it.Next()
		default:
			at, ok = max(at-1, -1), it.Prev()
		}
		require.Equal(t, at >= 0 && at < len(keys), ok)
		if ok {
			require.Equal(t, string(testKey(keys[at])), string(it.Key()))
			require.Equal(t, string(testValue(keys[at])), string(it.Value()))
		}
	}
	require.NoError(t, it.Err())
}

func TestSearchingALevelByNumbersAgreesWithKeys(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	snapshot := d.NewSnapshot() // keeps the sequence numbers
	defer snapshot.Close()
	fill(t, d, 0, 4000)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	levels := d.state().Version.Levels[:]
	searched := 0
	for i := range levels[1:] {
		l := &levels[1+i]
		for _, hi := range []int{len(l.Files), len(l.Files) / 2} { // without and with an upper bound
			files := l.Files[:hi]
			numbers := tables.NewLevelIter(d.tables, d.opts.Comparer, files, sstable.IterOptions{})
			numbers.SetLevel(l)
			keys := tables.NewLevelIter(d.tables, d.opts.Comparer, files, sstable.IterOptions{})
			agree := func(user []byte, seq uint64) {
				ikey := base.AppendInternalKey(nil, user, seq, base.KindSeek)
				require.Equal(t, keys.Find(ikey), numbers.Find(ikey), "sequence number %d", seq)
			}
			for _, f := range l.Files {
				for _, bound := range [][]byte{f.Smallest, f.Largest} {
					user := base.UserKey(bound)
					seq, _ := base.SplitTrailer(base.Trailer(bound))
					for _, seq := range []uint64{0, max(seq, 1) - 1, seq, seq + 1, base.MaxSeq} {
						agree(user, seq)
						agree(append(user[:len(user):len(user)], 0), seq)
						agree(user[:len(user)-1], seq)
					}
				}
			}
			agree(nil, base.MaxSeq)
			agree([]byte{0xff}, base.MaxSeq)
			searched += hi
		}
	}
	require.Greater(t, searched, 4)
}
