package rangefilter

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/sievedb/sievedb/internal/test/filtertest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/stretchr/testify/require"
)

// allPolicies are the kinds of range filters with different extractors and numbers.
var allPolicies = []Policy{
	NewPrefix(FixedPrefix(0), 10),
	NewPrefix(FixedPrefix(1), 10),
	NewPrefix(FixedPrefix(3), 20),
	NewPrefix(FixedPrefix(8), 1),
	NewPrefix(SeparatedPrefix('/', 1), 10),
	NewPrefix(SeparatedPrefix(0xff, 1), 10),
	NewPrefix(SeparatedPrefix(0, 2), 10),
	NewGrafite(FixedPrefix(0), Number{}, 16),
	NewGrafite(FixedPrefix(0), BigEndian(1), 10),
	NewGrafite(FixedPrefix(3), BigEndian(2), 3),
	NewGrafite(FixedPrefix(1), BigEndian(5), 34),
	NewGrafite(SeparatedPrefix('/', 1), Decimal(3), 12),
	NewGrafite(FixedPrefix(0), Decimal(19), 20),
	NewGrafite(SeparatedPrefix(0xff, 1), Decimal(1), 6),
}

// makeFilter returns the filter of keys, which need not be sorted, and requires that it denies none of them.
func makeFilter(t testing.TB, p Policy, keys [][]byte) []byte {
	g := p.NewGenerator()
	for _, k := range keys {
		k = bytes.Clone(k)
		g.Add(k)
		clear(k) // callers may overwrite their keys
	}
	b, denied := g.AppendChecked([]byte("before"))
	require.Zero(t, denied)
	require.Equal(t, "before", string(b[:6]))
	return b[6:]
}

func stringKeys(s ...string) (keys [][]byte) {
	for _, k := range s {
		keys = append(keys, []byte(k))
	}
	return keys
}

// linesOf returns the number of lines of a filter of that many prefixes.
func linesOf(p Prefix, prefixes uint64) uint64 { return p.lines().FilterBytes(prefixes) / 64 }

// holds reports whether sorted has a key in the range.
func holds(sorted [][]byte, lower, upper []byte) bool {
	i := sort.Search(len(sorted), func(i int) bool { return bytes.Compare(sorted[i], lower) >= 0 })
	return i < len(sorted) && bytes.Compare(sorted[i], upper) < 0
}

// edgyBytes are the bytes at the boundaries of prefixes, separators and numbers.
var edgyBytes = []byte{0, 0, 1, '/', '/', '0', '1', '8', '9', ':', 'a', 0xfe, 0xff, 0xff}

// edgyKey is a key of few lengths and bytes, so that keys and bounds often have common parts.
func edgyKey(rng *rand.Rand) []byte {
	k := make([]byte, rng.IntN(13))
	for i := range k {
		k[i] = edgyBytes[rng.IntN(len(edgyBytes))]
	}
	return k
}

// nearKey is a key slightly different from k.
func nearKey(rng *rand.Rand, k []byte) []byte {
	k = bytes.Clone(k)
	switch n := len(k); {
	case n == 0 || rng.IntN(4) == 0:
		return append(k, edgyBytes[rng.IntN(len(edgyBytes))])
	case rng.IntN(3) == 0:
		return k[:rng.IntN(n)]
	default:
		k[n-1-min(rng.IntN(3), n-1)] += byte(rng.IntN(3)) - 1
		return k
	}
}

func TestRangeFiltersNeverDenyARangeThatHoldsAKey(t *testing.T) {
	rng := filtertest.NewRand(t)
	for _, p := range allPolicies {
		t.Run(p.Name(), func(t *testing.T) {
			denied, asked := 0, 0
			for round := range 300 {
				keys := make([][]byte, rng.IntN(40)*min(round, 1)) // none in the first round: some filters deny nothing else
				for i := range keys {
					keys[i] = edgyKey(rng)
				}
				slices.SortFunc(keys, bytes.Compare)
				probe, ok := p.NewProbe(makeFilter(t, p, keys))
				require.True(t, ok)
				for range 300 {
					lower := edgyKey(rng)
					if len(keys) > 0 && rng.IntN(2) == 0 {
						lower = nearKey(rng, keys[rng.IntN(len(keys))])
					}
					upper := nearKey(rng, lower)
					if rng.IntN(3) == 0 {
						upper = edgyKey(rng)
					}
					asked++
					if !probe.MayMatch(lower, upper) {
						denied++
						require.False(t, holds(keys, lower, upper), "lower %x upper %x keys %x", lower, upper, keys)
					}
				}
				for _, k := range keys {
					require.True(t, probe.MayMatch(k, append(bytes.Clone(k), 0)), "the key %x alone of %x", k, keys)
				}
			}
			t.Logf("%d of %d ranges denied", denied, asked)
			require.Positive(t, denied, "some ranges are denied")
		})
	}
}

func TestReusedGeneratorsMakeTheSameFilters(t *testing.T) {
	rng := filtertest.NewRand(t)
	keys := make([][]byte, 200)
	for i := range keys {
		keys[i] = edgyKey(rng)
	}
	slices.SortFunc(keys, bytes.Compare)
	for _, p := range allPolicies {
		g := p.NewGenerator()
		add := func() {
			for _, k := range keys {
				g.Add(k)
			}
		}
		want := makeFilter(t, p, keys)
		add()
		g.Reset()
		for range 2 {
			add()
			got, denied := g.AppendChecked(nil)
			require.Zero(t, denied)
			require.Equal(t, want, got, p.Name())
		}
	}
}

func TestExtractorPrefix(t *testing.T) {
	for _, c := range []struct {
		name   string
		e      Extractor
		key    string
		prefix string
		ok     bool
	}{
		{"fixed:0", FixedPrefix(0), "ab", "", true},
		{"fixed:0", FixedPrefix(-3), "", "", true},
		{"fixed:2", FixedPrefix(2), "ab", "ab", true},
		{"fixed:2", FixedPrefix(2), "abc", "ab", true},
		{"fixed:2", FixedPrefix(2), "a", "", false},
		{"fixed:2", FixedPrefix(2), "", "", false},
		{"upto:2f:1", SeparatedPrefix('/', 1), "a/b/c", "a/", true},
		{"upto:2f:1", SeparatedPrefix('/', 0), "/", "/", true},
		{"upto:2f:2", SeparatedPrefix('/', 2), "a/b/c", "a/b/", true},
		{"upto:2f:2", SeparatedPrefix('/', 2), "//", "//", true},
		{"upto:2f:3", SeparatedPrefix('/', 3), "a/b/c", "", false},
		{"upto:00:1", SeparatedPrefix(0, 1), "", "", false},
	} {
		require.Equal(t, c.name, c.e.Name())
		prefix, ok := c.e.Prefix([]byte(c.key))
		require.Equal(t, c.ok, ok, "%s of %q", c.name, c.key)
		require.Equal(t, c.prefix, string(prefix), "%s of %q", c.name, c.key)
	}
	require.Equal(t, Extractor{}, FixedPrefix(0))
}

func TestCommonPrefixOfARange(t *testing.T) {
	two, path := FixedPrefix(2), SeparatedPrefix('/', 1)
	for _, c := range []struct {
		claim        string
		e            Extractor
		lower, upper string
		ok           bool
	}{
		{"both bounds have the prefix", two, "ab1", "ab7", true},
		{"a whole prefix", two, "ab", "ac", true},
		{"a part, to the end of the prefix", two, "abz", "ac", true},
		{"an upper bound one string too high", two, "ab", "ac\x00", false},
		{"an upper bound far above", two, "ab", "b", false},
		{"a prefix that ends with ff", two, "a\xff", "b", true},
		{"the same with an upper bound one byte too high", two, "a\xff", "b\x00", false},
		{"no string follows ff", two, "\xff\xff1", "\xff\xff\xff\xff", true},
		{"an empty range after ff", two, "\xff\xff1", "a", true},
		{"an empty range", two, "ab", "aa", true},
		{"the lower bound has no prefix", two, "a", "b", false},
		{"up to a separator", path, "a/b", "a/c", true},
		{"all of a directory", path, "a/", "a0", true},
		{"two directories", path, "a/", "b/", false},
		{"next to a directory", path, "a", "b", false},
		{"the empty prefix", FixedPrefix(0), "a", "z", true},
	} {
		prefix, ok := c.e.Common([]byte(c.lower), []byte(c.upper))
		require.Equal(t, c.ok, ok, c.claim)
		if ok {
			require.True(t, bytes.HasPrefix([]byte(c.lower), prefix), c.claim)
		}
	}
}

func TestIncrementedUpperBoundEndsAPrefixUnlessAKeyIsShorter(t *testing.T) {
	p := NewPrefix(FixedPrefix(3), 20)
	for _, c := range []struct {
		claim        string
		keys         [][]byte
		lower, upper string
		may          bool
	}{
		{"one carry", stringKeys("aaa1"), "a\x00\xff", "a\x01\x00", false},
		{"two carries", stringKeys("aaa1"), "a\xff\xff", "b\x00\x00", false},
		{"a carry, and a key in the range", stringKeys("a\x00\xff"), "a\x00\xff", "a\x01\x00", true},
		{"the bound without its zero is a key", stringKeys("a\x01"), "a\x00\xff", "a\x01\x00", true},
		{"a short key anywhere in the table", stringKeys("z"), "a\x00\xff", "a\x01\x00", true},
		{"a zero after the prefix", stringKeys("aaa1"), "a\x00\xff", "a\x01\x00\x00", true},
	} {
		probe, ok := p.NewProbe(makeFilter(t, p, c.keys))
		require.True(t, ok)
		require.Equal(t, c.may, probe.MayMatch([]byte(c.lower), []byte(c.upper)), c.claim)
	}
}

func TestEachPrefixCountsOnce(t *testing.T) {
	const prefixes = 20000
	for _, bits := range []int{4, 10, 16} {
		keys := make([][]byte, 0, 3*prefixes)
		for i := range prefixes {
			for j := range 3 {
				keys = append(keys, append(counterKey(2*uint64(i)), byte(j)))
			}
		}
		filter := makeFilter(t, NewPrefix(FixedPrefix(8), bits), keys)
		require.InDelta(t, prefixes*bits/8, len(filter), 70)
	}
}

// counterKey is n, big-endian.
func counterKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// FuzzRangeFilters makes filters of arbitrary keys, cut from data at each sep, and queries a range and each key.
func FuzzRangeFilters(f *testing.F) {
	f.Add([]byte("a/1,a/2,b/1"), byte(','), []byte("a/"), []byte("a0"))
	f.Add([]byte("\xff\xff\xff,\x00,,/"), byte(','), []byte("\xff"), []byte("\xff\xff\xff\xff"))
	f.Add([]byte("user00000001,user00000009,user00000010"), byte(','), []byte("user00000002"), []byte("user00000009"))
	f.Add([]byte("12345678\x00\x01,12345678\x00"), byte(','), []byte("12345678"), []byte("12345678\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte, sep byte, lower, upper []byte) {
		if len(data) > 1<<12 {
			return
		}
		keys := bytes.Split(data, []byte{sep})
		slices.SortFunc(keys, bytes.Compare)
		for _, p := range allPolicies {
			probe, ok := p.NewProbe(makeFilter(t, p, keys))
			require.True(t, ok, p.Name())
			if holds(keys, lower, upper) {
				require.True(t, probe.MayMatch(lower, upper), p.Name())
			}
			for _, k := range keys {
				require.True(t, probe.MayMatch(k, append(bytes.Clone(k), 0)), p.Name())
			}
		}
	})
}

// FuzzRangeReader queries arbitrary bytes as filters: there is no panic, and nothing changes.
func FuzzRangeReader(f *testing.F) {
	for _, p := range allPolicies {
		for _, keys := range [][][]byte{nil, stringKeys("a/b/1"), stringKeys("a/b/12345678", "a/b/22345678", "b/b/1")} {
			f.Add(makeFilter(f, p, keys), []byte("a/b/1"), []byte("a/b/2"))
		}
	}
	f.Add([]byte{}, []byte{}, []byte{0})
	f.Fuzz(func(t *testing.T, filter, lower, upper []byte) {
		before := bytes.Clone(filter)
		for _, p := range allPolicies {
			if probe, ok := p.NewProbe(filter); ok {
				probe.MayMatch(lower, upper)
			}
		}
		require.True(t, bytes.Equal(before, filter), "a query must not change the filter")
	})
}

func TestPolicyNamed(t *testing.T) {
	for _, want := range allPolicies {
		p := result.Of(PolicyNamed(want.Name(), 10))(t)
		require.Equal(t, want.Name(), p.Name())
		_, ok := p.NewProbe(makeFilter(t, want, stringKeys("a/b", "b/c")))
		require.True(t, ok, "whatever the bits")
	}
	for _, name := range []string{
		"", "sievedb.CacheLineBloom", "sievedb.PrefixBloom.", "sievedb.PrefixBloom.fixed:08", "sievedb.PrefixBloom.fixed:-1", "sievedb.PrefixBloom.upto:2f:0",
		"sievedb.PrefixBloom.upto:2F:1", "sievedb.PrefixBloom.fixed:8 ", "sievedb.Grafite.fixed:8", "sievedb.Grafite.fixed:8.be9", "sievedb.Grafite.fixed:8.dec20",
		"sievedb.Grafite.be8", "sievedb.PrefixBloom.fixed:99999999999999999999",
	} {
		require.ErrorContains(t, result.Err(PolicyNamed(name, 10)), "sievedb.PrefixBloom.upto:2f:1", name)
	}
}
