package sstable

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// sampled returns a sample of a table in memory.
func sampled(t testing.TB, table []byte, n int) (CompressionSample, error) {
	mem := vfs.NewMem()
	f, err := mem.Create("table")
	require.NoError(t, err)
	_, err = f.Write(table)
	require.NoError(t, err)
	defer f.Close()
	return SampleCompression(f, n)
}

func TestSamplesSayHowATableIsCompressed(t *testing.T) {
	es := plainEntries(2000, 100)
	noise := plainEntries(1, 0)
	source := rand.NewChaCha8([32]byte{})
	for i := range noise {
		noise[i].Value = make([]byte, 4000)
		_, _ = source.Read(noise[i].Value)
	}
	raw := buildTable(t, WriterOptions{Filter: bloom, Compression: NoCompression}, es)
	for what, c := range map[string]struct {
		table []byte
		want  CompressionSample
	}{
		"Snappy":              {buildTable(t, WriterOptions{Compression: Snappy}, es), CompressionSample{Snappy: 1}},
		"Zstandard":           {buildTable(t, WriterOptions{Compression: Zstd}, es), CompressionSample{Zstd: 1}},
		"zlib":                {recompressed(t, raw, zlibKind), CompressionSample{Deflate: 1}},
		"deflate":             {recompressed(t, raw, deflateKind), CompressionSample{Deflate: 1}},
		"none":                {raw, CompressionSample{Raw: 9, Compressible: 9, Ours: true}},
		"Snappy without use":  {buildTable(t, WriterOptions{Compression: Snappy}, noise), CompressionSample{Raw: 2, Ours: true}},
		"Snappy of one entry": {buildTable(t, WriterOptions{Compression: Snappy}, plainEntries(1, 4)), CompressionSample{Raw: 2, Ours: true}},
	} {
		got, err := sampled(t, c.table, 8)
		require.NoError(t, err, what)
		require.Equal(t, c.want, got, what)
	}
	_, err := sampled(t, raw[:len(raw)-1], 8)
	require.ErrorIs(t, err, base.ErrCorruption)
	_, err = sampled(t, nil, 8)
	require.ErrorIs(t, err, base.ErrCorruption)
}
