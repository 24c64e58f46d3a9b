package filter

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchKeys returns n keys of 16 random bytes, the same for the same stream.
func benchKeys(n int, stream uint64) [][]byte {
	rng := rand.New(rand.NewPCG(7, stream))
	memory := make([]byte, 16*n)
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = memory[16*i : 16*i+16 : 16*i+16]
		binary.LittleEndian.PutUint64(keys[i], rng.Uint64())
		binary.LittleEndian.PutUint64(keys[i][8:], rng.Uint64())
	}
	return keys
}

var benchBool bool

// measureQueries measures mayMatch for the keys 0 to asked-1, a power of two, in turn, and
// reports the percentage of positive answers.
func measureQueries(b *testing.B, asked int, ask func(i int) bool) {
	i, yes := 0, 0
	for b.Loop() {
		if ask(i) {
			yes++
		}
		i = (i + 1) & (asked - 1)
	}
	b.ReportMetric(100*float64(yes)/float64(b.N), "%may")
}

// hashesOf returns p's hashes of keys.
func hashesOf(p HashPolicy, keys [][]byte) []uint64 {
	hashes := make([]uint64, len(keys))
	for i, key := range keys {
		hashes[i] = p.KeyHash(key)
	}
	return hashes
}

// giveTails changes each 16-byte key to one of 15 bytes. The tail bytes are all below 0x80
// (tail "low"), or the last is not ("high"); for other tails the keys stay the same.
func giveTails(keys [][]byte, tail string) {
	for i := range keys {
		switch tail {
		case "low":
			keys[i] = keys[i][:15]
			for j := 12; j < 15; j++ {
				keys[i][j] &= 0x7f
			}
		case "high":
			keys[i] = keys[i][:15]
			keys[i][14] |= 0x80
		}
	}
}

// BenchmarkLegacyProbe measures the old name against the plain policy (policy=plain), for 16-byte keys, whose two
// hashes are the same, and for 15-byte keys with and without a tail byte of 0x80 or more. The filters are made from
// keys of the same kind, as goleveldb makes them.
func BenchmarkLegacyProbe(b *testing.B) {
	const asked = 1 << 16
	for _, n := range []int{18_000, 1_677_721} {
		for _, tail := range []string{"none", "low", "high"} {
			keys, absent := benchKeys(n, 1), benchKeys(asked, 2)
			giveTails(keys, tail)
			giveTails(absent, tail)
			filter := NewBloomPolicy(10).CreateFilter(nil, keys)
			for _, p := range []HashPolicy{BloomPolicy{}, legacyBloom{}} {
				name := map[HashPolicy]string{BloomPolicy{}: "plain", legacyBloom{}: "legacy"}[p]
				probe := p.NewProbe(filter)
				hashes := hashesOf(p, absent)
				run := func(part string, ask func(i int) bool) {
					b.Run(fmt.Sprintf("keys=%d/tail=%s/part=%s/policy=%s", n, tail, part, name), func(b *testing.B) {
						b.ReportAllocs()
						measureQueries(b, asked, ask)
					})
				}
				run("hash", func(i int) bool { return p.KeyHash(absent[i])&1 != 0 })
				run("probe", func(i int) bool { return probe.HashMayMatch(hashes[i]) })
			}
		}
	}
}

// BenchmarkSmallFilter queries a filter of 36 keys, as LevelDB has for each 2 KiB of a table, without a probe: with a
// precomputed hash (form=direct), and with the key (form=key).
func BenchmarkSmallFilter(b *testing.B) {
	keys, absent := benchKeys(36, 1), benchKeys(1<<12, 2)
	p := NewBloomPolicy(10)
	filter := p.CreateFilter(nil, keys)
	for _, set := range []struct {
		name string
		keys [][]byte
	}{{"absent", absent}, {"present", keys}} {
		hashes := hashesOf(p, set.keys)
		n := len(set.keys)
		run := func(form string, ask func(i int) bool) {
			b.Run(fmt.Sprintf("%s/form=%s", set.name, form), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					benchBool = ask(i)
					if i++; i == n {
						i = 0
					}
				}
			})
		}
		run("key", func(i int) bool { return p.KeyMayMatch(set.keys[i], filter) })
		run("direct", func(i int) bool { return p.HashMayMatchFilter(hashes[i], filter) })
		run("legacy", func(i int) bool { return legacyBloom{}.HashMayMatchFilter(hashes[i]|hashes[i]<<32, filter) })
	}
}
