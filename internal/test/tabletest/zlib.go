package tabletest

import (
	"bytes"
	"compress/zlib"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// Zlib returns a table with the same entries whose blocks are stored with zlib, as in a Minecraft world. It has no
// filter.
func Zlib(t *testing.T, table []byte) []byte {
	return Recoded(t, table, codec.Zlib, func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil })
}

// Recoded is Zlib for blocks of that kind, which compressor compresses.
func Recoded(t *testing.T, table []byte, kind byte, compressor func(io.Writer) (io.WriteCloser, error)) []byte {
	mem := vfs.NewMem()
	f, err := mem.Create("table")
	require.NoError(t, err)
	_, err = f.Write(table)
	require.NoError(t, err)
	foot, _, err := sstable.ReadFooter(f)
	require.NoError(t, err)
	read := func(h codec.Handle) []byte {
		_, data, err := sstable.ReadBlock(f, uint64(len(table)), h)
		require.NoError(t, err)
		return data
	}
	var file []byte
	put := func(block []byte) codec.Handle {
		h := codec.Handle{Offset: uint64(len(file))}
		var stream bytes.Buffer
		w, err := compressor(&stream)
		require.NoError(t, err)
		_, err = w.Write(block)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		h.Size = uint64(stream.Len())
		file = append(append(file, stream.Bytes()...), kind)
		file = util.AppendFixed32(file, util.MaskCRC(util.CRC32C(file[h.Offset:])))
		return h
	}
	var entries, restarts []byte
	_, err = sstable.EachEntry(read(foot.Index), func(key, value []byte) error {
		h, _, err := codec.DecodeHandle(value, "index block")
		require.NoError(t, err)
		handle := put(read(h)).Append(nil)
		restarts = util.AppendFixed32(restarts, uint32(len(entries)))
		entries = append(entries, 0, byte(len(key)), byte(len(handle))) // every key in full
		entries = append(append(entries, key...), handle...)
		return nil
	})
	require.NoError(t, err)
	count := util.AppendFixed32(nil, uint32(len(restarts)/4))
	empty := put([]byte{0, 0, 0, 0, 1, 0, 0, 0})
	return codec.Footer{Metaindex: empty, Index: put(append(append(entries, restarts...), count...))}.Append(file)
}
