package standalone

import (
	"bytes"
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/filtertest"
	"github.com/sievedb/sievedb/internal/test/result"
)

// evenAndOdd returns n even numbers and m odd ones as keys.
func evenAndOdd(n, m int) (even, odd [][]byte) {
	for i := range n {
		even = append(even, le64(uint64(2*i)))
	}
	for i := range m {
		odd = append(odd, le64(uint64(2*i+1)))
	}
	return even, odd
}

func TestAStaticFilterHasNoFalsePositivesAmongKnownNegatives(t *testing.T) {
	for _, c := range []struct{ keys, negatives, bits int }{
		{0, 0, 1}, {0, 1000, 3}, {1, 1000, 1}, {7, 3, 16}, {100, 10_000, 4}, {5000, 5000, 1}, {20_000, 100_000, 7}, {50_000, 10, 8},
	} {
		keys, negatives := evenAndOdd(c.keys, c.negatives)
		s := result.Of(NewStatic(keys, negatives, c.bits))(t)
		saved := result.Of(s.MarshalBinary())(t)
		var read Static
		require.NoError(t, read.UnmarshalBinary(saved))
		for _, f := range []*Static{s, &read} {
			for _, key := range keys {
				if !f.MayContain(key) {
					require.Fail(t, "a key is denied", "%+v", c)
				}
			}
			for _, key := range negatives {
				if f.MayContain(key) {
					require.Fail(t, "a known negative passes", "%+v", c)
				}
			}
		}
		again := result.Of(read.MarshalBinary())(t)
		require.Equal(t, saved, again)
		require.Equal(t, s.SizeBytes(), read.SizeBytes())
		require.Equal(t, s.PredictedRate(), read.PredictedRate())
	}
}

// The second filter halves the rate of other absent keys, for 1.14 bits a key at this number of keys.
func TestStaticFilterRatesMatchThePrediction(t *testing.T) {
	rng := filtertest.StatisticsRand(t)
	keys, negatives := evenAndOdd(50_000, 50_000)
	for bits := 1; bits <= 10; bits += 3 {
		plain := result.Of(NewStatic(keys, nil, bits))(t)
		s := result.Of(NewStatic(keys, negatives, bits))(t)
		require.Equal(t, math.Pow(2, -float64(bits)), plain.PredictedRate())
		require.Equal(t, math.Pow(2, -float64(bits+1)), s.PredictedRate())
		cost := 8 * float64(s.SizeBytes()-plain.SizeBytes()) / float64(len(keys))
		require.InDelta(t, 1.14+1.14*math.Pow(2, -float64(bits)), cost, 0.1, "one slot for each key and each negative that passes")
		for _, f := range []*Static{plain, s} {
			passed := 0
			const asked = 400_000
			for range asked {
				if f.MayContain(le64(rng.Uint64() | 1<<63)) {
					passed++
				}
			}
			rate := f.PredictedRate()
			require.InDelta(t, rate, float64(passed)/asked, filtertest.Sigmas*math.Sqrt(rate/asked))
		}
	}
}

func TestNewStaticRefusesWhatItCannotMake(t *testing.T) {
	keys, negatives := evenAndOdd(10, 10)
	for _, bits := range []int{-1, 0, 17} {
		s, err := NewStatic(keys, negatives, bits)
		require.ErrorContains(t, err, "want 1 to 16")
		require.Nil(t, s)
	}
	_, err := NewStatic(keys, append(negatives, keys[3]), 8)
	require.EqualError(t, err, "standalone: key 3 is also known negative 10; a key cannot be both (counted from 0)")

	s, err := NewStatic(append(keys, keys...), append(negatives, negatives...), 1)
	require.NoError(t, err, "duplicates within a list")
	require.True(t, s.MayContain(keys[9]))
}

// By hand: see the example of version 2 in filter/fuse.go.
func TestASavedStaticFilterHasTheSpecifiedBytes(t *testing.T) {
	s := result.Of(NewStatic([][]byte{[]byte("hello"), []byte("world")}, nil, 7))(t)
	saved := result.Of(s.MarshalBinary())(t)
	require.Equal(t, "6b01"+"1100000000000000"+"8080000000000000000000000000"+"000107", hex.EncodeToString(saved[:len(saved)-4]))
}

func TestDamagedStaticFiltersAreRefused(t *testing.T) {
	keys, negatives := evenAndOdd(100, 1000)
	s := result.Of(NewStatic(keys, negatives, 3))(t)
	saved := result.Of(s.MarshalBinary())(t)
	require.True(t, s.hasSecond())
	refused := func(body []byte) {
		t.Helper()
		var read Static
		require.ErrorIs(t, read.UnmarshalBinary(appendChecksum(body, 0)), ErrCorrupt)
		require.Zero(t, read)
	}
	body := saved[: len(saved)-4 : len(saved)-4]
	for n := range body {
		if n != 10+s.size { // without its second array it is a filter
			refused(bytes.Clone(body[:n]))
		}
	}
	for at, b := range map[int]byte{0: 's', 1: 2, 2: byte(s.size) + 1, 9: 1, 9 + s.size: 0, 8 + s.size: 17, len(body) - 1: 2} {
		changed := bytes.Clone(body)
		changed[at] = b
		refused(changed)
	}
	var read Static
	require.ErrorIs(t, read.UnmarshalBinary(body), ErrCorrupt)
}

func FuzzStatic(f *testing.F) {
	keys, negatives := evenAndOdd(30, 300)
	for _, bits := range []int{1, 7, 16} {
		s := result.Of(NewStatic(keys, negatives, bits))(f)
		saved := result.Of(s.MarshalBinary())(f)
		f.Add(saved[:len(saved)-4], []byte("key"))
	}
	f.Add([]byte{'k', 1}, []byte{})
	f.Fuzz(func(t *testing.T, body, key []byte) {
		saved := appendChecksum(bytes.Clone(body), 0)
		var s Static
		if s.UnmarshalBinary(saved) != nil {
			return
		}
		s.MayContain(key)
		again := result.Of(s.MarshalBinary())(t)
		require.Equal(t, saved, again)
	})
}
