package db_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// The clock stands still, so the burst never ends by itself. The script flushes-end-bursts has a flush of something.
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
