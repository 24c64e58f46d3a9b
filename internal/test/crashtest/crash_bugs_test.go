package crashtest

import (
	"bytes"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: an Open that failed at the sync after renaming CURRENT removed the tables that it had written from the log,
// although CURRENT, at least in the page cache, named a MANIFEST with these tables. The next Open found them missing.
func TestAnOpenThatFailsAfterRenamingCurrentKeepsItsTables(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.MustOpen(t, storetest.Options(mem))
	require.NoError(t, d.Put([]byte("k"), []byte("v"), db.Sync))
	require.NoError(t, d.Close())
	renamed := false
	_, err := db.Open("db", storetest.Options(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if renamed && op.Kind == wrap.OpSyncDir {
			return &wrap.Fault{Err: syscall.EIO}
		}
		renamed = renamed || op.Kind == wrap.OpRename
		return nil
	})))
	require.ErrorIs(t, err, syscall.EIO)
	require.True(t, renamed)
	for name, left := range map[string]*vfs.Mem{"power lost": mem.Crash(), "power kept": mem} {
		t.Run(name, func(t *testing.T) {
			storetest.RequireValue(t, storetest.Open(t, storetest.Options(left)), []byte("k"), []byte("v"))
		})
	}
}

// The bug: a full disk ended writes permanently. Even when there was space again, only reopening the database helped.
func TestWritesContinueAfterAFullDisk(t *testing.T) {
	for _, kind := range []base.FileKind{base.FileLog, base.FileManifest} {
		for _, op := range []wrap.OpKind{wrap.OpWrite, wrap.OpSync} {
			t.Run(op.String()+" of "+base.FileName(kind, 1), func(t *testing.T) {
				mem := vfs.NewMem()
				var full, failed atomic.Bool
				d := storetest.Open(t, storetest.Options(wrap.NewFaulty(mem, func(o wrap.Op) *wrap.Fault {
					if k, _, ok := base.ParseFileName(filepath.Base(o.Name)); full.Load() && ok && k == kind && o.Kind == op && failed.CompareAndSwap(false, true) {
						return &wrap.Fault{Err: syscall.ENOSPC, Short: o.Length / 2}
					}
					return nil
				})))
				require.NoError(t, d.Put([]byte("before"), []byte("v"), db.NoSync))
				full.Store(true)
				err := d.Put([]byte("during"), []byte("v"), db.Sync)
				if kind == base.FileManifest {
					require.NoError(t, err)
					err = d.Flush()
				}
				require.ErrorIs(t, err, db.ErrNoSpace)
				require.ErrorIs(t, err, syscall.ENOSPC)
				require.NotErrorIs(t, err, db.ErrReadOnly)
				storetest.RequireValue(t, d, []byte("before"), []byte("v"))
				fixture.Eventually(t, func() bool { return d.Put([]byte("after"), []byte("v"), db.Sync) == nil && d.Flush() == nil })
				require.True(t, failed.Load())
				require.NoError(t, d.Metrics().BackgroundError)
				again := storetest.Open(t, storetest.Options(mem.Crash()))
				storetest.RequireValue(t, again, []byte("before"), []byte("v"))
				storetest.RequireValue(t, again, []byte("after"), []byte("v"))
			})
		}
	}
}

// The bug: after a full disk the preamble of the next log had a number below the last sequence number
// of the MANIFEST, which counts the writes that failed. goleveldb treats such a record as damage, and
// its strict mode refused the database.
func TestThePreambleAfterAFullDiskIsNotNumberedBelowTheManifest(t *testing.T) {
	fs := fixture.NewFailing()
	d := storetest.Open(t, &db.Options{FS: fs})
	require.NoError(t, d.Put([]byte("before"), nil, db.Sync))
	fs.Fail(wrap.OpWrite, "", syscall.ENOSPC)
	b := &db.Batch{}
	for i := range 10 {
		b.Put(fixture.Key(i), nil)
	}
	require.ErrorIs(t, d.Apply(b, db.Sync), db.ErrNoSpace)
	fs.Heal()
	fixture.Eventually(t, func() bool { return d.Put([]byte("after"), nil, db.Sync) == nil })

	left := fixture.ImageFS(t, fixture.Image(t, fs.Mem))
	_, state, err := manifest.Load(manifest.SetOptions{FS: left, Dir: "db", Cmp: base.Bytewise, MaxTables: 100})
	require.NoError(t, err)
	logs := fixture.Names(t, left, base.FileLog)
	file := fixture.ReadFile(t, left, filepath.Join("db", logs[len(logs)-1]))
	log := wal.NewReader(bytes.NewReader(file), int64(len(file)), wal.ReaderOptions{})
	record, err := log.Next()
	require.NoError(t, err)
	last, ok := batch.ReadPreamble(log, record)
	require.True(t, ok)
	require.GreaterOrEqual(t, last, state.LastSeq)
	again := storetest.Open(t, &db.Options{FS: left})
	storetest.RequireValue(t, again, []byte("after"), []byte{})
}
