package check

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// openTable returns a reader of a table with n keys of keyLen bytes, and values of valueLen zeros.
func openTable(t *testing.T, o sstable.WriterOptions, n, keyLen, valueLen int) *sstable.Reader {
	t.Helper()
	var file bytes.Buffer
	w := sstable.NewWriter(&file, o)
	user, value := make([]byte, keyLen), make([]byte, valueLen)
	for i := range n {
		binary.BigEndian.PutUint64(user[keyLen-8:], uint64(i))
		require.NoError(t, w.Add(base.AppendInternalKey(nil, user, 1, base.KindSet), value))
	}
	_, err := w.Finish()
	require.NoError(t, err)
	fs := vfs.NewMem()
	fixture.WriteFile(t, fs, "t", file.Bytes())
	f, err := fs.Open("t")
	require.NoError(t, err)
	r, err := sstable.Open(f, sstable.ReaderOptions{
		Policies: []filter.Policy{filter.NewBloomPolicy(10)}, Cache: sstable.NewBlockCache(1 << 20), Name: "t",
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// The bug: each key was looked up from the beginning of its block. With one restart point a table of 10 KB took hours:
// this one would take ten minutes.
func TestABlockWithOneRestartPointIsCheckedInLinearTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const n = 600_000
	r := openTable(t, sstable.WriterOptions{BlockSize: 32 << 20, BlockRestartInterval: n, Compression: sstable.Zstd}, n, 16, 0)
	entries := 0
	require.NoError(t, Reader(ctx, r, Options{Comparer: base.Bytewise}, func(_, _ []byte) error {
		entries++
		return nil
	}), "the check takes too long")
	require.Equal(t, n, entries)
}

// The bug: the context was looked at after every 4096 entries, however long they are.
func TestACheckHeedsItsContextByTheBytesItHasRead(t *testing.T) {
	for name, lens := range map[string][2]int{"keys": {300 << 10, 0}, "values": {16, 300 << 10}} {
		t.Run(name, func(t *testing.T) {
			r := openTable(t, sstable.WriterOptions{Compression: sstable.Zstd}, 100, lens[0], lens[1])
			ctx, cancel := context.WithCancel(t.Context())
			entries := 0
			err := Reader(ctx, r, Options{Comparer: base.Bytewise}, func(_, _ []byte) error {
				entries++
				cancel()
				return nil
			})
			require.ErrorIs(t, err, context.Canceled)
			require.LessOrEqual(t, entries, 4)
		})
	}
}
