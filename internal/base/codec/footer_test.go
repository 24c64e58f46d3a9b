package codec

import (
	"encoding/hex"
	"hash/crc32"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/util"
)

func TestAFooterIsDecodedAsItWasWritten(t *testing.T) {
	f := Footer{Metaindex: Handle{1000, 50}, Index: Handle{1055, 300}}
	b := f.Append([]byte("data"))[4:]
	require.Len(t, b, FooterLen)
	size := f.Index.End() + FooterLen
	decoded := result.Of(DecodeFooter(b, size))(t)
	require.Equal(t, f, decoded)

	for name, c := range map[string]struct {
		change func(b []byte) []byte
		size   uint64
		want   error
		text   string
	}{
		"too short":       {func(b []byte) []byte { return b[1:] }, size, base.ErrCorruption, "47 bytes; want 48"},
		"another magic":   {func(b []byte) []byte { b[40]++; return b }, size, base.ErrCorruption, "magic number"},
		"a later version": {func(b []byte) []byte { copy(b[40:], "sieveTB2"); return b }, size, base.ErrNewer, `"sieveTB2"`},
		"no handle":       {func(b []byte) []byte { clearTo(b[:40], 0xff); return b }, size, base.ErrCorruption, "malformed"},
		"no index handle": {func(b []byte) []byte { clearTo(b[3:40], 0xff); return b }, size, base.ErrCorruption, "malformed"},
		"a cut table":     {func(b []byte) []byte { return b }, size - 1, base.ErrCorruption, "the handle of the index block says 300 bytes at offset 1055"},
		"a shorter one":   {func(b []byte) []byte { return b }, 1000, base.ErrCorruption, "the handle of the metaindex block"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeFooter(c.change(append([]byte(nil), b...)), c.size)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.text)
		})
	}
	for _, h := range []Handle{{0, math.MaxUint64}, {math.MaxUint64, 1}, {0, math.MaxInt32}} {
		require.Error(t, h.Check(math.MaxInt64, "footer", "index"))
	}
	require.Error(t, Handle{}.Check(BlockTrailerLen-1, "footer", "index"), "not even a trailer")
}

func clearTo(b []byte, value byte) {
	for i := range b {
		b[i] = value
	}
}

// The hash depends on each block, their order, and both checksums of each.
func TestTheContentHashDistinguishesBlocks(t *testing.T) {
	require.Zero(t, ContentHash(0).Property(), "an empty table has none")
	stored := func(content string) []byte {
		b := append([]byte(content), 0)
		return util.AppendFixed32(b, util.MaskCRC(util.CRC32C(b)))
	}
	hash := func(blocks ...string) uint64 {
		var c, sums ContentHash
		for _, b := range blocks {
			s := stored(b)
			c.AddStored(s)
			sums.AddSums(util.CRC32C(s[:len(s)-4]), crc32.ChecksumIEEE(s[:len(s)-4]))
		}
		require.Equal(t, sums, c)
		require.NotZero(t, c.Property()>>63, "its varint always has ten bytes")
		return c.Property()
	}
	seen := map[uint64]bool{}
	for _, blocks := range [][]string{{"a"}, {"b"}, {"a", "b"}, {"b", "a"}, {"a", "a"}, {""}} {
		h := hash(blocks...)
		require.False(t, seen[h], "%q", blocks)
		require.Equal(t, h, hash(blocks...))
		seen[h] = true
	}
}

// The ends are of tables that the engines wrote.
func TestTablesOfOtherEnginesAreNamed(t *testing.T) {
	for end, engine := range map[string]string{
		"0800000004000a000000d6040000040000000a0000006b30fffffffffffffffe0000000000c810cf87b7a00400000006": "Badger", // 4.9.6
		"f7cff485b741e288": "RocksDB",
		"f09faab3f09faab3": "Pebble",
	} {
		b := result.Of(hex.DecodeString(end))(t)
		b = append(make([]byte, FooterLen-len(b)), b...)
		got, known := TableEngine(b)
		require.True(t, known)
		require.Equal(t, engine, got)
		_, err := DecodeFooter(b, 1000)
		require.ErrorIs(t, err, base.ErrForeign)
		require.NotErrorIs(t, err, base.ErrCorruption)
		require.ErrorContains(t, err, "a table of "+engine)
		b[FooterLen-1] ^= 1
		require.ErrorIs(t, result.Err(DecodeFooter(b, 1000)), base.ErrCorruption, "one flipped bit is damage")
	}
	_, known := TableEngine(make([]byte, FooterLen))
	require.False(t, known)
}
