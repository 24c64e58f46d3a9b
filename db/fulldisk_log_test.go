package db

import (
	"bytes"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
)

// The bug: after a full disk the preamble of the next log had a number below the last sequence number
// of the MANIFEST, which counts the writes that failed. goleveldb treats such a record as damage, and
// its strict mode refused the database.
func TestThePreambleAfterAFullDiskIsNotNumberedBelowTheManifest(t *testing.T) {
	fs := fixture.NewFailing()
	d := openTest(t, &Options{FS: fs})
	require.NoError(t, d.Put([]byte("before"), nil, Sync))
	fs.Fail(wrap.OpWrite, "", syscall.ENOSPC)
	b := &Batch{}
	for i := range 10 {
		b.Put(testKey(i), nil)
	}
	require.ErrorIs(t, d.Apply(b, Sync), ErrNoSpace)
	fs.Heal()
	eventually(t, func() bool { return d.Put([]byte("after"), nil, Sync) == nil })

	left := fsOf(t, imageOf(t, fs.Mem))
	_, state, err := manifest.Load(manifest.SetOptions{FS: left, Dir: "db", Cmp: d.opts.Comparer, MaxTables: 100})
	require.NoError(t, err)
	file := readFile(t, left, filepath.Join("db", base.FileName(base.FileLog, d.state().Mem.LogNum)))
	log := wal.NewReader(bytes.NewReader(file), int64(len(file)), wal.ReaderOptions{})
	record, err := log.Next()
	require.NoError(t, err)
	last, ok := batch.ReadPreamble(log, record)
	require.True(t, ok)
	require.GreaterOrEqual(t, last, state.LastSeq)
	again := openTest(t, &Options{FS: left})
	requireValue(t, again, []byte("after"), []byte{})
}
