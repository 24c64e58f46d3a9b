package wal

import (
	"testing"

	"github.com/sievedb/sievedb/util"
	"github.com/stretchr/testify/require"
)

func TestSumsReturnTheChecksumOfEveryPiece(t *testing.T) {
	rnd := newRand(t)
	data := make([]byte, blockSize)
	rnd.Read(data)
	var s sums
	s.make(data)
	require.True(t, s.made())
	for range 2000 {
		i := rnd.Intn(len(data) + 1)
		j := i + rnd.Intn(len(data)+1-i)
		require.Equal(t, util.CRC32C(data[i:j]), s.crc(i, j), "bytes %d to %d", i, j)
	}
	require.Equal(t, util.CRC32C(data), s.crc(0, len(data)))
	require.Equal(t, util.CRC32C(nil), s.crc(5, 5))
	s.make(data[:3])
	require.Equal(t, util.CRC32C(data[1:3]), s.crc(1, 3))
}

func TestTheFlippedBitIsFound(t *testing.T) {
	rnd := newRand(t)
	for _, n := range []int{0, 1, 2, 100, 1000} {
		for kind := byte(kindFull); kind <= kindLast; kind++ {
			chunk := appendChunk(nil, kind, random(rnd, n))
			b := append(chunk, random(rnd, 600)...) // what follows in the block
			require.Equal(t, -1, flippedBit(b))
			for bit := range 8 * len(chunk) {
				b[bit/8] ^= 1 << (bit % 8)
				require.Equal(t, bit/8, flippedBit(b), "bit %d of a chunk of %d bytes", bit, n)
				b[bit/8] ^= 1 << (bit % 8)
			}
		}
	}
}

func TestNoFlippedBitIsFoundInUnrelatedBytes(t *testing.T) {
	rnd := newRand(t)
	chunk := appendChunk(nil, kindFull, random(rnd, 500))
	require.Equal(t, -1, flippedBit(chunk[:headerSize-1]))
	require.Equal(t, -1, flippedBit(chunk[:200]), "cut short")
	require.Equal(t, -1, flippedBit(make([]byte, 300)))
	for range 500 {
		b := append([]byte{}, chunk...)
		b[rnd.Intn(300)] ^= 1 << rnd.Intn(8)
		b[300+rnd.Intn(200)] ^= 1 << rnd.Intn(8)
		require.Equal(t, -1, flippedBit(b), "two bits")
	}
}
