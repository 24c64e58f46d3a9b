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

// hashesOf returns p's hashes of keys.
func hashesOf(p HashPolicy, keys [][]byte) []uint64 {
	hashes := make([]uint64, len(keys))
	for i, key := range keys {
		hashes[i] = p.KeyHash(key)
	}
	return hashes
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
