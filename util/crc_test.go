package util

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCRC32CStandardResults(t *testing.T) {
	// RFC 3720, section B.4, as in LevelDB's util/crc32c_test.cc.
	up, down := make([]byte, 32), make([]byte, 32)
	for i := range up {
		up[i], down[i] = byte(i), byte(31-i)
	}
	for _, c := range []struct {
		name string
		data []byte
		want uint32
	}{
		{"nothing", nil, 0},
		{"32 bytes of 0x00", make([]byte, 32), 0x8a9136aa},
		{"32 bytes of 0xff", bytes.Repeat([]byte{0xff}, 32), 0x62a8ab43},
		{"0 to 31", up, 0x46dd794e},
		{"31 to 0", down, 0x113fdb5c},
		{"an iSCSI read command", crcHeader, 0xd9963a56},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, CRC32C(c.data))
			for cut := range c.data {
				require.Equal(t, c.want, ExtendCRC32C(CRC32C(c.data[:cut]), c.data[cut:]))
			}
		})
	}
}

func TestMaskedCRCs(t *testing.T) {
	crc := CRC32C([]byte("foo"))
	require.NotEqual(t, CRC32C([]byte("a")), crc)
	require.NotEqual(t, crc, MaskCRC(crc))
	require.NotEqual(t, crc, MaskCRC(MaskCRC(crc)))
	require.Equal(t, crc, UnmaskCRC(MaskCRC(crc)))
	require.Equal(t, crc, UnmaskCRC(UnmaskCRC(MaskCRC(MaskCRC(crc)))))

	// (crc>>15 | crc<<17) + 0xa282ead8, computed by hand.
	require.Equal(t, uint32(0xa282ead8), MaskCRC(0))
	require.Equal(t, uint32(0xa282ead8+0x00020000), MaskCRC(1))
	require.Equal(t, uint32(0xa282ead7), MaskCRC(0xffffffff))
}

func BenchmarkCRC32C(b *testing.B) {
	for _, size := range []int{16, 128, 4 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			data := make([]byte, size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			var sink uint32
			for b.Loop() {
				sink ^= CRC32C(data)
			}
			benchSink = uint64(sink)
		})
	}
}
