package compact_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// manySmallTables makes a database of n tables of a few kilobytes in the last level.
func manySmallTables(t *testing.T, fsys vfs.FS, n int) {
	t.Helper()
	o := storetest.Options(fsys)
	o.Tables.Size, o.Tables.Compression = 4<<10, db.NoCompression
	d := storetest.Open(t, o)
	l := storetest.NewLoader(t, d)
	value := make([]byte, 4<<10)
	for i := range n {
		require.NoError(t, l.Put(fixture.Key(i), value))
	}
	require.NoError(t, l.Commit())
	require.GreaterOrEqual(t, d.Metrics().Levels[db.NumLevels-1].Tables, n)
	require.NoError(t, d.Close())
}

func TestManySmallTablesBecomeFewWithoutACall(t *testing.T) {
	const n = 4200
	fsys := vfs.NewMem()
	manySmallTables(t, fsys, n)
	o := storetest.Options(fsys)
	o.Tables.Size = 0
	ended := make(chan db.CompactionInfo, n)
	o.EventListener = &db.EventListener{CompactionEnd: func(i db.CompactionInfo) { ended <- i }}
	d := storetest.Open(t, o)
	it := storetest.Iter(t, d, nil)
	defer func() { require.NoError(t, it.Close()) }()
	info := <-ended
	require.NoError(t, info.Err)
	require.Equal(t, "many small tables", info.Reason)
	fixture.Eventually(t, func() bool {
		m := d.Metrics().Compactions
		return m.TablesToMerge == 0 && len(m.Running) == 0
	})
	m := d.Metrics()
	require.Less(t, m.Total().Tables, 100)
	require.Equal(t, m.Total().Tables, m.Levels[db.NumLevels-1].Tables)
	got := 0
	for ok := it.First(); ok; ok = it.Next() { // what it reads was merged meanwhile
		require.Equal(t, fixture.Key(got), it.Key())
		got++
	}
	require.Equal(t, n, got)
	for i := range n {
		storetest.RequireValue(t, d, fixture.Key(i), make([]byte, 4<<10))
	}
}

func TestSmallTablesAreNotMergedWhileCompactionsArePaused(t *testing.T) {
	fsys := vfs.NewMem()
	manySmallTables(t, fsys, 4200)
	o := storetest.Options(fsys)
	o.ReadOnly, o.Tables.Size = true, 0
	d := storetest.Open(t, o)
	require.Positive(t, d.Metrics().Compactions.TablesToMerge)
	require.NoError(t, d.Close())

	o.ReadOnly = false
	d = storetest.Open(t, o)
	resume, err := d.PauseCompactions(context.Background())
	require.NoError(t, err)
	left := d.Metrics().Compactions.TablesToMerge
	require.NoError(t, d.Put([]byte("k"), nil, db.NoSync))
	require.NoError(t, d.Flush())
	require.Equal(t, left, d.Metrics().Compactions.TablesToMerge)
	resume()
	require.NoError(t, d.Close(), "in the middle of the merges")
}

// The bug: Close stopped the compaction that the opening had begun, so a program that was run for one write each time
// left a table with each run, and in the end had hundreds.
func TestProgramsThatRunForOneWriteLeaveFewFiles(t *testing.T) {
	for _, keys := range []int{1, 10, 1000} {
		o := &db.Options{FS: vfs.NewMem(), Changes: db.ChangeRetention{Bytes: 1}}
		for n := range 40 {
			d := storetest.MustOpen(t, o)
			storetest.PutAll(t, d, fmt.Sprint("key", n%keys), fmt.Sprint(n))
			require.NoError(t, d.Close())
		}
		names, err := o.FS.List("db")
		require.NoError(t, err)
		require.LessOrEqual(t, len(names), 13, "five tables, a log, MANIFEST, CURRENT, LOCK, CLOSED, changes: %q", names)
		d := storetest.MustOpen(t, o)
		for n := 40 - min(keys, 40); n < 40; n++ {
			storetest.RequireValue(t, d, []byte(fmt.Sprint("key", n%keys)), []byte(fmt.Sprint(n)))
		}
		require.LessOrEqual(t, d.Metrics().Total().Tables, 6, "%d keys", keys)
		require.NoError(t, d.Close())
	}
}
