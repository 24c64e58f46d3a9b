package db_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/vfs"
)

// limitedStore returns a store with 4 MB of random entries in two levels, before any limit.
func limitedStore(t *testing.T) *db.DB {
	o := testOptions(vfs.NewMem())
	o.Memtables.Size, o.Tables.Size, o.Cache.Size = 64<<10, 64<<10, -1
	o.Tables.Compression = db.NoCompression
	d := openTest(t, o)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 4000 {
		value := make([]byte, 1000)
		for j := range value {
			value[j] = byte(rnd.Uint32())
		}
		require.NoError(t, d.Put(fmt.Appendf(nil, "key%06d", (i*7919)%4000), value, db.NoSync))
	}
	require.NoError(t, d.Flush())
	settle(t, d)
	return d
}

// moved returns the bytes that compactions have read and written.
func moved(d *db.DB) uint64 {
	m := d.Metrics().Compactions
	return m.BytesRead + m.BytesWritten
}

// The time of a compaction follows from its bytes and the limit, by the clock of a bubble.
func TestCompactionsKeepTheirLimit(t *testing.T) {
	const limit = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		for _, concurrent := range []int{1, 4} {
			d := limitedStore(t)
			tune(t, d, func(o *db.Options) {
				o.Compaction.MaxBytesPerSecond, o.Compaction.MaxConcurrent = limit, concurrent
			})
			before, start := moved(d), time.Now()
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			bytes := moved(d) - before
			require.Greater(t, bytes, uint64(7<<20))
			seconds := time.Since(start).Seconds()
			require.InEpsilon(t, float64(bytes)/limit, seconds, 0.15, "%d at a time", concurrent)

			before, start = moved(d), time.Now()
			tune(t, d, func(o *db.Options) { o.Compaction.MaxBytesPerSecond = 0 })
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			require.Greater(t, moved(d)-before, uint64(7<<20))
			require.Zero(t, time.Since(start), "without a limit no time passes in the bubble")
		}
	})
}

// A limit that changes, and Close, count for a compaction that waits for the old one.
func TestANewLimitEndsTheWaitForTheOldOne(t *testing.T) {
	for name, end := range map[string]func(d *db.DB){
		"SetOptions": func(d *db.DB) { tune(t, d, func(o *db.Options) { o.Compaction.MaxBytesPerSecond = 0 }) },
		"Close":      func(d *db.DB) { require.NoError(t, d.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := limitedStore(t)
				tune(t, d, func(o *db.Options) { o.Compaction.MaxBytesPerSecond = 1 })
				var returned atomic.Bool
				go func() { _ = d.Compact(t.Context(), nil, nil); returned.Store(true) }()
				time.Sleep(time.Hour)
				require.False(t, returned.Load())
				end(d)
				time.Sleep(time.Second)
				require.True(t, returned.Load())
			})
		})
	}
}

// The bug: each SetOptions ended the wait.
func TestOtherOptionsDoNotEndTheWaitForTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := limitedStore(t)
		tune(t, d, func(o *db.Options) { o.Compaction.MaxBytesPerSecond = 64 << 10 })
		before, began := moved(d), time.Now()
		var done atomic.Bool
		go func() { require.NoError(t, d.Compact(t.Context(), nil, nil)); done.Store(true) }()
		for size := int64(1); !done.Load(); size++ {
			time.Sleep(10 * time.Millisecond)
			tune(t, d, func(o *db.Options) { o.Cache.Size = 1<<20 + size })
		}
		require.Less(t, float64(moved(d)-before), 1.5*(64<<10)*time.Since(began).Seconds())
	})
}

// Compact returns when its context is done, also in the middle of a merge, which then changes nothing.
func TestCompactEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := limitedStore(t)
		defer mustPause(t, d)()
		tune(t, d, func(o *db.Options) { o.Compaction.MaxBytesPerSecond = 1 << 10 })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.Equal(t, context.DeadlineExceeded, d.Compact(ctx, nil, nil))
		require.Less(t, time.Since(began), 2*time.Second)
		require.NoError(t, d.Metrics().BackgroundError)
		synctest.Wait()
		usage, err := d.DiskUsage()
		require.NoError(t, err)
		require.Zero(t, usage.UnlistedTables, "what it had written is removed")
		tune(t, d, func(o *db.Options) { o.Compaction.MaxBytesPerSecond = 0 })
		require.NoError(t, d.Compact(t.Context(), nil, nil))
		requireNoFaults(t, d)
	})
}

// However small the limit is, it makes writers wait for a tenth of a second at most.
func TestTheLimitOfCompactionsDoesNotStopWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(vfs.NewMem())
		o.Compaction.MaxBytesPerSecond = 1
		o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 2, 4, 8
		d := openTest(t, o)
		start := time.Now()
		for range 100 {
			fill(t, d, 0, 100)
			require.NoError(t, d.Flush())
		}
		// Compactions of 100 rounds would take days within the limit.
		require.Less(t, time.Since(start), time.Minute)
		require.LessOrEqual(t, d.Metrics().Stalls.ByReason["level 0 is full"].Longest, time.Second/10)
		require.Greater(t, d.Metrics().Compactions.Count, uint64(10))
	})
}

// The copies that an upgrade of filters makes are within the limit too.
func TestUpgradesKeepTheLimitOfCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := limitedStore(t)
		require.NoError(t, d.Compact(t.Context(), nil, nil))
		tune(t, d, func(o *db.Options) { o.Compaction.MaxBytesPerSecond = 1 << 20 })
		start := time.Now()
		report, err := d.UpgradeFilters(t.Context(), filter.FusePolicy{}, nil)
		require.NoError(t, err)
		require.Greater(t, report.Bytes, uint64(3<<20))
		require.InEpsilon(t, 2*float64(report.Bytes)/(1<<20), time.Since(start).Seconds(), 0.2)
	})
}
