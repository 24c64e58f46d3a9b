package replay_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: a log that was written with a large Memtables.Size and replayed with a small one made a
// table of level 0 for every few KiB: thousands of them from a log of 8 MiB.
func TestALogReplayedWithASmallWriteBufferMakesFewTables(t *testing.T) {
	const keys, valueSize = 20_000, 400
	mem := vfs.NewMem()
	d := storetest.Open(t, &db.Options{FS: mem, Memtables: db.MemtableOptions{Size: 64 << 20}})
	for i := range keys {
		require.NoError(t, d.Put(fixture.Key(i*7919%keys), make([]byte, valueSize), db.NoSync))
	}
	for _, buffer := range []int{4 << 10, 64 << 10, 32 << 20} {
		o := &db.Options{FS: fixture.CopyFS(t, mem), Memtables: db.MemtableOptions{Size: buffer}, Compaction: db.CompactionOptions{L0Trigger: 100}}
		r := storetest.MustOpen(t, o)
		require.EqualValues(t, keys, r.OpenReport().Logs[0].Entries)
		tables := r.Metrics().Levels[0].Tables
		require.LessOrEqual(t, tables, 4, "a write buffer of %d bytes", buffer)
		for i := 0; i < keys; i += 997 {
			storetest.RequireValue(t, r, fixture.Key(i), make([]byte, valueSize))
		}
		require.NoError(t, r.Close())
	}
}
