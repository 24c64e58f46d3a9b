package util

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const bloomSeed = 0xbc9f1d34

// crcHeader is the 48-byte message (an iSCSI command) that LevelDB's tests of its hash and its CRC both use.
var crcHeader = []byte{
	0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
	0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
}

func TestHashAgreesWithLevelDBsTest(t *testing.T) {
	// From LevelDB's util/hash_test.cc.
	for _, c := range []struct {
		name string
		data []byte
		seed uint32
		want uint32
	}{
		{"nothing hashes to the seed", nil, bloomSeed, 0xbc9f1d34},
		{"one byte", []byte{0x62}, bloomSeed, 0xef1345c4},
		{"two bytes above 0x7f are unsigned", []byte{0xc3, 0x97}, bloomSeed, 0x5b663814},
		{"three bytes above 0x7f are unsigned", []byte{0xe2, 0x99, 0xa5}, bloomSeed, 0x323c078f},
		{"a whole word", []byte{0xe1, 0x80, 0xb9, 0x32}, bloomSeed, 0xed21633a},
		{"twelve words under another seed", crcHeader, 0x12345678, 0xf333dabb},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, Hash(c.data, c.seed))
		})
	}
}

func TestHashVectorsForTheBloomSeed(t *testing.T) {
	// Computed with a byte-by-byte C program for both kinds of char; six of the unsigned values
	// were confirmed with leveldb::Hash of LevelDB 1.23.
	for _, c := range []struct {
		key              string
		unsigned, signed uint32
	}{
		{"a", 0x286e9db0, 0x286e9db0},
		{"ab", 0x39aca330, 0x39aca330},
		{"abc", 0x855d012f, 0x855d012f},
		{"abcd", 0xb9c83353, 0xb9c83353},
		{"abcde", 0x41d2c26d, 0x41d2c26d},
		{"hello", 0xf795964e, 0xf795964e},
		{"world", 0x42c4e8fc, 0x42c4e8fc},
		{"0000000000000001", 0xe436585b, 0xe436585b},
		{"user000000000042", 0x9b298d85, 0x9b298d85},
		{"abcdefghijklmnopqrstuvwxyz", 0xfd4d1805, 0xfd4d1805},
		{"\x00", 0xe40b1e01, 0xe40b1e01},
		{"\x7f", 0x6fba40bd, 0x6fba40bd},
		{"\x80", 0x365ee853, 0x91b755f4},
		{"\xff", 0xc20e0a90, 0x1d66774f},
		{"\xff\xff", 0xce11360d, 0x81d6a342},
		{"\xff\xff\xff", 0x37559553, 0x581b023c},
		{"\xff\xff\xff\xff", 0x6cc17294, 0x6cc17294},
		{"ab\x80", 0x8104012b, 0xee040144},
		{"abcd\x80\x01\xff", 0x0a93c337, 0xd2ec30ef},
		{"caf\xc3\xa9", 0x3466250c, 0x8fbe92b7},
		{"\xe2\x99\xa5", 0x323c078f, 0x530174ee},
	} {
		t.Run(fmt.Sprintf("%q", c.key), func(t *testing.T) {
			require.Equal(t, c.unsigned, Hash([]byte(c.key), bloomSeed), "unsigned tail")
			require.Equal(t, c.signed, HashSignedTail([]byte(c.key), bloomSeed), "signed tail")
		})
	}
}

func TestHashOfEveryLengthUpTo256(t *testing.T) {
	// The hashes of the first 0..256 bytes of 255, 254, … 0, folded with
	// x = 31 x + hash; from the same C program as the vectors above.
	data := make([]byte, 256)
	for i := range data {
		data[i] = byte(255 - i)
	}
	var unsigned, signed, seedZero uint32
	for n := 0; n <= len(data); n++ {
		unsigned = unsigned*31 + Hash(data[:n], bloomSeed)
		signed = signed*31 + HashSignedTail(data[:n], bloomSeed)
		seedZero = seedZero*31 + Hash(data[:n], 0)
	}
	require.Equal(t, uint32(0xb0f06aa1), unsigned)
	require.Equal(t, uint32(0xa7a3c38e), signed)
	require.Equal(t, uint32(0xff69a9dd), seedZero)
}

func BenchmarkHash(b *testing.B) {
	for _, size := range []int{4, 8, 15, 16, 24, 64, 128} {
		for _, mode := range []string{"throughput", "dependent"} {
			b.Run(fmt.Sprintf("size=%d/%s", size, mode), func(b *testing.B) {
				key := make([]byte, size)
				b.ReportAllocs()
				b.SetBytes(int64(size))
				var seed, sink uint32
				seed = bloomSeed
				for b.Loop() {
					h := Hash(key, seed)
					if mode == "dependent" {
						seed = h
					}
					sink ^= h
				}
				benchSink = uint64(sink)
			})
		}
	}
}

// benchSink keeps the compiler from removing the results of a benchmark.
var benchSink uint64
