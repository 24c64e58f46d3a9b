package compact_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// These tests look at compactions through a store.

// options returns those of storetest without compression, so that sizes follow from the entries.
func options(fs vfs.FS) *db.Options {
	o := storetest.Options(fs)
	o.Tables.Compression = db.NoCompression
	return o
}

// tableCount counts the tables that are being written.
type tableCount struct{ open, most atomic.Int64 }

func (c *tableCount) hook(op wrap.Op) *wrap.Fault {
	if filepath.Ext(op.Name) != ".ldb" {
		return nil
	}
	switch op.Kind {
	case wrap.OpCreate:
		n := c.open.Add(1)
		for m := c.most.Load(); n > m && !c.most.CompareAndSwap(m, n); m = c.most.Load() {
		}
	case wrap.OpWrite:
		runtime.Gosched() // so that other goroutines run in between
	case wrap.OpSync: // the merge into this table is over
		c.open.Add(-1)
	}
	return nil
}

// Whatever compactions, calls of Compact and pieces coincide, at most as many tables are written at
// a time as there are slots, and one more by a flush.
func TestMergesUseNoMoreThanTheirSlots(t *testing.T) {
	const slots = 3
	var c tableCount
	o := options(wrap.NewFaulty(vfs.NewMem(), c.hook))
	o.Tables.Size, o.Compaction.MaxConcurrent = 4<<10, slots
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 2, 1000, 2000
	d := storetest.Open(t, o)
	done := make(chan error)
	for i := range 3 {
		go func() { done <- writeAndCompact(d, rand.New(rand.NewPCG(7, uint64(i)))) }()
	}
	for range 3 {
		require.NoError(t, <-done)
	}
	require.NoError(t, d.Flush())
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.LessOrEqual(t, c.most.Load(), int64(slots+1))
	m := d.Metrics()
	t.Logf("%d compactions in %d pieces, at most %d tables at a time",
		m.Compactions.Count, m.Compactions.Subcompactions, c.most.Load())
	require.Greater(t, m.Compactions.Subcompactions, m.Compactions.Count)
}

func writeAndCompact(d *db.DB, rnd *rand.Rand) error {
	for n := range 3000 {
		k := rnd.IntN(3000)
		err := d.Put(fixture.Key(k), fixture.Value(k), db.NoSync)
		if err == nil && n%500 == 0 {
			err = d.Compact(context.Background(), fixture.Key(k), fixture.Key(k+1000))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Each slot is used by a piece that waits for its disk. A flush waits for none of them.
func TestPiecesAreMergedConcurrentlyAndAFlushWaitsForNone(t *testing.T) {
	var closed atomic.Bool
	arrived, proceed := make(chan struct{}, 100), make(chan struct{})
	o := options(wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpCreate && filepath.Ext(op.Name) == ".ldb" && closed.Load() {
			arrived <- struct{}{}
			<-proceed
		}
		return nil
	}))
	o.Tables.Size, o.Compaction.MaxConcurrent = 4<<10, 3
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 1000, 1000, 2000
	d := storetest.Open(t, o)
	for range 2 {
		storetest.Fill(t, d, 0, 2000)
		require.NoError(t, d.Flush())
	}
	closed.Store(true)
	done := make(chan error)
	go func() { done <- d.Compact(context.Background(), nil, nil) }()
	for range 3 {
		<-arrived
	}
	closed.Store(false) // the blocked pieces stay blocked
	storetest.Fill(t, d, 5000, 5100)
	require.NoError(t, d.Flush())
	require.Zero(t, d.Metrics().Compactions.Count)
	close(proceed)
	require.NoError(t, <-done)
	require.GreaterOrEqual(t, d.Metrics().Compactions.Subcompactions, d.Metrics().Compactions.Count+2)
	for k := range 2000 {
		storetest.RequireValue(t, d, fixture.Key(k), fixture.Value(k))
	}
}

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }
