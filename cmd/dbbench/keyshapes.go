package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
)

// keyShape is a way in which programs write their keys. If a shape counts, the even numbers are
// stored and the odd ones are absent. So each absent key is a neighbour of stored keys, with
// which a weak hash may collide.
type keyShape struct {
	name   string // a format, if the shape has one
	append func(dst []byte, n uint64) []byte
	suffix string // not empty: absent keys are the stored ones with this suffix
	random bool
}

func format(f string) func([]byte, uint64) []byte {
	return func(dst []byte, n uint64) []byte { return fmt.Appendf(dst, f, n) }
}

var keyShapes = []keyShape{
	{name: "16 random bytes", random: true},
	{name: "64 bits, big-endian", append: binary.BigEndian.AppendUint64},
	{name: "64 bits, little-endian", append: binary.LittleEndian.AppendUint64},
	{name: "user:%d", append: format("user:%d")},
	{name: "path/%04d/file%05d.txt", append: func(dst []byte, n uint64) []byte {
		return fmt.Appendf(dst, "path/%04d/file%05d.txt", n/1000, n%1000)
	}},
	{name: "%016d and a full stop", append: format("%016d"), suffix: "."},
	{name: "key%09d", append: format("key%09d")},
	{name: "user%012d", append: format("user%012d")},
	{name: "%016d", append: format("%016d")},
	{name: "%020d", append: format("%020d")},
	{name: "%08x", append: format("%08x")},
}

// keys returns n stored keys and n absent keys, each in ascending order.
func (s *keyShape) keys(n int, rng *rand.Rand) (stored, absent [][]byte) {
	stored, absent = make([][]byte, n), make([][]byte, n)
	for i := range n {
		switch {
		case s.random:
			stored[i], absent[i] = randomKey(rng), randomKey(rng)
		case s.suffix != "":
			stored[i] = s.append(nil, 2*uint64(i))
			absent[i] = append(slices.Clone(stored[i]), s.suffix...)
		default:
			stored[i], absent[i] = s.append(nil, 2*uint64(i)), s.append(nil, 2*uint64(i)+1)
		}
	}
	sortKeys(stored)
	sortKeys(absent)
	return stored, absent
}

func randomKey(rng *rand.Rand) []byte {
	key := binary.LittleEndian.AppendUint64(nil, rng.Uint64())
	return binary.LittleEndian.AppendUint64(key, rng.Uint64())
}

func sortKeys(keys [][]byte) {
	slices.SortFunc(keys, bytes.Compare)
}

// sorted returns the keys of a list in ascending order.
func (l *keyList) sorted() [][]byte {
	keys := make([][]byte, l.len())
	for i := range keys {
		keys[i] = l.key(i)
	}
	sortKeys(keys)
	return keys
}
