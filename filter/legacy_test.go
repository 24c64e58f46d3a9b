package filter

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sievedb/sievedb/internal/test/filtertest"
	"github.com/sievedb/sievedb/util"
	"github.com/stretchr/testify/require"
)

// oldWriter makes filters under the old name as one of its writers does.
type oldWriter struct {
	name string
	hash func(key []byte) uint32
}

var (
	goleveldb  = oldWriter{"goleveldb", func(key []byte) uint32 { return util.Hash(key, bloomSeed) }}
	leveldb117 = oldWriter{"LevelDB 1.17", func(key []byte) uint32 { return util.HashSignedTail(key, bloomSeed) }}
)

func (w oldWriter) filter(keys [][]byte) []byte {
	hashes := make([]uint32, len(keys))
	for i, key := range keys {
		hashes[i] = w.hash(key)
	}
	return appendBloom(nil, hashes, 10)
}

func legacyMayMatch(t testing.TB, key, filter []byte) bool {
	t.Helper()
	return mayMatch(t, LegacyBloom.(DirectPolicy), key, filter)
}

// randomKeys returns n keys of random bytes, of the given length or, if that is negative, of 0 to 24 bytes.
func randomKeys(rng *rand.Rand, n, length int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		size := length
		if size < 0 {
			size = rng.IntN(25)
		}
		keys[i] = make([]byte, size)
		for j := range keys[i] {
			keys[i][j] = byte(rng.Uint32())
		}
	}
	return keys
}

func TestLegacyBloomFindsKeysOfBothEncodings(t *testing.T) {
	// goleveldb reads LevelDB 1.17's filters with the unsigned hash, and so misses 86,682 of 100,000 stored random keys
	// of seven bytes. A reader of only one encoding misses keys of the other; LegacyBloom misses none.
	rng := rand.New(rand.NewPCG(1, 17))
	const n = 100_000
	keys := randomKeys(rng, n, 7)
	for _, c := range []struct {
		writer     oldWriter
		reader     oldWriter // of one encoding
		shareKept  float64
		shareDelta float64
	}{
		// For one key in eight, three tail bytes are all below 0x80. Of the other keys, a
		// single-hash reader finds only its false positives.
		{leveldb117, goleveldb, 0.125 + 0.875*0.0091, 0.005},
		{goleveldb, leveldb117, 0.125 + 0.875*0.0091, 0.005},
		{leveldb117, leveldb117, 1, 0},
		{goleveldb, goleveldb, 1, 0},
	} {
		t.Run(fmt.Sprintf("%s read by %s", c.writer.name, c.reader.name), func(t *testing.T) {
			filter := c.writer.filter(keys)
			array, k := filter[:len(filter)-1], int(filter[len(filter)-1])
			kept := 0
			for _, key := range keys {
				if plainMayMatch(array, k, c.reader.hash(key)) {
					kept++
				}
				if !legacyMayMatch(t, key, filter) {
					require.Fail(t, "an added key is denied", "%x", key)
				}
			}
			t.Logf("a reader of the other encoding misses %d of %d keys", n-kept, n)
			require.InDelta(t, c.shareKept, float64(kept)/n, c.shareDelta)
		})
	}
}

func TestLegacyBloomAtMostDoublesFalsePositives(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 18))
	const n, asked = 10_000, 100_000
	for _, c := range []struct {
		name   string
		length int
		most   float64
	}{
		{"random keys of seven bytes, most with two hashes", 7, 0.021},
		{"keys of whole words, with one hash", 8, 0.0105},
	} {
		t.Run(c.name, func(t *testing.T) {
			keys, absent := randomKeys(rng, n, c.length), randomKeys(rng, asked, c.length)
			for _, w := range []oldWriter{goleveldb, leveldb117} {
				filter := w.filter(keys)
				wrong := 0
				for _, key := range absent {
					if legacyMayMatch(t, key, filter) {
						wrong++
					}
				}
				rate := float64(wrong) / asked
				t.Logf("%s: %.2f %%", w.name, 100*rate)
				require.Less(t, rate, c.most)
				require.NotZero(t, rate)
			}
		})
	}
}

func TestLegacyBloomDeniesOnlyIfBothHashesDo(t *testing.T) {
	// Random arrays of bits, so that every pair of answers occurs.
	//
	// False alarms: a third of 20,000 keys has two hashes, whose answers differ with a
	// probability of 1/16 or more in each direction (k of 4 in a half-full array). The
	// probability that none of them differs is below (1-1/50)^20000, or 10^-175.
	rng := filtertest.NewRand(t)
	seen := map[[2]bool]int{}
	for range 200 {
		filter := make([]byte, 2+rng.IntN(300))
		for i := range filter {
			filter[i] = byte(rng.Uint32())
		}
		k := 1 + rng.IntN(4)
		filter[len(filter)-1] = byte(k)
		for _, key := range randomKeys(rng, 100, -1) {
			unsigned := plainMayMatch(filter[:len(filter)-1], k, goleveldb.hash(key))
			signed := plainMayMatch(filter[:len(filter)-1], k, leveldb117.hash(key))
			seen[[2]bool{unsigned, signed}]++
			require.Equal(t, unsigned || signed, legacyMayMatch(t, key, filter))
		}
	}
	require.Len(t, seen, 4, "every pair of answers occurs")
}

func TestLegacyKeyHashContainsBothHashes(t *testing.T) {
	rng := filtertest.NewRand(t)
	keys := append(randomKeys(rng, 10_000, -1), nil, []byte("\x80"), []byte("abc\x80"), []byte("\x80abc"), []byte("abcde\x80"))
	for _, key := range keys {
		unsigned, signed := splitLegacyHash(LegacyBloom.(HashPolicy).KeyHash(key))
		require.Equal(t, goleveldb.hash(key), unsigned, "%x", key)
		require.Equal(t, leveldb117.hash(key), signed, "%x", key)
	}
}

func TestLegacyBloomWritesBothEncodings(t *testing.T) {
	rng := filtertest.NewRand(t)
	for _, length := range []int{0, 1, 2, 3, 7, -1} {
		keys := randomKeys(rng, 3000, length)
		filter := LegacyBloom.CreateFilter([]byte("head"), keys)
		require.Equal(t, "head", string(filter[:4]))
		filter = filter[4:]
		array, k := filter[:len(filter)-1], int(filter[len(filter)-1])
		for _, key := range keys {
			require.True(t, plainMayMatch(array, k, goleveldb.hash(key)))
			require.True(t, plainMayMatch(array, k, leveldb117.hash(key)))
			require.True(t, legacyMayMatch(t, key, filter))
		}
	}
	ascii := goldenKeys(t, "dec16", 1000)
	require.Equal(t, NewBloomPolicy(DefaultBitsPerKey).CreateFilter(nil, ascii), LegacyBloom.CreateFilter(nil, ascii))
	require.Equal(t, BloomPolicy{}.CreateFilter(nil, nil), LegacyBloom.CreateFilter(nil, nil))
}

func TestLegacyBloomReadsMalformedFiltersLikeBloom(t *testing.T) {
	for _, filter := range [][]byte{nil, {}, {6}, {0, 0}, {0, 31}, {0xff, 30}, {0, 255}, {0, 0, 0, 6}} {
		for _, key := range words("", "hello", "\x80", "caf\xc3\xa9") {
			require.Equal(t, mayMatch(t, BloomPolicy{}, key, filter), legacyMayMatch(t, key, filter), "%x", filter)
		}
	}
}

func TestLegacyName(t *testing.T) {
	require.Equal(t, "leveldb.BuiltinBloomFilter", LegacyBloom.Name())
	require.NotEqual(t, BloomPolicy{}.Name(), LegacyBloom.Name())
}

// FuzzLegacyBloom queries arbitrary bytes as filters, and makes filters of arbitrary keys in either encoding.
func FuzzLegacyBloom(f *testing.F) {
	f.Add([]byte{}, []byte("hello"))
	f.Add([]byte{0xff, 30}, []byte{})
	f.Add([]byte{0x11, 0x40, 0x00, 0x41, 0x44, 0x10, 0x40, 0x10, 0x06}, []byte("world"))
	f.Add([]byte{0xff, 0x00, 29}, []byte("\xff\x80"))
	f.Fuzz(func(t *testing.T, filter, key []byte) {
		got := legacyMayMatch(t, key, filter)
		if mayMatch(t, BloomPolicy{}, key, filter) {
			require.True(t, got, "it denies only what the plain hash denies")
		}
		keys := [][]byte{filter, key}
		for _, made := range [][]byte{goleveldb.filter(keys), leveldb117.filter(keys), LegacyBloom.CreateFilter(nil, keys)} {
			require.True(t, legacyMayMatch(t, filter, made))
			require.True(t, legacyMayMatch(t, key, made))
		}
	})
}
