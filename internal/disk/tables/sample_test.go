package tables_test

import (
	"bytes"
	"compress/flate"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// sampled returns a sample of a table in memory.
func sampled(t testing.TB, table []byte, n int) (tables.CompressionSample, error) {
	mem := vfs.NewMem()
	fixture.WriteFile(t, mem, "table", table)
	f, err := mem.Open("table")
	require.NoError(t, err)
	defer f.Close()
	return tables.SampleCompression(f, n)
}

// table returns a table of n entries with values of that length, compressible or not.
func table(t testing.TB, kind sstable.Compression, n, length int, compressible bool) []byte {
	value := make([]byte, length)
	if !compressible {
		_, _ = rand.NewChaCha8([32]byte{}).Read(value)
	}
	var file bytes.Buffer
	w := sstable.NewWriter(&file, sstable.WriterOptions{Compression: kind})
	for i := range n {
		require.NoError(t, w.Add(sstable.Key{User: fixture.Key(i)}.Append(nil), value))
	}
	_, err := w.Finish()
	require.NoError(t, err)
	return file.Bytes()
}

func TestSamplesSayHowATableIsCompressed(t *testing.T) {
	raw := table(t, sstable.NoCompression, 2000, 100, true)
	deflated := tabletest.Recoded(t, raw, codec.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 1) })
	for what, c := range map[string]struct {
		table []byte
		want  tables.CompressionSample
	}{
		"Snappy":              {table(t, sstable.Snappy, 2000, 100, true), tables.CompressionSample{Snappy: 1}},
		"Zstandard":           {table(t, sstable.Zstd, 2000, 100, true), tables.CompressionSample{Zstd: 1}},
		"zlib":                {tabletest.Zlib(t, raw), tables.CompressionSample{Deflate: 1}},
		"deflate":             {deflated, tables.CompressionSample{Deflate: 1}},
		"none":                {raw, tables.CompressionSample{Raw: 9, Compressible: 9, Ours: true}},
		"Snappy without use":  {table(t, sstable.Snappy, 1, 4000, false), tables.CompressionSample{Raw: 2, Ours: true}},
		"Snappy of one entry": {table(t, sstable.Snappy, 1, 4, false), tables.CompressionSample{Raw: 2, Ours: true}},
	} {
		got, err := sampled(t, c.table, 8)
		require.NoError(t, err, what)
		require.Equal(t, c.want, got, what)
	}
	for _, damaged := range [][]byte{raw[:len(raw)-1], nil} {
		_, err := sampled(t, damaged, 8)
		require.ErrorIs(t, err, base.ErrCorruption)
	}
}

func FuzzSample(f *testing.F) {
	sound := fixture.Table(f, fixture.Put("a", 1, "1"), fixture.Put("b", 2, "2"))
	f.Add(sound)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := sampled(t, data, 4)
		require.LessOrEqual(t, s.Snappy+s.Zstd+s.Deflate+s.Raw, 4+1)
		require.True(t, err == nil || base.IsUnreadable(err), err)
	})
}
