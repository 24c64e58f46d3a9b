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
				r.AddRange(key(from), key(to), closed)
				for n := from; n < to || closed && n == to; n++ {
					model[n] = true
				}
			case 1:
				to := rnd.IntN(20)
				if rnd.IntN(4) > 0 {
					continue
				}
				r.AddRange(nil, key(to), false)
				for n := range to {
					model[n] = true
				}
			case 2:
				if from = 980 + rnd.IntN(20); rnd.IntN(4) > 0 {
					continue
				}
				r.AddRange(key(from), nil, false)
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
		r.AddRange(key(n%7), key(n%7+1), false)
	}
	r.Prepare()
	require.Len(t, r.ranges, 1)
}
