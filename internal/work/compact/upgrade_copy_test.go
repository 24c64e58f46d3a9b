package compact_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/cuts"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// sideBySide returns a file system in which, after begin, no table is written to before two of them are created.
func sideBySide(t *testing.T, fsys vfs.FS) (gated vfs.FS, begin func()) {
	var begun atomic.Bool
	var created atomic.Int64
	two := make(chan struct{})
	gated = wrap.NewFaulty(fsys, func(op wrap.Op) *wrap.Fault {
		if !begun.Load() || filepath.Ext(op.Name) != ".ldb" {
			return nil
		}
		switch op.Kind {
		case wrap.OpCreate:
			if created.Add(1) == 2 {
				close(two)
			}
		case wrap.OpWrite:
			select {
			case <-two:
			case <-time.After(time.Minute):
				t.Error("no second table was created next to the first")
			}
		}
		return nil
	})
	return gated, func() { begun.Store(true) }
}

// smallTables returns options of a store of many small tables with small filters, which compacts only on request.
func smallTables(fsys vfs.FS) *db.Options {
	return &db.Options{
		FS: fsys, Memtables: db.MemtableOptions{Size: 4 << 10}, Tables: db.TableOptions{Size: 4 << 10, BlockSize: 512, Compression: db.NoCompression},
		Compaction: db.CompactionOptions{MaxLevelBase: 16 << 10, L0Trigger: 100},
		Cache:      db.CacheOptions{Size: 64 << 10, MaxOpenFiles: 20}, Filters: db.FilterOptions{Policy: filter.NewBloomPolicy(4)},
	}
}

// longValue returns values of which some hundred fill more tables than one step has.
func longValue(i int) []byte { return append(fixture.Value(i), make([]byte, 1100)...) }

// twiceFilled returns a store with tables of the same keys in level 0
// and on a level below.
func twiceFilled(t *testing.T, fsys vfs.FS, keys int) *db.DB {
	d, err := db.Open("db", smallTables(fsys)) // an order checker would hide the files' ShareFrom
	require.NoError(t, err)
	for i := range keys {
		require.NoError(t, d.Put(fixture.Key(i), longValue(i), db.NoSync))
	}
	require.NoError(t, d.Compact(context.Background(), nil, nil))
	for i := 0; i < keys; i += 2 {
		require.NoError(t, d.Put(fixture.Key(i), []byte("newer"), db.NoSync))
		if i%(keys/4) == keys/4-2 {
			require.NoError(t, d.Flush())
		}
	}
	return d
}

func checkTwiceFilled(d *db.DB, keys int) error {
	for i := range keys {
		want := longValue(i)
		if i%2 == 0 {
			want = []byte("newer")
		}
		if got, err := d.Get(fixture.Key(i)); err != nil || !bytes.Equal(got, want) {
			return errors.Join(fmt.Errorf("key %d is %q, want %q", i, got, want), err)
		}
	}
	return nil
}

// sharingFS is a file system whose files share bytes with others, in units of 64.
type sharingFS struct {
	vfs.FS
	shared atomic.Int64 // bytes
}

type sharingFile struct {
	vfs.File
	fs *sharingFS
}

func (s *sharingFS) Create(name string) (vfs.File, error) {
	f, err := s.FS.Create(name)
	return &sharingFile{f, s}, err
}

// ShareFrom is a write for the file systems below, so the shared bytes are durable after Sync.
func (f *sharingFile) ShareFrom(src vfs.File, n int64) (int64, error) {
	data := make([]byte, n/64*64)
	if _, err := src.ReadAt(data, 0); err != nil {
		return 0, err
	}
	_, err := f.Write(data)
	f.fs.shared.Add(int64(len(data)))
	return int64(len(data)), err
}

// The power fails at every operation of an upgrade that copies tables concurrently. No key is lost
// or has an old value, and the next upgrade continues from there.
func TestCrashAtEveryOperationOfConcurrentTableCopies(t *testing.T) {
	t.Run("copied", func(t *testing.T) {
		r := recorder.New(recorder.Image{})
		gated, begin := sideBySide(t, r)
		crashSideBySide(t, r, gated, begin)
	})
	t.Run("shared", func(t *testing.T) {
		r := recorder.New(recorder.Image{})
		gated, begin := sideBySide(t, r)
		sharing := &sharingFS{FS: gated}
		crashSideBySide(t, r, sharing, begin)
		require.Positive(t, sharing.shared.Load())
	})
}

// crashSideBySide upgrades a store on fsys, which writes to r, and judges the files after each cut.
func crashSideBySide(t *testing.T, r *recorder.FS, fsys vfs.FS, begin func()) {
	const keys = 80
	d := twiceFilled(t, fsys, keys)
	shape := shapeOfLevels(t, d)
	require.Greater(t, len(shape[0]), 3)
	from := len(r.Trace().Ops)
	begin()
	steps := 0
	report, err := d.UpgradeFilters(context.Background(), filter.NewBloomPolicy(20),
		&db.UpgradeOptions{Progress: func(db.UpgradeReport) { steps++ }})
	require.NoError(t, err)
	require.GreaterOrEqual(t, steps, 3, "level 0, and two steps below")
	require.Equal(t, report.Tables, report.Upgraded)
	require.Equal(t, shape, shapeOfLevels(t, d))
	require.NoError(t, d.Close())

	var again, upgraded atomic.Int64
	judge := func(s recorder.State, cut int, m recorder.Model) error {
		if cut < from {
			return nil
		}
		mem := s.Image.Mem()
		o := smallTables(mem)
		o.Filters.Policy = filter.NewBloomPolicy(20)
		d, err := db.Open("db", o)
		if err != nil {
			if m == recorder.M4 && errors.Is(err, db.ErrCorruption) {
				return nil
			}
			return err
		}
		err = checkTwiceFilled(d, keys)
		if cut%3 != 0 { // the second upgrade takes as long again
			return errors.Join(err, storetest.StrayFilesWhenIdle(d, mem), d.Close())
		}
		if r, uerr := d.UpgradeFilters(context.Background(), nil, nil); uerr != nil || r.Damaged > 0 {
			err = errors.Join(err, fmt.Errorf("upgraded again: %+v: %w", r, uerr))
		} else if again.Add(1); r.Current > 0 {
			upgraded.Add(1)
		}
		return errors.Join(err, checkTwiceFilled(d, keys), storetest.StrayFilesWhenIdle(d, mem), d.Close())
	}
	limit := 0
	if race.Sampled() {
		limit = 200
	}
	n, err := cuts.EachState(r.Trace(), cuts.Models(t), 1, limit, judge)
	cuts.RequireNoFailure(t, err)
	require.Less(t, upgraded.Load(), again.Load(), "cuts before the first edit")
	require.Positive(t, upgraded.Load(), "cuts after it")
	t.Logf("%d tables, %d states, in %d of them some tables were upgraded", report.Tables, n, upgraded.Load())
}
