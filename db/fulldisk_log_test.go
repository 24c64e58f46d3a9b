package db

import (
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: after a full disk the preamble of the next log had a number below the last sequence number
// of the MANIFEST, which counts the writes that failed. goleveldb treats such a record as damage, and
// its strict mode refused the database.
func TestThePreambleAfterAFullDiskIsNotNumberedBelowTheManifest(t *testing.T) {
	var full atomic.Bool
	mem := vfs.NewMem()
	d := openTest(t, &Options{FS: wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if full.Load() && op.Kind == wrap.OpWrite {
			return &wrap.Fault{Err: syscall.ENOSPC}
		}
		return nil
	})})
	require.NoError(t, d.Put([]byte("before"), nil, Sync))
	full.Store(true)
	b := &Batch{}
	for i := range 10 {
		b.Put(testKey(i), nil)
	}
	require.ErrorIs(t, d.Apply(b, Sync), ErrNoSpace)
	full.Store(false)
	eventually(t, func() bool { return d.Put([]byte("after"), nil, Sync) == nil })

	im := imageOf(t, mem)
	left := fsOf(t, im)
	_, state, err := manifest.Load(manifest.SetOptions{FS: left, Dir: "db", Cmp: d.opts.Comparer, MaxTables: 100})
	require.NoError(t, err)
	f, err := left.Open(filepath.Join("db", base.FileName(base.FileLog, d.state().Mem.LogNum)))
	require.NoError(t, err)
	defer f.Close()
	size, err := f.Size()
	require.NoError(t, err)
	log := wal.NewReader(f, size, wal.ReaderOptions{})
	record, err := log.Next()
	require.NoError(t, err)
	last, ok := batch.ReadPreamble(log, record)
	require.True(t, ok)
	require.GreaterOrEqual(t, last, state.LastSeq)
	again := openTest(t, &Options{FS: left})
	requireValue(t, again, []byte("after"), []byte{})
}
