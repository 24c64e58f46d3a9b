package rangefilter

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"github.com/sievedb/sievedb/internal/test/filtertest"
	"github.com/sievedb/sievedb/util"
	"github.com/stretchr/testify/require"
)

func TestNumbersOfKeys(t *testing.T) {
	for _, c := range []struct {
		n         Number
		rest      string
		x         uint64
		full      bool
		exclusive bool // as a bound
	}{
		{BigEndian(8), "\x00\x00\x00\x00\x00\x00\x01\x02", 0x102, true, true},
		{BigEndian(8), "\x00\x00\x00\x00\x00\x00\x01\x02behind", 0x102, true, false},
		{BigEndian(9), "\xff\xff\xff\xff\xff\xff\xff\xff", 1<<64 - 1, true, true},
		{BigEndian(8), "\x01", 1 << 56, false, true},
		{BigEndian(8), "", 0, false, true},
		{Number{}, "\x01\x02\x03\x04\x05\x06\x07\x08", 0x0102030405060708, true, true},
		{BigEndian(2), "\x01\x02\x03\x04\x05\x06\x07\x08", 0x0102, true, false},
		{BigEndian(2), "\x01\x02\x03", 0x0102, true, false},
		{BigEndian(2), "\x01\x02", 0x0102, true, true},
		{BigEndian(0), "\x01", 1, true, true},
		{Decimal(4), "0012", 12, true, true},
		{Decimal(4), "00125", 12, true, false},
		{Decimal(4), "12", 1200, false, true},
		{Decimal(4), "", 0, false, true},
		{Decimal(4), "12/9", 1200, false, true},
		{Decimal(4), "12:0", 1299, false, false},
		{Decimal(4), "abcd", 9999, false, false},
		{Decimal(99), "9999999999999999999", 9999999999999999999, true, true},
		{Decimal(-1), "7", 7, true, true},
	} {
		x, full := c.n.of([]byte(c.rest))
		require.Equal(t, c.x, x, "%s of %q", c.n.Name(), c.rest)
		require.Equal(t, c.full, full, "%s of %q", c.n.Name(), c.rest)
		b, exclusive := c.n.below([]byte(c.rest))
		require.Equal(t, c.x, b, "%s below %q", c.n.Name(), c.rest)
		require.Equal(t, c.exclusive, exclusive, "%s below %q", c.n.Name(), c.rest)
	}
	for _, c := range []struct {
		n        Number
		name     string
		greatest uint64
	}{
		{BigEndian(8), "be8", 1<<64 - 1}, {Number{}, "be8", 1<<64 - 1}, {BigEndian(3), "be3", 1<<24 - 1}, {BigEndian(-1), "be1", 255},
		{Decimal(3), "dec3", 999}, {Decimal(100), "dec19", 9999999999999999999},
	} {
		require.Equal(t, c.name, c.n.Name())
		require.Equal(t, c.greatest, c.n.greatest())
	}
}

func TestNumbersRiseWithTheKeys(t *testing.T) {
	rng := filtertest.NewRand(t)
	for _, n := range []Number{BigEndian(8), BigEndian(1), BigEndian(3), Decimal(1), Decimal(5), Decimal(19)} {
		for range 20000 {
			a, b := edgyKey(rng), edgyKey(rng)
			if rng.IntN(2) == 0 {
				b = nearKey(rng, a)
			}
			if bytes.Compare(a, b) > 0 {
				a, b = b, a
			}
			x, full := n.of(a)
			y, _ := n.of(b)
			require.LessOrEqual(t, x, y, "%s of %x and %x", n.Name(), a, b)
			if bound, exclusive := n.below(b); exclusive && full && bytes.Compare(a, b) < 0 {
				require.Less(t, x, bound, "%s of %x below %x", n.Name(), a, b)
			}
		}
	}
}

func TestOneOf(t *testing.T) {
	rng := filtertest.NewRand(t)
	for n := range 3000 {
		word := rng.Uint64()
		switch n % 4 {
		case 0:
			word &= rng.Uint64() & rng.Uint64()
		case 1:
			word |= rng.Uint64() | rng.Uint64()
		case 2:
			word = ^uint64(0) >> rng.UintN(64) << rng.UintN(64)
		}
		k := uint64(0)
		for at := range uint64(64) {
			if word>>at&1 != 0 {
				require.Equal(t, at, oneOf(word, k), "one %d of %#x", k, word)
				k++
			}
		}
	}
}

func TestEliasFanoAgreesWithASortedList(t *testing.T) {
	rng := filtertest.NewRand(t)
	for range 400 {
		low := 1 + rng.Uint64N(32)
		numbers := make([]uint64, 1+rng.IntN(1500))
		most := uint64(len(numbers)) << low
		if rng.IntN(3) == 0 {
			most = 1 + rng.Uint64N(most) // crowded into the first buckets
		}
		base := (uint64(len(numbers)) << low) - most
		if rng.IntN(2) == 0 {
			base = 0
		}
		for i := range numbers {
			numbers[i] = base + rng.Uint64N(most)
		}
		slices.Sort(numbers)
		b := appendEliasFano([]byte("before"), numbers, low)[6:]
		e, ok := parseEliasFano(append(b, make([]byte, 8)...)[:len(b)], uint64(len(numbers)), low)
		require.True(t, ok)
		r := uint64(len(numbers)) << low
		for range 100 {
			u := rng.Uint64N(r)
			if rng.IntN(2) == 0 {
				u = min(r-1, max(1, numbers[rng.IntN(len(numbers))]+rng.Uint64N(3))-1)
			}
			v := min(u+rng.Uint64N(1<<rng.UintN(20)), r-1)
			i, _ := slices.BinarySearch(numbers, u)
			want := i < len(numbers) && numbers[i] <= v
			require.Equal(t, want, e.anyWithin(u, v), "%d to %d of %d", u, v, len(numbers))
		}
	}
}

func TestGrafiteDistinguishesDenseNumbersExactly(t *testing.T) {
	const n = 5000
	for _, c := range []struct {
		name string
		p    Grafite
		key  func(i int) []byte
	}{
		{"big-endian counters", NewGrafite(FixedPrefix(0), BigEndian(8), 8), func(i int) []byte { return counterKey(uint64(i)) }},
		{"decimal counters", NewGrafite(FixedPrefix(4), Decimal(12), 8), func(i int) []byte { return fmt.Appendf(nil, "user%012d", i) }},
		{"decimals up to a separator", NewGrafite(SeparatedPrefix('/', 2), Decimal(8), 8), func(i int) []byte { return fmt.Appendf(nil, "a/b/%08d.txt", i) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var keys [][]byte
			for i := range n {
				keys = append(keys, c.key(10*i))
			}
			probe, _ := c.p.NewProbe(makeFilter(t, c.p, keys))
			for i := range 10 * (n - 1) {
				want := i%10 == 0 || i%10 > 5
				upper := bytes.TrimSuffix(c.key(i+5), []byte(".txt"))
				require.Equal(t, want, probe.MayMatch(c.key(i), upper), "%d", i)
			}
		})
	}
}

// Some hundred thousand numbers, dense and far apart, in many prefixes: the positions fill many
// runs and crowd into some buckets.
func TestGrafiteDeniesNoneOfManyNumbers(t *testing.T) {
	rng := filtertest.NewRand(t)
	p := NewGrafite(FixedPrefix(2), BigEndian(6), 12)
	var keys [][]byte
	for i := range 300_000 {
		k := []byte{byte(i >> 14), byte(rng.IntN(2)), 0, 0, 0, 0, 0, 0}
		if k[0]%2 == 0 {
			binary.BigEndian.PutUint32(k[4:], uint32(i))
		} else {
			binary.BigEndian.PutUint32(k[2:], rng.Uint32())
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, bytes.Compare)
	probe, ok := p.NewProbe(makeFilter(t, p, keys))
	require.True(t, ok)
	number := func(k []byte) uint64 { return binary.BigEndian.Uint64(k) }
	for _, k := range keys {
		x := number(k)
		lower, upper := counterKey(x-min(x, rng.Uint64N(9))), counterKey(x+1+rng.Uint64N(9))
		if !probe.MayMatch(lower, upper) {
			require.Fail(t, "denied", "%x from %x to %x", k, lower, upper)
		}
	}
}

func TestGrafiteMatchesRangesItCannotRuleOut(t *testing.T) {
	p := NewGrafite(FixedPrefix(2), BigEndian(8), 10)
	keys := stringKeys("aa12345678", "ab12345678")
	filter := makeFilter(t, p, keys)
	for _, c := range []struct {
		claim        string
		filter       []byte
		lower, upper string
		may          bool
	}{
		{"different prefixes", filter, "aa12345678", "ab12345678", true},
		{"a range longer than the universe", filter, "ac1", "ac2", true},
		{"a short one", filter, "ac12345678", "ac12345679", false},
		{"an empty one", filter, "ac12345679", "ac12345678", false},
		{"one that ends before the prefix", filter, "ac12345679", "aa", false},
		{"a whole prefix", filter, "ac", "ad", true},
		{"no keys", makeFilter(t, p, nil), "ac", "ad", false},
		{"keys without a prefix", makeFilter(t, p, stringKeys("a", "b")), "ac", "ad", false},
	} {
		probe, ok := p.NewProbe(c.filter)
		require.True(t, ok)
		require.Equal(t, c.may, probe.MayMatch([]byte(c.lower), []byte(c.upper)), c.claim)
	}
}

func TestMalformedGrafiteFiltersAreNotUnderstood(t *testing.T) {
	p := NewGrafite(FixedPrefix(0), BigEndian(8), 10)
	sound := makeFilter(t, p, stringKeys("12345678", "22345678", "32345678"))
	n := len(sound)
	change := func(at int, to byte) []byte {
		b := bytes.Clone(sound)
		b[at] = to
		return b
	}
	for claim, b := range map[string][]byte{
		"empty": {}, "cut": sound[1:], "only the tail": sound[n-11:], "shorter than a tail": sound[n-10:],
		"another version": change(n-1, 2), "unknown flags": change(n-2, 4), "no lower bits": change(n-3, 0),
		"too many lower bits": change(n-3, 33), "other lower bits": change(n-3, 9), "more positions": change(n-11, 4),
		"too many": change(n-4, 1), "an extra one": change(n-12, 1), "longer": append([]byte{0}, sound...),
	} {
		_, ok := p.NewProbe(b)
		require.False(t, ok, claim)
	}
	_, ok := p.NewProbe(sound)
	require.True(t, ok)
}

func TestGrafiteBitsAreClamped(t *testing.T) {
	for want, bits := range map[int]int{3: -5, 4: 4, 34: 35} {
		require.Equal(t, want, NewGrafite(FixedPrefix(0), BigEndian(8), bits).BitsPerKey())
	}
	require.Equal(t, "sievedb.Grafite.fixed:8.be8", NewGrafite(FixedPrefix(8), BigEndian(8), 10).Name())
	require.Equal(t, "sievedb.Grafite.upto:2f:2.dec12", NewGrafite(SeparatedPrefix('/', 2), Decimal(12), 10).Name())
}

// The example in grafite.go.
func TestGrafiteFilterByHand(t *testing.T) {
	p := NewGrafite(FixedPrefix(1), BigEndian(1), 6)
	universe := grafiteUniverse{3 << 4}
	for _, c := range []struct {
		key                     string
		block, offset, position uint64
	}{{"a\x90", 3, 0, 0}, {"c\x05", 0, 32, 37}, {"a\x05", 0, 34, 39}} {
		hash, x := util.XXH3([]byte(c.key[:1])), uint64(c.key[1])
		require.Equal(t, c.block, x/48)
		require.Equal(t, c.offset, universe.offset(hash, c.block))
		require.Equal(t, c.position, universe.position(hash, x))
	}
	filter := makeFilter(t, p, stringKeys("a\x05", "a\x90", "c\x05"))
	require.Equal(t, "5007"+"1900000000000000"+"0300000000000000"+"040301", hex.EncodeToString(filter))
}
