package memtable

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

// sizedTable has n entries with keys of 10 bytes and values of 0 to 999 bytes. sizes are those of the entries, by key.
func sizedTable(n int) (m *Memtable, sizes []uint64) {
	m = New(base.Bytewise, 64<<20)
	rnd := rand.New(rand.NewPCG(1, 7))
	sizes = make([]uint64, n)
	for _, i := range rnd.Perm(n) {
		value := make([]byte, rnd.IntN(1000))
		m.Add(uint64(i+1), base.KindSet, sizedKey(i), value)
		sizes[i] = nodeSize(1, 10, len(value))
	}
	return m, sizes
}

func sizedKey(i int) []byte { return fmt.Appendf(nil, "key%07d", i) }

func sum(sizes []uint64) (total uint64) {
	for _, s := range sizes {
		total += s
	}
	return total
}

func TestSizeBetweenIsExactForFewEntries(t *testing.T) {
	m, sizes := sizedTable(20_000)
	for _, r := range [][2]int{{0, 1}, {17, 18}, {100, 300}, {19_900, 20_000}, {5, 5}, {7, 3}} {
		want := uint64(0)
		if r[0] < r[1] {
			want = sum(sizes[r[0]:r[1]])
		}
		got := m.SizeBetween(sizedKey(r[0]), sizedKey(r[1]))
		if len(sizes[min(r[0], r[1]):max(r[0], r[1])]) < sizeSample/4 {
			require.Equal(t, want, got, "%v", r)
		} else {
			require.InEpsilon(t, want, got, 0.5, "%v", r)
		}
	}
	require.Zero(t, New(base.Bytewise, 1<<20).SizeBetween(nil, nil))
	require.Equal(t, sizes[19_999], m.SizeBetween(sizedKey(19_999), nil))
	require.Equal(t, sizes[0], m.SizeBetween(nil, sizedKey(1)))
}

// The mean of many estimates is right, and few are far off.
func TestSizeBetweenEstimatesManyEntries(t *testing.T) {
	m, sizes := sizedTable(50_000)
	rnd := rand.New(rand.NewPCG(3, 7))
	ratios, far := 0.0, 0
	const rounds = 300
	for range rounds {
		from := rnd.IntN(20_000)
		to := from + 3000 + rnd.IntN(27_000)
		ratio := float64(m.SizeBetween(sizedKey(from), sizedKey(to))) / float64(sum(sizes[from:to]))
		ratios += ratio
		if ratio < 0.75 || ratio > 1.25 {
			far++
		}
	}
	require.InDelta(t, 1, ratios/rounds, 0.1)
	require.Less(t, far, rounds/20)
	require.InEpsilon(t, sum(sizes), m.SizeBetween(nil, nil), 0.25)
	require.InEpsilon(t, m.Size(), m.SizeBetween(nil, nil), 0.3)
}

func TestSizeBetweenDuringWrites(t *testing.T) {
	m := New(base.Bytewise, 8<<20)
	var group sync.WaitGroup
	group.Go(func() {
		for i := range 20_000 {
			m.Add(uint64(i+1), base.KindSet, sizedKey(i), nil)
		}
	})
	for m.Len() < 20_000 {
		before := m.Len()
		if got := m.SizeBetween(nil, nil); before > 0 {
			require.Positive(t, got)
		}
	}
	group.Wait()
}
