package standalone

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"math"
	"math/big"
	"testing"

	"github.com/sievedb/sievedb/internal/test/filtertest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/util"
	"github.com/stretchr/testify/require"
)

func le64(i uint64) []byte { return binary.LittleEndian.AppendUint64(nil, i) }

// This test failed in 30 of 958 runs: it took full counters for a fault.
func TestCountingAgreesWithAMultiset(t *testing.T) {
	rng := filtertest.NewRand(t)
	c := result.Of(NewCounting(1000, 0.01))(t)
	bag := map[uint64]int{}
	total := 0
	for range 200_000 {
		key := rng.Uint64N(2000)
		if rng.IntN(2) == 0 && total < 1000 && bag[key] < 3 {
			c.Add(le64(key))
			bag[key]++
			total++
		} else if bag[key] > 0 {
			require.True(t, c.Remove(le64(key)))
			bag[key]--
			total--
		}
		if other := rng.Uint64N(2000); bag[other] > 0 && !c.MayContain(le64(other)) {
			require.Fail(t, "a key that is in the filter is denied")
		}
		require.EqualValues(t, total, c.Len())
	}
	for key, n := range bag {
		for range n {
			require.True(t, c.Remove(le64(key)))
		}
	}
	require.Zero(t, c.Len())
	for at := range c.slots { // full counters stay; one run of 30 has some
		if n := c.counter(at); n != 0 && n != fullCounter {
			require.Fail(t, "removed keys left a counter", "counter %d is %d", at, n)
		}
	}
}

func TestRemovingADeniedKeyChangesNothing(t *testing.T) {
	c := result.Of(NewCounting(100, 0.001))(t)
	c.Add([]byte("a"))
	before := bytes.Clone(c.counters)
	require.False(t, c.Remove([]byte("b")))
	require.Equal(t, before, c.counters)
	require.EqualValues(t, 1, c.Len())
}

func TestFullCountersStay(t *testing.T) {
	for adds, gone := range map[int]bool{1: true, 14: true, 15: false, 40: false} {
		c := result.Of(NewCounting(100, 0.001))(t)
		for range adds {
			c.Add([]byte("a"))
		}
		for range adds {
			require.True(t, c.Remove([]byte("a")))
		}
		require.Equal(t, gone, !c.MayContain([]byte("a")), "%d times", adds)
	}
}

func TestScalableKeepsItsRateAsItGrows(t *testing.T) {
	rng := filtertest.StatisticsRand(t)
	const rate = 0.01
	s := result.Of(NewScalable(100, rate))(t)
	var keys [][]byte
	known := 0
	for _, upTo := range []int{100, 101, 1000, 10_000, 100_000} {
		for len(keys) < upTo {
			key := le64(rng.Uint64() &^ 1)
			keys = append(keys, key)
			if !s.Add(key) {
				known++
			}
			require.False(t, s.Add(key), "it was just added")
		}
		require.EqualValues(t, upTo, int(s.Len())+known)
		require.LessOrEqual(t, len(keys)-int(s.Len()), 10+2*int(rate*float64(len(keys))), "few new keys seem known")
		for _, key := range keys {
			if !s.MayContain(key) {
				require.Fail(t, "an added key is denied")
			}
		}
		require.LessOrEqual(t, s.PredictedRate(), rate)
		t.Logf("%d keys: %d stages, %.1f bits per key", upTo, len(s.stages), 8*float64(s.SizeBytes())/float64(upTo))
	}
	require.InDelta(t, 10, len(s.stages), 1, "the first capacity that suffices is 100 × (2^10 - 1)")
}

func TestInvalidStandaloneFilterParameters(t *testing.T) {
	for _, c := range []struct {
		keys uint64
		rate float64
		says string
	}{
		{10, 0, "above 0 and below 1"}, {10, 1, "above 0 and below 1"}, {10, -1, "above 0"}, {10, 2, "below 1"},
		{10, math.NaN(), "above 0"}, {10, math.Inf(1), "below 1"},
		{1 << 40, 0.01, "at most 1073741824"}, {math.MaxUint64, 0.5, "at most 1073741824"},
	} {
		require.ErrorContains(t, result.Err(NewCounting(c.keys, c.rate)), c.says, "%d keys, %v", c.keys, c.rate)
		require.ErrorContains(t, result.Err(NewScalable(c.keys, c.rate)), c.says, "%d keys, %v", c.keys, c.rate)
	}
}

func TestSmallAndExtremeStandaloneFilters(t *testing.T) {
	for _, rate := range []float64{0.999999, 0.5, 1e-9, 1e-30, 1e-100} {
		for _, keys := range []uint64{0, 1, 2} {
			c := result.Of(NewCounting(keys, rate))(t)
			s := result.Of(NewScalable(keys, rate))(t)
			for i := range uint64(100) {
				c.Add(le64(i))
				s.Add(le64(i))
			}
			for i := range uint64(100) {
				require.True(t, c.MayContain(le64(i)) && s.MayContain(le64(i)))
			}
			requireSavedAndRead(t, c, &Counting{})
			requireSavedAndRead(t, s, &Scalable{})
		}
	}
	require.False(t, new(Counting).MayContain(nil), "the zero filter is empty")
	require.False(t, new(Scalable).MayContain(nil))
}

type saved interface {
	encoding.BinaryAppender
	encoding.BinaryUnmarshaler
}

func requireSavedAndRead(t testing.TB, from, to saved) {
	data := result.Of(from.AppendBinary([]byte("front")))(t)
	require.Equal(t, "front", string(data[:5]))
	data = data[5:]
	require.NoError(t, to.UnmarshalBinary(data))
	require.Equal(t, from, to)
	again := result.Of(to.AppendBinary(nil))(t)
	require.Equal(t, data, again)
}

// The bytes documented at AppendBinary, which never change.
func TestSavedFilterBytes(t *testing.T) {
	c := result.Of(NewCounting(2, 0.1))(t)
	s := result.Of(NewScalable(2, 0.2))(t)
	for _, key := range [][]byte{[]byte("hello"), []byte("world")} {
		c.Add(key)
	}
	s.Add([]byte("hello"))
	want := append([]byte{'c', 1, 2, 0, 0, 0, 0, 0, 0, 0}, 11, 0, 0, 0, 0, 0, 0, 0, 3)
	counters := make([]byte, 12)
	var ones uint16
	for _, key := range [][]byte{[]byte("hello"), []byte("world")} {
		p := placesOf(key, 11)
		for i := range uint64(3) {
			s := util.XXH3(key) + (i+1)*0x9e3779b97f4a7c15
			m := new(big.Int).Mul(new(big.Int).SetUint64(s), new(big.Int).SetUint64(s^0xd6e8feb86659fd93))
			low := new(big.Int).And(m, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
			g := new(big.Int).Rsh(m, 64).Uint64() ^ low
			at := g >> 32 * 11 >> 32 // the upper half of g suffices for eleven slots
			require.Equal(t, at, p.next())
			counters[at]++
			if string(key) == "hello" {
				ones |= 1 << at
			}
		}
	}
	for i := 0; i < 12; i += 2 {
		want = append(want, counters[i]|counters[i+1]<<4)
	}
	want = util.AppendFixed32(want, util.MaskCRC(util.CRC32C(want)))
	got := result.Of(c.MarshalBinary())(t)
	require.Equal(t, want, got)

	want = append([]byte{'s', 1, 0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xc9, 0x3f}, 1, 0, 0, 0, 0, 0, 0, 0)
	want = append(want, 2, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 3, byte(ones), byte(ones>>8))
	want = util.AppendFixed32(want, util.MaskCRC(util.CRC32C(want)))
	got = result.Of(s.MarshalBinary())(t)
	require.Equal(t, want, got)
}

// withChecksum appends a valid checksum to modified bytes, so that the checks after it run.
func withChecksum(data []byte) []byte { return appendChecksum(bytes.Clone(data), 0) }

func TestMalformedSavedFiltersAreCorrupt(t *testing.T) {
	c := result.Of(NewCounting(2, 0.1))(t)
	require.Equal(t, uint64(11), c.slots)
	s := result.Of(NewScalable(2, 0.2))(t)
	for _, f := range []saved{c, s} {
		data := result.Of(f.AppendBinary(nil))(t)
		refused := func(data []byte, claim string, args ...any) {
			before, _ := f.AppendBinary(nil)
			require.ErrorIs(t, f.UnmarshalBinary(data), ErrCorrupt, claim, args)
			after, _ := f.AppendBinary(nil)
			require.Equal(t, before, after, "the filter is unchanged")
		}
		for n := range data {
			refused(data[:n], "cut to %d", n)
			if n != len(data)-4 {
				refused(withChecksum(data[:n]), "cut to %d, with a checksum", n)
			}
			damaged := bytes.Clone(data)
			damaged[n] ^= 1
			refused(damaged, "byte %d", n)
		}
		body := data[:len(data)-4]
		refused(withChecksum(append(bytes.Clone(body), 0)), "an extra byte")
		at, k := 10, 18 // the offsets of the number of counters or bits, and of k
		if f == saved(s) {
			at, k = 26, 34
		}
		for i, b := range map[int]byte{0: 'x', 1: 2, at: 14 + 8, at + 7: 0x80, k: 0, len(body) - 1: 0x80} {
			bad := bytes.Clone(body)
			bad[i] = b
			refused(withChecksum(bad), "byte %d is %#x", i, b)
		}
		bad := bytes.Clone(body)
		bad[k] = 65
		refused(withChecksum(bad), "65 places per key")
	}
	data := result.Of(s.AppendBinary(nil))(t)
	for i, b := range map[int]byte{9: 0xff, 18: 0, 19: 1} { // a negative rate; planned for no key; for 259
		bad := bytes.Clone(data[:len(data)-4])
		bad[i] = b
		require.ErrorIs(t, s.UnmarshalBinary(withChecksum(bad)), ErrCorrupt, "byte %d", i)
	}
}

func FuzzSavedFilters(f *testing.F) {
	c := result.Of(NewCounting(3, 0.1))(f)
	s := result.Of(NewScalable(3, 0.2))(f)
	for i := range 5 {
		c.Add(le64(uint64(i)))
		s.Add(le64(uint64(i)))
	}
	for _, filter := range []saved{c, s} {
		data := result.Of(filter.AppendBinary(nil))(f)
		f.Add(data[:len(data)-4])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		data = withChecksum(data)
		var c Counting
		if c.UnmarshalBinary(data) == nil {
			requireSavedAndRead(t, &c, &Counting{})
			c.Add([]byte("a"))
			require.True(t, c.MayContain([]byte("a")))
			require.True(t, c.Remove([]byte("a")))
		}
		var s Scalable
		if s.UnmarshalBinary(data) == nil {
			requireSavedAndRead(t, &s, &Scalable{})
			s.Add([]byte("a"))
			require.True(t, s.MayContain([]byte("a")))
			require.True(t, s.PredictedRate() >= 0 && s.PredictedRate() <= 1)
		}
	})
}
