package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeysAreAllDifferent(t *testing.T) {
	for _, random := range []bool{false, true} {
		k := keySpace{random: random}
		seen := map[string]bool{}
		const n = 5000
		for i := range uint64(n) {
			seen[string(k.stored(nil, i))] = true
			seen[string(k.absent(nil, i))] = true
		}
		require.Len(t, seen, 2*n)
		for key := range seen {
			require.Len(t, key, keySize)
		}
	}
	require.Equal(t, fmt.Sprintf("%016d", 15), string(keySpace{}.absent(nil, 7)))
}

func TestAPermutationHasEachNumberOnce(t *testing.T) {
	for _, n := range []uint64{2, 3, 100, 1000, 1024, 4097} {
		p, seen := newPermutation(n, seed), map[uint64]bool{}
		rising := 0
		for i := range n {
			seen[p.at(i)] = true
			require.Less(t, p.at(i), n)
			if i > 0 && p.at(i) > p.at(i-1) {
				rising++
			}
		}
		require.Len(t, seen, int(n))
		if n > 1000 {
			require.InDelta(t, 0.5, float64(rising)/float64(n), 0.05)
		}
	}
}

func TestZetaIsTheSum(t *testing.T) {
	for _, n := range []int{1, 9_999, 10_000, 10_001, 300_000} {
		sum := 0.0
		for i := range n {
			sum += math.Pow(float64(i+1), -theta)
		}
		require.InEpsilon(t, sum, zeta(n), 1e-12, n)
	}
}

func TestInsertedKeysAreBetweenLoadedOnes(t *testing.T) {
	const num = 1000
	s, th := newSession(&config{Num: num, KeyShape: counterKeys, ValueSize: 1}, ""), &thread{}
	seen, below := map[string]uint64{}, 0
	for i := range uint64(2 * num) {
		n := s.inserted(th, i)
		require.NotContains(t, seen, string(th.key))
		seen[string(th.key)] = n
		if i < num {
			require.Equal(t, s.keys.stored(nil, s.order.at(i)), th.key)
		} else if string(th.key) < string(s.keys.stored(nil, num/2)) {
			below++
		}
	}
	require.Equal(t, num/2, below)
	n := s.inserted(th, 3*num-1)
	require.Equal(t, seen[string(th.key)], n, "a repeated key has the same value")
}

// YCSB's most popular of a thousand keys gets 1/zeta(1000, 0.99) of the draws.
func TestZipfianIsAsSkewedAsYCSBs(t *testing.T) {
	const n, draws = 1000, 200_000
	z, rng, counts := newZipfian(n), rand.New(rand.NewPCG(1, 1)), [n]int{}
	for range draws {
		counts[z.draw(rng)]++
	}
	require.InDelta(t, 1/z.zeta, float64(counts[0])/draws, 0.01)
	require.Greater(t, counts[0], counts[1])
	require.Greater(t, counts[1], counts[10])
	require.Positive(t, counts[n/2])
}
