package db_test

import (
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// While tables cannot be written, writers get an error instead of hanging, reads work, and nothing
// is lost. Once tables can be written again, the store continues without being reopened.
func TestWritersGetErrorsWhileFlushesFailAndContinueAfterwards(t *testing.T) {
	var full atomic.Bool
	fsys := wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if full.Load() && op.Kind == wrap.OpWrite && filepath.Ext(op.Name) == ".ldb" {
			return &wrap.Fault{Err: syscall.ENOSPC}
		}
		return nil
	})
	o := testOptions(fsys)
	// The bug: a writer that had got room could still get the earlier error at its next switch of memtables.
	var stale atomic.Int64
	var d *db.DB
	o.EventListener = &db.EventListener{FlushEnd: func(i db.FlushInfo) {
		if i.Err == nil && d.Metrics().BackgroundError != nil {
			stale.Add(1)
		}
	}}
	d = openTest(t, o)
	full.Store(true)
	n := 0
	var err error
	for ; err == nil; n++ {
		err = d.Put(testKey(n), testValue(n), db.NoSync)
	}
	n-- // the refused one
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, d.Metrics().BackgroundError, syscall.ENOSPC)
	require.NotErrorIs(t, err, db.ErrReadOnly, "the error is not final")
	for i := range n {
		requireValue(t, d, testKey(i), testValue(i))
	}
	full.Store(false)
	eventually(t, func() bool { return d.Put(testKey(n), testValue(n), db.NoSync) == nil })
	require.NoError(t, d.Flush())
	for i := range n + 1 {
		requireValue(t, d, testKey(i), testValue(i))
	}
	require.NoError(t, d.Metrics().BackgroundError)
	require.Zero(t, stale.Load(), "flushes that succeeded but left an error")
}
