package db

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/internal/work/compact"
	"github.com/sievedb/sievedb/vfs"
)

// sideBySide returns a file system in which, after begin, no table is written to before two of them
// are created.
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

// stepByStep returns a file system in which, after begin, the second sync of a directory, which is
// that of the first step below level 0, waits until a table of the next step is created, unless one
// already is.
func stepByStep(t *testing.T, fsys vfs.FS) (gated vfs.FS, begin func(*DB)) {
	var begun atomic.Bool
	var synced, before atomic.Int64 // tables of level 0 and of the first step below it
	next := make(chan struct{})
	gated = wrap.NewFaulty(fsys, func(op wrap.Op) *wrap.Fault {
		switch {
		case !begun.Load():
		case op.Kind == wrap.OpCreate && filepath.Ext(op.Name) == ".ldb" && before.Add(-1) == -1:
			close(next)
		case op.Kind == wrap.OpSyncDir && synced.Add(1) == 2:
			select {
			case <-next:
			case <-time.After(time.Minute):
				t.Error("no other step began while one was being placed")
			}
		}
		return nil
	})
	return gated, func(d *DB) {
		before.Store(int64(tablesOfSteps(t, d)))
		begun.Store(true)
	}
}

// tablesOfSteps returns how many tables the first upgrade steps of all levels have together. It
// requires more tables than that, which make another step.
func tablesOfSteps(t *testing.T, d *DB) (tables int) {
	waitUntilIdle(d) // the last flush may still be running
	v := d.state().Version
	for level := range v.Levels {
		if level == 0 { // level 0 is one step
			tables += len(v.Levels[0].Files)
			continue
		}
		step, looked := int64(0), int64(0)
		for _, f := range v.Levels[level].Files {
			if step == 0 || step+int64(f.Size) <= compact.UpgradeStepTables*d.opts.Tables.Size {
				step += int64(f.Size)
				tables++
			}
			if looked += int64(f.Size); looked > compact.UpgradeStepTables*d.opts.Tables.Size {
				break
			}
		}
	}
	require.Less(t, tables, v.NumFiles())
	return tables
}

// smallTables returns options of a store of many small tables with small filters, which compacts
// only on request.
func smallTables(fsys vfs.FS) *Options {
	o := crashOptions(fsys, 0)
	o.Compaction.L0Trigger, o.Filters.Policy = 100, filter.NewBloomPolicy(4)
	o.Tables.Compression, o.Limits.ManifestSize = NoCompression, 1<<20
	return o
}

// longValue returns values of which some hundred fill more tables than one step has.
func longValue(i int) []byte { return append(testValue(i), make([]byte, 1100)...) }

// twiceFilled returns a store with tables of the same keys in level 0
// and on a level below.
func twiceFilled(t *testing.T, fsys vfs.FS, keys int) *DB {
	d, err := Open("db", smallTables(fsys)) // an order checker would hide the files' ShareFrom
	require.NoError(t, err)
	for i := range keys {
		require.NoError(t, d.Put(testKey(i), longValue(i), NoSync))
	}
	require.NoError(t, d.Compact(background, nil, nil))
	for i := 0; i < keys; i += 2 {
		require.NoError(t, d.Put(testKey(i), []byte("newer"), NoSync))
		if i%(keys/4) == keys/4-2 {
			require.NoError(t, d.Flush())
		}
	}
	return d
}

func checkTwiceFilled(d *DB, keys int) error {
	for i := range keys {
		want := longValue(i)
		if i%2 == 0 {
			want = []byte("newer")
		}
		if got, err := d.Get(testKey(i)); err != nil || !bytes.Equal(got, want) {
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
		crashSideBySide(t, r, gated, func(*DB) { begin() })
	})
	t.Run("one step while another is placed", func(t *testing.T) {
		r := recorder.New(recorder.Image{})
		gated, begin := stepByStep(t, r)
		crashSideBySide(t, r, gated, begin)
	})
	t.Run("shared", func(t *testing.T) {
		r := recorder.New(recorder.Image{})
		gated, begin := sideBySide(t, r)
		sharing := &sharingFS{FS: gated}
		crashSideBySide(t, r, sharing, func(*DB) { begin() })
		require.Positive(t, sharing.shared.Load())
	})
}

// crashSideBySide upgrades a store on fsys, which writes to r, and judges the files after each cut.
func crashSideBySide(t *testing.T, r *recorder.FS, fsys vfs.FS, begin func(*DB)) {
	const keys = 80
	d := twiceFilled(t, fsys, keys)
	shape := shapeOfLevels(d)
	require.Greater(t, len(shape[0]), 3)
	from := len(r.Trace().Ops)
	begin(d)
	report, err := d.UpgradeFilters(background, filter.NewBloomPolicy(20), nil)
	require.NoError(t, err)
	require.Equal(t, report.Tables, report.Upgraded)
	require.Equal(t, shape, shapeOfLevels(d))
	require.NoError(t, d.Close())

	var again, upgraded atomic.Int64
	judge := func(s recorder.State, cut int, m recorder.Model) error {
		if cut < from {
			return nil
		}
		mem := s.Image.Mem()
		o := smallTables(mem)
		o.Filters.Policy = filter.NewBloomPolicy(20)
		d, err := Open("db", o)
		if err != nil {
			if m == recorder.M4 && errors.Is(err, ErrCorruption) {
				return nil
			}
			return err
		}
		err = checkTwiceFilled(d, keys)
		if cut%3 != 0 { // the second upgrade takes as long again
			return errors.Join(err, strayFilesWhenIdle(d, mem), d.Close())
		}
		if r, uerr := d.UpgradeFilters(background, nil, nil); uerr != nil || r.Damaged > 0 {
			err = errors.Join(err, fmt.Errorf("upgraded again: %+v: %w", r, uerr))
		} else if again.Add(1); r.Current > 0 {
			upgraded.Add(1)
		}
		return errors.Join(err, checkTwiceFilled(d, keys), strayFilesWhenIdle(d, mem), d.Close())
	}
	limit := 0
	if sampled() {
		limit = 200
	}
	n, err := eachState(r.Trace(), crashModels(t), 1, limit, judge)
	requireNoFailure(t, err)
	require.Less(t, upgraded.Load(), again.Load(), "cuts before the first edit")
	require.Positive(t, upgraded.Load(), "cuts after it")
	t.Logf("%d tables, %d states, in %d of them some tables were upgraded", report.Tables, n, upgraded.Load())
}

// A copy that fails ends the concurrent ones, and no copy remains.
func TestACopyThatFailsEndsTheOthers(t *testing.T) {
	failed := errors.New("injected")
	mem := vfs.NewMem()
	var failing atomic.Bool
	gated, begin := sideBySide(t, mem)
	fsys := wrap.NewFaulty(gated, func(op wrap.Op) *wrap.Fault {
		if filepath.Ext(op.Name) == ".ldb" && op.Kind == wrap.OpWrite && failing.CompareAndSwap(true, false) {
			return &wrap.Fault{Err: failed}
		}
		return nil
	})
	const keys = 80
	d := twiceFilled(t, fsys, keys)
	defer func() { require.NoError(t, d.Close()) }()
	begin()
	failing.Store(true)
	r, err := d.UpgradeFilters(background, filter.NewBloomPolicy(20), nil)
	require.ErrorIs(t, err, failed)
	require.Zero(t, r.Upgraded)
	require.NoError(t, strayFilesWhenIdle(d, mem))
	require.NoError(t, checkTwiceFilled(d, keys))
}
