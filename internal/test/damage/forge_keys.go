package damage

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
)

// reshaped returns the block with what changed: "restart interval", "key length" or "entry count".
func (b block) reshaped(rnd *rand.Rand, what string) block {
	keys := b.keys()
	if len(keys) == 0 {
		return b
	}
	b.entries = slices.Clone(b.entries)
	values := func(i int) []byte { return b.entries[i].value }
	interval := 16
	switch what {
	case "restart interval":
		interval = []int{1, 2, 3, 64, 1000, 1 << 30}[rnd.IntN(6)]
	case "key length":
		i := rnd.IntN(len(keys))
		long := slices.Repeat([]byte{byte(rnd.IntN(256))}, 1<<rnd.IntN(17))
		keys[i] = slices.Concat(keys[i][:rnd.IntN(len(keys[i])+1)], long, keys[i])
	case "entry count":
		more := sharing(keys[len(keys)-1], 1<<rnd.IntN(15), rnd.IntN(2) == 0)
		b.entries = append(b.entries, more...)
		return b
	}
	b.encode(inOrder(keys), keys, values, interval)
	return b
}

// sharing returns n entries that share most of the bytes of the key that they follow: versions of the same user key, or
// keys with a number at the end. In a block they need no restart point.
func sharing(key []byte, n int, versions bool) (entries []entry) {
	at := uint64(max(len(key)-trailerBytes, 0))
	for i := range n {
		trailer := uint64(1<<30-i)<<8 | 1
		if versions {
			entries = append(entries, entry{shared: at, suffix: binary.LittleEndian.AppendUint64(nil, trailer)})
			continue
		}
		suffix := binary.BigEndian.AppendUint32(nil, uint32(i))
		entries = append(entries, entry{shared: at, suffix: binary.LittleEndian.AppendUint64(suffix, trailer)})
	}
	return entries
}

const trailerBytes = 8 // of an internal key

// SharedKeys returns a table of one compressed block with one restart point: a key of keyLen bytes, then n keys that
// share it, all with that sequence number. It returns the first and the last internal key as well.
func SharedKeys(keyLen, n int, seq uint64) (table, smallest, largest []byte) {
	trailer := binary.LittleEndian.AppendUint64(nil, seq<<8|1)
	user := slices.Repeat([]byte{'k'}, keyLen)
	smallest = slices.Concat(user, trailer)
	largest = smallest
	b := block{entries: []entry{{0, smallest, nil}}, restarts: []uint32{0}, kind: 2}
	for i := range n {
		number := binary.BigEndian.AppendUint32(nil, uint32(i))
		shared := uint64(keyLen)
		if i%256 != 0 { // only the last byte of the number differs
			shared += 3
		}
		b.entries = append(b.entries, entry{shared, slices.Concat(number[shared-uint64(keyLen):], trailer), nil})
		if i == n-1 {
			largest = slices.Concat(user, number, trailer)
		}
	}
	f := &Forge{
		data: []block{b}, propsAt: -1, meta: block{restarts: []uint32{0}},
		index: block{entries: []entry{{0, largest, nil}}, restarts: []uint32{0}},
	}
	return f.Sound(), smallest, largest
}
