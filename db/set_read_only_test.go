package db_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// Close synced the log and wrote the MANIFEST and CLOSED, and compactions went on.
func TestNothingIsWrittenAfterSetReadOnly(t *testing.T) {
	mem := vfs.NewMem()
	var ended atomic.Bool
	var once sync.Once
	writes := []wrap.OpKind{wrap.OpCreate, wrap.OpRemove, wrap.OpRename, wrap.OpLink, wrap.OpMkdirAll, wrap.OpSyncDir, wrap.OpWrite, wrap.OpSync}
	compacting, proceed := make(chan struct{}), make(chan struct{})
	o := testOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if ended.Load() && slices.Contains(writes, op.Kind) {
			t.Errorf("%s of %s after SetReadOnly", op.Kind, op.Name)
		}
		return nil
	}))
	o.Compaction.Filter = func(_, value []byte) ([]byte, bool) {
		once.Do(func() { close(compacting); <-proceed })
		return value, true
	}
	d := mustOpen(t, o)
	fill(t, d, 0, 500)
	require.NoError(t, d.Flush())
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	loader, err := d.NewLoader()
	require.NoError(t, err)
	require.NoError(t, loader.Put([]byte("z"), nil))
	compacted := make(chan error, 1)
	go func() { compacted <- d.Compact(background, nil, nil) }()
	<-compacting
	require.NoError(t, d.Put([]byte("last"), []byte("1"), db.NoSync))
	returned := make(chan error, 1)
	go func() {
		err := d.SetReadOnly()
		ended.Store(true)
		returned <- err
	}()
	<-d.Committer().Ending()
	close(proceed)
	require.ErrorContains(t, <-returned, "made read-only during a load")
	require.ErrorIs(t, <-compacted, db.ErrReadOnly)

	require.NoError(t, d.SetReadOnly())
	requireValue(t, d, []byte("last"), []byte("1"))
	requireValue(t, d, testKey(7), testValue(7))
	require.True(t, it.First())
	requireReadOnly(t, d)
	require.ErrorIs(t, loader.Put([]byte("zz"), nil), db.ErrReadOnly)
	_, err = d.Checkpoint(background, "/copy", nil)
	require.ErrorIs(t, err, db.ErrReadOnly)
	require.NoError(t, d.Metrics().BackgroundError)
	require.NoError(t, it.Close())
	require.NoError(t, d.Close())
	require.ErrorIs(t, d.SetReadOnly(), db.ErrClosed)

	d = openTest(t, testOptions(mem))
	require.Empty(t, d.OpenReport().Losses)
	requireValue(t, d, []byte("last"), []byte("1"))
	requireValue(t, d, testKey(499), testValue(499))
}

// requireReadOnly requires that all calls that write are refused.
func requireReadOnly(t *testing.T, d *db.DB) {
	t.Helper()
	for name, err := range map[string]error{
		"Put": d.Put([]byte("k"), nil, nil), "Put without sync": d.Put([]byte("k"), nil, db.NoSync),
		"a large Put": d.Put([]byte("k"), make([]byte, 2<<20), nil), "SyncLog": d.SyncLog(), "Flush": d.Flush(),
		"Compact": d.Compact(background, nil, nil), "DeleteRange": d.DeleteRange(background, nil, nil, nil),
		"Update":      d.Update(func(tx *db.Transaction) error { return tx.Put([]byte("k"), nil) }),
		"Apply":       d.Apply(new(db.Batch), db.Sync),
		"Delete":      d.Delete([]byte("k"), nil),
		"a commit":    func() error { _, err := d.NewLoader(); return err }(),
		"pause":       func() error { _, err := d.PauseCompactions(background); return err }(),
		"filters":     func() error { _, err := d.UpgradeFilters(background, nil, nil); return err }(),
		"ingest":      func() error { _, err := d.Ingest(background, []string{"a"}, nil); return err }(),
		"transaction": func() error { _, err := d.NewBulkTransaction(); return err }(),
	} {
		require.ErrorIs(t, err, db.ErrReadOnly, name)
	}
}

// Many writers and SetReadOnly at once: what was acknowledged survives a power cut, the rest is refused.
func TestSetReadOnlyAmongWritersKeepsWhatWasAcknowledged(t *testing.T) {
	mem := vfs.NewMem()
	d := mustOpen(t, testOptions(mem))
	var wg sync.WaitGroup
	var counts [4]int
	begun := make(chan struct{}, len(counts))
	for w := range counts {
		wg.Go(func() {
			for i := 0; ; i++ {
				err := d.Put(testKey(1000*w+i%1000), testValue(i), db.NoSync)
				if err != nil {
					require.ErrorIs(t, err, db.ErrReadOnly)
					return
				}
				if counts[w]++; i == 0 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range counts {
		<-begun
	}
	require.NoError(t, d.SetReadOnly())
	wg.Wait()
	copied := mem.Crash()
	require.NoError(t, d.Close())
	d = openTest(t, testOptions(copied))
	for w, n := range counts {
		requireValue(t, d, testKey(1000*w+(n-1)%1000), testValue(n-1))
	}
}
