package db_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// The clock stands still, so a burst of writes never ends by itself.

func TestFlushEndsABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(vfs.NewMem())
		o.Memtables.Size = 16 << 10
		d := openTest(t, o)
		for i := 0; d.Metrics().Flushes.Count < 5; i++ {
			require.NoError(t, d.Put(testKey(i%50), testValue(i), db.NoSync)) // tables of the same range
			synctest.Wait()
		}
		require.Equal(t, 5, d.Metrics().Levels[0].Tables)
		require.NoError(t, d.Flush())
		synctest.Wait()
		m := d.Metrics()
		require.Zero(t, m.Levels[0].Tables, "the compaction has waited for the flushed table")
		require.EqualValues(t, 1, m.Compactions.Count)
	})
}

func TestFlushOfNothingEndsABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openTest(t, testOptions(vfs.NewMem()))
		release := d.Scheduler().Hold()
		for i := range 5 {
			require.NoError(t, d.Put(testKey(1), testValue(i), db.NoSync))
			require.NoError(t, d.Flush())
		}
		d.Scheduler().BeginBurst()
		release()
		require.NoError(t, d.Flush())
		synctest.Wait()
		require.Zero(t, d.Metrics().Levels[0].Tables)
	})
}
