package txn

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/memtable"
)

func key(n int) []byte { return fmt.Appendf(nil, "%03d", n) }

// A model of a set of reads: which of the keys 0 to 999 are in it.
func TestReadsAgreeWithAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		r, model := &Reads{Comparer: base.Bytewise}, map[int]bool{}
		for range rnd.IntN(40) {
			from := rnd.IntN(1000)
			switch rnd.IntN(6) {
			case 0:
				to := min(from+rnd.IntN(30), 999)
				closed := rnd.IntN(2) == 0
				r.AddRange(Range{Lower: key(from), Upper: key(to), Closed: closed})
				for n := from; n < to || closed && n == to; n++ {
					model[n] = true
				}
			case 1:
				to := rnd.IntN(20)
				if rnd.IntN(4) > 0 {
					continue
				}
				r.AddRange(Range{Upper: key(to)})
				for n := range to {
					model[n] = true
				}
			case 2:
				if from = 980 + rnd.IntN(20); rnd.IntN(4) > 0 {
					continue
				}
				r.AddRange(Range{Lower: key(from)})
				for n := from; n < 1000; n++ {
					model[n] = true
				}
			default:
				r.AddKey(key(from))
				model[from] = true
			}
		}
		r.Prepare()
		for n := range 1000 {
			require.Equal(t, model[n], r.Covers(key(n)), "key %d", n)
		}
		requireConflicts(t, r, model, rnd)
	}
}

// requireConflicts compares Conflict with the model: a run has entries above and below the start.
func requireConflicts(t *testing.T, r *Reads, model map[int]bool, rnd *rand.Rand) {
	t.Helper()
	for range 20 {
		const start = 5000
		mem, want := memtable.New(base.Bytewise, 64<<10), false
		for i := range 1 + rnd.IntN(8) {
			n, seq := rnd.IntN(1000), uint64(start-i)
			if rnd.IntN(8) == 0 {
				seq = uint64(start + 1 + i)
				want = want || model[n]
			}
			require.True(t, mem.Add(seq, base.KindSet, key(n), nil))
		}
		got, err := r.Conflict(mem.NewIter(), Numbers{start + 1, base.MaxSeq})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestRepeatedReadsUseLittleMemory(t *testing.T) {
	r := &Reads{Comparer: base.Bytewise}
	for n := range compactBytes {
		r.AddKey(key(n % 7))
		require.LessOrEqual(t, len(r.recent), compactBytes+4)
	}
	r.Prepare()
	require.Len(t, r.keys, 7)
	for n := range 3 * compactRanges {
		r.AddRange(Range{Lower: key(n % 7), Upper: key(n%7 + 1)})
	}
	r.Prepare()
	require.Len(t, r.ranges, 1)
}

func TestWalks(t *testing.T) {
	for _, c := range []struct {
		name         string
		lower, upper []byte
		walk         func(w *Walk)
		want         []int // of 0 to 9
	}{
		{"forward to a key", nil, nil, func(w *Walk) { w.Begin(true, key(2), false); w.End(key(4)) }, []int{2, 3, 4}},
		{"forward to the end", nil, nil, func(w *Walk) { w.Begin(true, key(7), false); w.End(nil) }, []int{7, 8, 9}},
		{"forward to the bound", nil, key(8), func(w *Walk) { w.Begin(true, key(6), false); w.End(nil) }, []int{6, 7}},
		{"forward from the bound", key(5), nil, func(w *Walk) { w.Begin(true, nil, false); w.End(key(6)) }, []int{5, 6}},
		{"forward from the beginning", nil, nil, func(w *Walk) { w.Begin(true, nil, false); w.End(key(1)) }, []int{0, 1}},
		{"backward to a key", nil, nil, func(w *Walk) { w.Begin(false, key(4), false); w.End(key(2)) }, []int{2, 3}},
		{"backward from a key shown", nil, nil, func(w *Walk) { w.Begin(false, key(4), true); w.End(key(3)) }, []int{3, 4}},
		{"backward to the beginning", nil, nil, func(w *Walk) { w.Begin(false, key(2), false); w.End(nil) }, []int{0, 1}},
		{"backward to the bound", key(1), nil, func(w *Walk) { w.Begin(false, key(3), false); w.End(nil) }, []int{1, 2}},
		{"backward from the end", nil, nil, func(w *Walk) { w.Begin(false, nil, false); w.End(key(8)) }, []int{8, 9}},
		{"backward from the bound", nil, key(5), func(w *Walk) { w.Begin(false, nil, false); w.End(key(4)) }, []int{4}},
		{"nothing", nil, nil, func(w *Walk) { w.End(key(4)) }, nil},
		{"two walks", nil, nil, func(w *Walk) {
			w.Begin(true, key(1), false)
			w.End(key(2))
			w.End(key(9))
			w.Begin(true, key(5), false)
			w.End(key(5))
		}, []int{1, 2, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &Walk{Reads: &Reads{Comparer: base.Bytewise}, Lower: c.lower, Upper: c.upper}
			c.walk(w)
			w.Reads.Prepare()
			var got []int
			for n := range 10 {
				if w.Reads.Covers(key(n)) {
					got = append(got, n)
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}
