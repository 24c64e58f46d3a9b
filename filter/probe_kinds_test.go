package filter

import (
	"encoding/binary"
	"math/bits"
)

// probedKind is a kind of filter that the benchmarks measure.
type probedKind struct {
	name        string
	bitsPerKey  float64 // by which a size becomes a number of keys
	isReference bool    // to measure the machine, not us
	begin       func(n uint64) inProgress
}

var probedKinds = []probedKind{
	{"one-load", 10, true, oneLoad},
	{"plain-bloom", 10, true, plainBloom},
	{"bloom", 10, false, preparedBloom},
	{"cache-line", 10, false, cacheLines},
	{"fuse", 10, false, fuses}, // of as many keys as those
	{"prefix", 10, false, func(uint64) inProgress { return ranges(NewPrefix(FixedPrefix(8), 10)) }},
	{"grafite", 16, false, func(uint64) inProgress { return ranges(NewGrafite(FixedPrefix(0), BigEndian(8), 16)) }},
	{"counting", 38.3, false, func(n uint64) inProgress {
		f, err := NewCountingBloom(n, 0.01)
		return alone(f, err, (*CountingBloom).Add)
	}},
	{"scalable", 18, false, func(n uint64) inProgress { // it grows once
		f, err := NewScalableBloom(n/2, 0.01)
		return alone(f, err, func(f *ScalableBloom, key []byte) { f.Add(key) })
	}},
}

// generated makes a filter as the writer of a table does.
func generated(g Generator, open func(filter []byte) probed) inProgress {
	return inProgress{
		add: func(keys []numberedKey) {
			for i := range keys {
				g.Add(keys[i][:])
			}
		},
		finish: func() probed {
			filter := g.AppendFilter(nil)
			p := open(filter)
			p.sizeBytes = len(filter)
			return p
		},
	}
}

// oneLoad is the floor of every filter: it loads one byte of where a key's bits would be.
func oneLoad(n uint64) inProgress {
	memory := make([]byte, n/8*10)
	for i := range memory {
		memory[i] = byte(i) // or all of it would be one page
	}
	byteOf := func(hash uint64) int {
		at, _ := bits.Mul64(hash, uint64(len(memory)))
		return int(memory[at])
	}
	return inProgress{
		add: func([]numberedKey) {},
		finish: func() probed {
			return probed{
				sizeBytes: len(memory),
				hash:      cacheLineHash,
				hashAndAsk: func(keys []numberedKey) (sum int) {
					for i := range keys {
						sum += byteOf(cacheLineHash(keys[i][:]))
					}
					return sum
				},
				ask: func(hashes []uint64) (sum int) {
					for _, h := range hashes {
						sum += byteOf(h)
					}
					return sum
				},
			}
		},
	}
}

// plainBloom asks LevelDB's filter as LevelDB does, with a division for each bit.
func plainBloom(uint64) inProgress {
	return generated(BloomPolicy{}.NewGenerator(), func(filter []byte) probed {
		array, k := filter[:len(filter)-1], int(filter[len(filter)-1])
		return probed{
			hash: BloomPolicy{}.KeyHash,
			hashAndAsk: func(keys []numberedKey) (yes int) {
				for i := range keys {
					if plainMayMatch(array, k, bloomHash(keys[i][:])) {
						yes++
					}
				}
				return yes
			},
			ask: func(hashes []uint64) (yes int) {
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

func preparedBloom(uint64) inProgress {
	return generated(BloomPolicy{}.NewGenerator(), func(filter []byte) probed {
		probe := BloomPolicy{}.NewProbe(filter).(*bloomProbe)
		return probed{
			hash: BloomPolicy{}.KeyHash,
			hashAndAsk: func(keys []numberedKey) (yes int) {
				for i := range keys {
					if probe.HashMayMatch(uint64(bloomHash(keys[i][:]))) {
						yes++
					}
				}
				return yes
			},
			ask: func(hashes []uint64) (yes int) {
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

func cacheLines(uint64) inProgress {
	policy := NewCacheLineBloomPolicy(10)
	return generated(policy.NewGenerator(), func(filter []byte) probed {
		probe, _ := AsCacheLineProbe(policy.NewProbe(filter))
		return probed{
			hash: cacheLineHash,
			hashAndAsk: func(keys []numberedKey) (yes int) {
				for i := range keys {
					if probe.HashMayMatch(cacheLineHash(keys[i][:])) {
						yes++
					}
				}
				return yes
			},
			ask: func(hashes []uint64) (yes int) {
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

func fuses(uint64) inProgress {
	return generated(FusePolicy{}.NewGenerator(), func(filter []byte) probed {
		probe := FusePolicy{}.NewProbe(filter).(*fuseProbe)
		return probed{
			hash: cacheLineHash,
			hashAndAsk: func(keys []numberedKey) (yes int) {
				for i := range keys {
					if probe.HashMayMatch(cacheLineHash(keys[i][:])) {
						yes++
					}
				}
				return yes
			},
			ask: func(hashes []uint64) (yes int) {
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

// ranges asks for what begins with the same eight bytes as a key, which are a prefix or
// one number.
func ranges(policy RangePolicy) inProgress {
	g := policy.NewRangeGenerator()
	return inProgress{
		add: func(keys []numberedKey) {
			for i := range keys {
				g.Add(keys[i][:])
			}
		},
		finish: func() probed {
			filter, denied := g.AppendChecked(nil)
			probe, ok := policy.NewRangeProbe(filter)
			if !ok || denied > 0 {
				panic("a filter that its policy cannot read")
			}
			return probed{sizeBytes: len(filter), hashAndAsk: func(keys []numberedKey) (yes int) {
				var upper numberedKey
				for i := range keys {
					binary.LittleEndian.PutUint64(upper[:], binary.LittleEndian.Uint64(keys[i][:]))
					upper[8] = 0xff
					if probe.RangeMayMatch(keys[i][:8], upper[:9]) {
						yes++
					}
				}
				return yes
			}}
		},
	}
}

// alone is a filter that stands alone.
func alone[F interface {
	MayContain(key []byte) bool
	SizeBytes() int
}](f F, err error, add func(f F, key []byte)) inProgress {
	if err != nil {
		panic(err)
	}
	return inProgress{
		add: func(keys []numberedKey) {
			for i := range keys {
				add(f, keys[i][:])
			}
		},
		finish: func() probed {
			return probed{sizeBytes: f.SizeBytes(), hashAndAsk: func(keys []numberedKey) (yes int) {
				for i := range keys {
					if f.MayContain(keys[i][:]) {
						yes++
					}
				}
				return yes
			}}
		},
	}
}
