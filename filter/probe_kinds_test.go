package filter

import (
	"math/bits"

	"github.com/sievedb/sievedb/internal/test/filtertest"
)

var probedKinds = []filtertest.Kind{
	{Name: "one-load", BitsPerKey: 10, IsReference: true, Begin: oneLoad},
	{Name: "plain-bloom", BitsPerKey: 10, IsReference: true, Begin: plainBloom},
	{Name: "bloom", BitsPerKey: 10, Begin: preparedBloom},
	{Name: "cache-line", BitsPerKey: 10, Begin: cacheLines},
	{Name: "fuse", BitsPerKey: 10, Begin: fuses(FusePolicy{})}, // with as many keys as the others
	{Name: "fuse-7", BitsPerKey: 10, Begin: fuses(NewFusePolicy(7))},
}

// generated makes a filter as the writer of a table does.
func generated(g Generator, open func(filter []byte) filtertest.Probed) filtertest.InProgress {
	return filtertest.InProgress{
		Add: func(keys []filtertest.Key) {
			for i := range keys {
				g.Add(keys[i][:])
			}
		},
		Finish: func() filtertest.Probed {
			filter := g.AppendFilter(nil)
			p := open(filter)
			p.SizeBytes = len(filter)
			return p
		},
	}
}

// oneLoad is the lower bound for every filter: it loads one byte where a key's bits would be.
func oneLoad(n uint64) filtertest.InProgress {
	memory := make([]byte, n/8*10)
	for i := range memory {
		memory[i] = byte(i) // otherwise all of it would be one page
	}
	byteOf := func(hash uint64) int {
		at, _ := bits.Mul64(hash, uint64(len(memory)))
		return int(memory[at])
	}
	return filtertest.InProgress{
		Add: func([]filtertest.Key) {},
		Finish: func() filtertest.Probed {
			return filtertest.Probed{
				SizeBytes: len(memory),
				Hash:      cacheLineHash,
				HashAndAsk: func(keys []filtertest.Key) (sum int) {
					for i := range keys {
						sum += byteOf(cacheLineHash(keys[i][:]))
					}
					return sum
				},
				Ask: func(hashes []uint64) (sum int) {
					for _, h := range hashes {
						sum += byteOf(h)
					}
					return sum
				},
			}
		},
	}
}

// plainBloom queries LevelDB's filter as LevelDB does, with a division for each bit.
func plainBloom(uint64) filtertest.InProgress {
	return generated(BloomPolicy{}.NewGenerator(), func(filter []byte) filtertest.Probed {
		array, k := filter[:len(filter)-1], int(filter[len(filter)-1])
		return filtertest.Probed{
			Hash: BloomPolicy{}.KeyHash,
			HashAndAsk: func(keys []filtertest.Key) (yes int) {
				for i := range keys {
					if plainMayMatch(array, k, bloomHash(keys[i][:])) {
						yes++
					}
				}
				return yes
			},
			Ask: func(hashes []uint64) (yes int) {
				for _, h := range hashes {
					if plainMayMatch(array, k, uint32(h)) {
						yes++
					}
				}
				return yes
			},
		}
	})
}

func preparedBloom(uint64) filtertest.InProgress {
	return generated(BloomPolicy{}.NewGenerator(), func(filter []byte) filtertest.Probed {
		return throughInterface(BloomPolicy{}.NewProbe(filter), BloomPolicy{}.KeyHash)
	})
}

func cacheLines(uint64) filtertest.InProgress {
	policy := NewCacheLineBloomPolicy(10)
	return generated(policy.NewGenerator(), func(filter []byte) filtertest.Probed {
		probe, _ := AsCacheLineProbe(policy.NewProbe(filter))
		return filtertest.Probed{
			Hash: cacheLineHash,
			HashAndAsk: func(keys []filtertest.Key) (yes int) {
				for i := range keys {
					if probe.HashMayMatch(cacheLineHash(keys[i][:])) {
						yes++
					}
				}
				return yes
			},
			Ask: func(hashes []uint64) (yes int) {
				for _, h := range hashes {
					if probe.HashMayMatch(h) {
						yes++
					}
				}
				return yes
			},
		}
	})
}

func fuses(policy FusePolicy) func(uint64) filtertest.InProgress {
	return func(uint64) filtertest.InProgress {
		return generated(policy.NewGenerator(), func(filter []byte) filtertest.Probed {
			return throughInterface(policy.NewProbe(filter), cacheLineHash)
		})
	}
}

// throughInterface queries a probe as lookups do, except for cache lines.
func throughInterface(probe Probe, hash func(key []byte) uint64) filtertest.Probed {
	return filtertest.Probed{
		Hash: hash,
		HashAndAsk: func(keys []filtertest.Key) (yes int) {
			for i := range keys {
				if probe.HashMayMatch(hash(keys[i][:])) {
					yes++
				}
			}
			return yes
		},
		Ask: func(hashes []uint64) (yes int) {
			for _, h := range hashes {
				if probe.HashMayMatch(h) {
					yes++
				}
			}
			return yes
		},
	}
}
