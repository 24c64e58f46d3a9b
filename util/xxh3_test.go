package util

import (
	"fmt"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

// xxTestBuffer is the buffer of xxHash's sanity check (XSUM_fillTestBuffer).
func xxTestBuffer(n int) []byte {
	b := make([]byte, n)
	state := uint64(2654435761)
	for i := range b {
		b[i] = byte(state >> 56)
		state *= 11400714785074694797
	}
	return b
}

// The vectors of xxHash (cli/xsum_sanity_check.c at b2e9dbb, XSUM_XXH3_testdata) with seed 0.
func TestXXH3AgreesWithThePublishedVectors(t *testing.T) {
	buf := xxTestBuffer(2367)
	for _, c := range []struct {
		bytes int
		hash  uint64
	}{
		{0, 0x2D06800538D394C2},
		{1, 0xC44BDFF4074EECDB},
		{6, 0x27B56A84CD2D7325},
		{12, 0xA713DAF0DFBB77E7},
		{24, 0xA3FE70BF9D3510EB},
		{48, 0x397DA259ECBA1F11},
		{80, 0xBCDEFBBB2C47C90A},
		{195, 0xCD94217EE362EC3A},
		{403, 0xCDEB804D65C6DEA4},
		{512, 0x617E49599013CB6B},
		{2048, 0xDD59E2C3A5F038E0},
		{2099, 0xC6B9D9B3FC9AC765},
		{2240, 0x6E73A90539CF2948},
		{2367, 0xCB37AEB9E5D361ED},
	} {
		t.Run(fmt.Sprintf("bytes=%d", c.bytes), func(t *testing.T) {
			require.Equal(t, c.hash, XXH3(buf[:c.bytes]))
		})
	}
}

// Every length from 0 to 2500, combined into one number, which was computed with another
// implementation (github.com/zeebo/xxh3 v1.1.0).
func TestXXH3OfEveryLength(t *testing.T) {
	buf := xxTestBuffer(2500)
	var digest uint64
	for n := 0; n <= len(buf); n++ {
		digest = bits.RotateLeft64(digest, 5) ^ XXH3(buf[:n])
	}
	require.Equal(t, uint64(0x89354c4d76e43013), digest)
}

var hashSink uint64

func BenchmarkHashes(b *testing.B) {
	for _, n := range []int{8, 16, 32, 100, 300} {
		buf := xxTestBuffer(1024 * n)
		run := func(name string, hash func([]byte) uint64) {
			b.Run(fmt.Sprintf("bytes=%d/hash=%s", n, name), func(b *testing.B) {
				b.SetBytes(int64(n))
				at := 0
				for b.Loop() {
					hashSink += hash(buf[at : at+n])
					if at += n; at == len(buf) {
						at = 0
					}
				}
			})
		}
		run("leveldb", func(key []byte) uint64 { return uint64(Hash(key, 1)) })
		run("xxh3", XXH3)
	}
}
