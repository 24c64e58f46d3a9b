package damage

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sievedb/sievedb/util"
)

// Restructured returns a forge of the table with one to three random changes of its structure, and
// descriptions of them: blocks that are empty, out of order or decompression bombs, entries that are
// repeated, handles that overlap. It leaves numbers and byte strings to Build.
func (f *Forge) Restructured(rnd *rand.Rand) (*Forge, []string) {
	g := *f
	g.data, g.filters = slices.Clone(f.data), slices.Clone(f.filters)
	var changed []string
	for range 1 + rnd.IntN(3) {
		changed = append(changed, g.restructure(rnd))
	}
	return &g, changed
}

func (f *Forge) restructure(rnd *rand.Rand) string {
	switch rnd.IntN(4) {
	case 0:
		return "index: " + f.warpHandles(rnd)
	case 1:
		return "index: " + f.index.restructure(rnd)
	case 2:
		return f.restructureOthers(rnd)
	}
	if len(f.data) == 0 {
		return "no data"
	}
	i := rnd.IntN(len(f.data))
	if rnd.IntN(3) == 0 {
		i = 0
	}
	return fmt.Sprintf("data block %d of %d: %s", i, len(f.data), f.data[i].restructure(rnd))
}

// restructureOthers changes a block that is neither a data block nor the index.
func (f *Forge) restructureOthers(rnd *rand.Rand) string {
	switch rnd.IntN(6) {
	case 0:
		f.meta.kind = byte(rnd.IntN(3))
		return "metaindex: compressed"
	case 1:
		f.meta.addNames(rnd)
		return "metaindex: names that share a prefix"
	case 2:
		f.props.kind = byte(rnd.IntN(3))
		return "properties: " + f.props.restructure(rnd)
	case 3:
		if f.propsAt >= 0 {
			names := []string{
				"entries", "data-blocks", "data-bytes", "filter-keys", "largest-seq", "smallest-seq", "deletions",
			}
			name := names[rnd.IntN(len(names))]
			*f = *f.withProperty(name, hostile[rnd.IntN(len(hostile))])
			return "properties: a wrong value of " + name
		}
	case 4:
		if len(f.filters) > 0 {
			i := rnd.IntN(len(f.filters))
			f.filters[i].raw = ranges(rnd, f.filters[i].raw)
			return "filter: many block ranges"
		}
	}
	slices.Reverse(f.filters)
	return "filters: in reverse order"
}

// ranges turns a block with the envelope of one filter into a block of many filters, some of them
// empty. Each filter covers a range of data of the same random size.
func ranges(rnd *rand.Rand, raw []byte) []byte {
	n := len(raw) - 9
	if n <= 0 {
		return raw
	}
	b := slices.Clone(raw[:n])
	for range 1 + rnd.IntN(40) {
		b = util.AppendFixed32(b, uint32(rnd.IntN(2)*n))
	}
	return append(util.AppendFixed32(b, uint32(n)), byte(rnd.IntN(14)))
}

// warpHandles changes the handles of the data blocks in the index.
func (f *Forge) warpHandles(rnd *rand.Rand) string {
	ways := []string{
		"a handle is repeated", "all handles are equal", "handles go backward", "a handle includes the next block",
		"a handle points to another part", "blocks are left out", "a handle begins inside a block",
	}
	way, at, by := rnd.IntN(len(ways)), rnd.Uint64(), rnd.IntN(20)
	f.warp = func(data, others [][2]uint64) [][2]uint64 {
		if len(data) < 2 {
			return data
		}
		i := int(at % uint64(len(data)-1))
		switch way {
		case 0:
			data[i+1] = data[i]
		case 1:
			for j := range data {
				data[j] = data[i]
			}
		case 2:
			slices.Reverse(data[i:])
		case 3:
			data[i][1] = data[i+1][0] + data[i+1][1] - data[i][0]
		case 4:
			data[len(data)-1] = others[i%len(others)]
		case 5:
			return append(slices.Clone(data[:i]), data[i+1:]...)
		case 6:
			data[i][0] += uint64(by)
		}
		return data
	}
	return ways[way]
}

// restructure changes one block.
func (b *block) restructure(rnd *rand.Rand) string {
	keys := b.keys()
	b.entries = slices.Clone(b.entries)
	n := len(keys)
	at := func() int { return rnd.IntN(max(1, n)) }
	interval := []int{1, 2, 16, 1 << 30}[rnd.IntN(4)]
	values := func(i int) []byte { return b.entries[i].value }
	order := inOrder(keys)
	what := "other restart points"
	way := rnd.IntN(9)
	switch {
	case way == 0 || n == 0:
		b.entries, b.restarts = nil, []uint32{0}[:rnd.IntN(2)]
		return "empty"
	case way == 1:
		i := at()
		order = slices.Insert(order, i, i)
		what = "an entry is repeated"
	case way == 2:
		i, j := at(), at()
		order[i], order[j] = order[j], order[i]
		what = "two entries are swapped"
	case way == 3:
		i := at()
		order = slices.Delete(order, i, i+1)
		what = "an entry is left out"
	case way == 4:
		return b.unfold(rnd, keys)
	case way == 5:
		i := at()
		keys[i] = trailerOf(rnd, keys[i])
		what = "a wrong trailer"
	case way == 6:
		b.kind = 1 + byte(rnd.IntN(2))
		i, value := at(), make([]byte, 1<<(10+rnd.IntN(11)))
		values = func(j int) []byte {
			if i == j {
				return value
			}
			return b.entries[j].value
		}
		what = "a decompression bomb"
	case way == 7:
		i, long := at(), slices.Repeat([]byte{byte(rnd.IntN(256))}, 1<<rnd.IntN(17))
		keys[i] = slices.Concat(keys[i][:rnd.IntN(len(keys[i])+1)], long, keys[i])
		what = "a long key"
	}
	b.encode(order, keys, values, interval)
	return what
}

// unfold makes many entries that share a long key: up to half a gigabyte of keys, of which readers must refuse most.
func (b *block) unfold(rnd *rand.Rand, keys [][]byte) string {
	long := slices.Concat(slices.Repeat([]byte{'k'}, 1<<rnd.IntN(17)), []byte{1, 0, 0, 0, 0, 0, 0, 0})
	n := 1 + rnd.IntN(1<<rnd.IntN(14))
	interval := []int{16, 64, 1 << 30}[rnd.IntN(3)]
	if len(long)*(n/interval) > 1<<20 { // whole keys
		interval = 1 << 30
	}
	value := b.entries[0].value
	b.kind = byte(rnd.IntN(3))
	keys = append(keys[:rnd.IntN(len(keys)+1)], long)
	b.encode(inOrder(keys), keys, func(int) []byte { return value }, 1<<30)
	size := 0
	for i := range b.entries {
		size += b.entries[i].size()
	}
	for i, e := range sharing(long, n, rnd.IntN(2) == 0) {
		if i%interval == interval-1 {
			e.shared, e.suffix = 0, slices.Concat(long[:e.shared], e.suffix)
			b.restarts = append(b.restarts, uint32(size))
		}
		b.entries = append(b.entries, e)
		size += e.size()
	}
	return "many entries share a long key"
}

// trailerOf returns the internal key with a random trailer: a sequence number and a kind.
func trailerOf(rnd *rand.Rand, key []byte) []byte {
	if len(key) < 8 {
		return key
	}
	trailers := []uint64{
		0, 1, 2, 0xff, 1<<63 | 1, 1<<64 - 1, 1<<64 - 256, 1<<64 - 255, 1<<64 - 511, 5<<8 | 1, 5 << 8, 1 << 40,
	}
	return binary.LittleEndian.AppendUint64(slices.Clone(key[:len(key)-8]), trailers[rnd.IntN(len(trailers))])
}

// addNames adds names of filters that share a long prefix.
func (b *block) addNames(rnd *rand.Rand) {
	begin := []string{"filter.", "filter.sievedb.range.", "x"}[rnd.IntN(3)]
	prefix := append([]byte(begin), make([]byte, 1<<rnd.IntN(13))...)
	keys, value := b.keys(), b.entries[0].value
	old := slices.Clone(b.entries)
	for range rnd.IntN(300) {
		keys = append(keys, prefix)
	}
	b.kind = byte(rnd.IntN(3))
	b.encode(inOrder(keys), keys, func(i int) []byte {
		if i < len(old) {
			return old[i].value
		}
		return value
	}, 1<<30)
}

// keys returns the complete keys of the entries.
func (b *block) keys() (keys [][]byte) {
	var key []byte
	for _, e := range b.entries {
		key = append(key[:min(int(e.shared), len(key))], e.suffix...)
		keys = append(keys, slices.Clone(key))
	}
	return keys
}

// inOrder returns the indexes of all keys, for encode.
func inOrder(keys [][]byte) []int {
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	return order
}

// encode replaces the entries of the block by those keys and values, in that order, with a restart
// point every interval entries.
func (b *block) encode(order []int, keys [][]byte, value func(int) []byte, interval int) {
	var entries []entry
	b.restarts = nil
	size := 0
	var last []byte
	for n, i := range order {
		shared := 0
		if n%interval == 0 {
			b.restarts = append(b.restarts, uint32(size))
		} else {
			for shared < min(len(last), len(keys[i])) && last[shared] == keys[i][shared] {
				shared++
			}
		}
		e := entry{uint64(shared), keys[i][shared:], value(i)}
		entries = append(entries, e)
		size += e.size()
		last = keys[i]
	}
	b.entries = entries
}
