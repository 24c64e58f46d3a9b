package filtertest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
)

// KeyShape makes keys of one shape: Key appends key number i to dst. Tests store keys with even
// numbers and query odd ones.
type KeyShape struct {
	Name string
	Key  func(dst []byte, i uint64) []byte
}

// KeyShapes are shapes of keys, including some whose absent neighbours collide in LevelDB's hash.
var KeyShapes = []KeyShape{
	{"random", func(dst []byte, i uint64) []byte {
		r := rand.New(rand.NewPCG(i, 99))
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, r.Uint64()), r.Uint64())
	}},
	{"u64-big-endian", binary.BigEndian.AppendUint64},
	{"u64-little-endian", binary.LittleEndian.AppendUint64},
	{"%016d", format("%016d")},
	{"user%012d", format("user%012d")},
	{"key%09d", format("key%09d")},
	{"%08x", format("%08x")},
	{"%020d", format("%020d")},
	{"user:%d", format("user:%d")},
	{"key-%07d", format("key-%07d")},
	{"k%06d", format("k%06d")},
	{"path", func(dst []byte, i uint64) []byte { return fmt.Appendf(dst, "path/%04d/file%05d.txt", i/1000, i) }},
	{"with-a-dot", func(dst []byte, i uint64) []byte {
		dst = fmt.Appendf(dst, "%016d", i&^1)
		if i&1 != 0 {
			dst = append(dst, '.')
		}
		return dst
	}},
	{"url of 60 to 70 bytes", func(dst []byte, i uint64) []byte {
		return fmt.Appendf(dst, "https://www.example.org/catalogue/items/%d/reviews?page=%d&sort=date", i*7919, i%10)
	}},
}

// RateShapes are KeyShapes and one more shape.
var RateShapes = append(slices.Clone(KeyShapes), KeyShape{"u64-big-endian, tens", func(dst []byte, i uint64) []byte {
	return binary.BigEndian.AppendUint64(dst, 5*i)
}})

func format(f string) func([]byte, uint64) []byte {
	return func(dst []byte, i uint64) []byte { return fmt.Appendf(dst, f, i) }
}

func shapeNamed(name string) func([]byte, uint64) []byte {
	for _, s := range RateShapes {
		if s.Name == name {
			return s.Key
		}
	}
	panic("no shape " + name)
}
