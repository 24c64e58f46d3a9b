package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// manySmallTables makes a database of n tables of a few kilobytes in the last level.
func manySmallTables(t *testing.T, fsys vfs.FS, n int) {
	t.Helper()
	o := testOptions(fsys)
	o.Tables.Size, o.Tables.Compression = 4<<10, db.NoCompression
	d := openTest(t, o)
	l := newLoader(t, d)
	value := make([]byte, 4<<10)
	for i := range n {
		require.NoError(t, l.Put(testKey(i), value))
	}
	require.NoError(t, l.Commit())
	require.GreaterOrEqual(t, d.Metrics().Levels[db.NumLevels-1].Tables, n)
	require.NoError(t, d.Close())
}

func TestManySmallTablesBecomeFewWithoutACall(t *testing.T) {
	const n = 4200
	fsys := vfs.NewMem()
	manySmallTables(t, fsys, n)
	o := testOptions(fsys)
	o.Tables.Size = 0
	ended := make(chan db.CompactionInfo, n)
	o.EventListener = &db.EventListener{CompactionEnd: func(i db.CompactionInfo) { ended <- i }}
	d := openTest(t, o)
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, it.Close()) }()
	info := <-ended
	require.NoError(t, info.Err)
	require.Equal(t, "many small tables", info.Reason)
	m := d.Metrics()
	for ; m.Compactions.TablesToMerge > 0 || len(m.Compactions.Running) > 0; m = d.Metrics() {
		time.Sleep(time.Millisecond)
	}
	require.Less(t, m.Total().Tables, 100)
	require.Equal(t, m.Total().Tables, m.Levels[db.NumLevels-1].Tables)
	got := 0
	for ok := it.First(); ok; ok = it.Next() { // what it reads was merged meanwhile
		require.Equal(t, testKey(got), it.Key())
		got++
	}
	require.Equal(t, n, got)
	for i := range n {
		requireValue(t, d, testKey(i), make([]byte, 4<<10))
	}
}

func TestSmallTablesAreNotMergedWhileCompactionsArePaused(t *testing.T) {
	fsys := vfs.NewMem()
	manySmallTables(t, fsys, 4200)
	o := testOptions(fsys)
	o.ReadOnly, o.Tables.Size = true, 0
	d := openTest(t, o)
	require.Positive(t, d.Metrics().Compactions.TablesToMerge)
	require.NoError(t, d.Close())

	o.ReadOnly = false
	d = openTest(t, o)
	resume, err := d.PauseCompactions(context.Background())
	require.NoError(t, err)
	left := d.Metrics().Compactions.TablesToMerge
	require.NoError(t, d.Put([]byte("k"), nil, db.NoSync))
	require.NoError(t, d.Flush())
	require.Equal(t, left, d.Metrics().Compactions.TablesToMerge)
	resume()
	require.NoError(t, d.Close(), "in the middle of the merges")
}
