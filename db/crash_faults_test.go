package db

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/order"
	"github.com/sievedb/sievedb/internal/test/crashtest/pagecache"
	"github.com/sievedb/sievedb/vfs"
)

// Each sync of a run fails in turn and leaves the unsynced pages as one of three kinds of file system
// does. Then the machine crashes, or the store is opened again without a crash, or it continues.
//
//make:gates
func TestAFailureOfEverySync(t *testing.T) {
	testSeeds(t, func(t *testing.T, seed uint64) {
		count := pagecache.New(pagecache.Clean, func(int, wrap.Op) error { return nil })
		r := newFaultRun(seed, 1)
		require.NoError(t, r.workload(count))
		total, step := count.Syncs(), 1
		require.Greater(t, total, 60)
		if sampled() {
			step = 5
		}
		var cases []syncCase
		for model := pagecache.Clean; model < pagecache.NumModels; model++ {
			for then := range numThens {
				for at := 0; at < total; at += step {
					cases = append(cases, syncCase{model: model, at: at, then: then, seed: seed})
				}
			}
		}
		require.NoError(t, runFaultCases(len(cases), 10, func(i int) error { return cases[i].run() }))
		t.Logf("seed %d: %d syncs, %d runs", seed, total, len(cases))
	})
}

// What happens after a sync has failed.
const (
	thenCrash = iota
	thenReopen
	thenContinue
	numThens
)

type syncCase struct {
	model pagecache.Model
	at    int
	then  int
	seed  uint64
	wrap  func(vfs.FS) vfs.FS // as in faultCase
}

func (c syncCase) run() error {
	var failed atomic.Pointer[wrap.Op]
	var over atomic.Bool // a run on a busy machine may have fewer syncs than were counted
	disk := pagecache.New(c.model, func(n int, op wrap.Op) error {
		if n != c.at || over.Load() {
			return nil
		}
		failed.Store(&op)
		return syscall.EIO
	})
	err := c.use(disk, &failed, func() { over.Store(true) })
	if err != nil {
		op := "none"
		if f := failed.Load(); f != nil {
			op = fmt.Sprintf("%v of %s", f.Kind, f.Name)
		}
		return fmt.Errorf("seed %d, pages %v, failed sync %d (%s), then %s: %w", c.seed, c.model, c.at, op,
			[]string{"crash", "reopen", "continue"}[c.then], err)
	}
	return nil
}

// use writes synced batches until the failure shows or all are written. After a failed sync of a log
// or the MANIFEST, no write may be accepted. over is called before the store is opened again.
func (c syncCase) use(disk *pagecache.FS, failed *atomic.Pointer[wrap.Op], over func()) error {
	var fsys vfs.FS = disk
	if c.wrap != nil {
		fsys = c.wrap(fsys)
	}
	checker := order.New(fsys)
	r := newFaultRun(c.seed, 1)
	d, err := Open("db", crashOptions(checker, 0))
	if err == nil {
		for range 120 {
			before := failed.Load()
			final := before != nil && finalFile(before.Name)
			if final && !c.awaitWriteError(d) {
				_ = d.Close()
				return fmt.Errorf("the failure does not end the writes")
			}
			if err := r.write(d, true); final && err == nil {
				_ = d.Close()
				return fmt.Errorf("a write was accepted after the failure")
			}
			if failed.Load() != nil && c.then != thenContinue {
				break
			}
		}
		if c.then == thenContinue {
			if err := r.readAll(d); err != nil {
				_ = d.Close()
				return err
			}
		}
	}
	if v := checker.Violations(); len(v) > 0 {
		return fmt.Errorf("order of operations: %s", strings.Join(v, "; "))
	}
	crashed := disk.Crash()
	if d != nil {
		_ = d.Close()
	}
	over()
	if c.then != thenReopen {
		return c.reopen(crashed, crashed.Crash, r)
	}
	return c.reopen(disk, disk.Crash, r)
}

// awaitWriteError waits until the store refuses writes and reports whether it does. The store notices
// a failed sync of the MANIFEST in the background, on a busy machine long after the sync. A store that
// ignores errors gets only a second.
func (c syncCase) awaitWriteError(d *DB) bool {
	patience := 2 * time.Minute
	if c.wrap != nil {
		patience = time.Second
	}
	for start := time.Now(); d.commit.Err() == nil; d.commit.Pause(time.Millisecond) {
		if time.Since(start) > patience {
			return false
		}
	}
	return true
}

// finalFile reports whether a failed sync of the file ends the writes.
func finalFile(name string) bool {
	kind, _, ok := base.ParseFileName(filepath.Base(name))
	return ok && (kind == base.FileLog || kind == base.FileManifest)
}

// reopen opens the remaining files, cuts the power, and opens them again. The second open must show
// what the first one showed.
func (c syncCase) reopen(fsys vfs.FS, crash func() *vfs.Mem, r *faultRun) error {
	r.readsMustWork = true
	var shown map[int]string
	for range 2 {
		d, err := Open("db", crashOptions(fsys, 0))
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		err = r.readAll(d)
		now := map[int]string{}
		for pair := range numFaultPairs {
			v, _ := d.Get(pairKey(pair, "a"))
			now[pair] = string(v)
			if err == nil && shown != nil && shown[pair] != now[pair] {
				err = fmt.Errorf("pair %d was %q at the first open, is %q after a crash", pair, shown[pair], now[pair])
			}
		}
		shown, fsys = now, crash()
		if cerr := d.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deafFS forwards operations and, if deaf returns true, reports success even for those that fail.
type deafFS struct {
	vfs.FS
	deaf func(kind wrap.OpKind, name string) bool
}

func (d deafFS) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	return deafFile{f, d, name}, err
}

type deafFile struct {
	vfs.File
	d    deafFS
	name string
}

func (f deafFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if f.d.deaf(wrap.OpWrite, f.name) {
		return len(p), nil
	}
	return n, err
}

func (f deafFile) Sync() error {
	err := f.File.Sync()
	if f.d.deaf(wrap.OpSync, f.name) {
		return nil
	}
	return err
}

// requireFound runs the n cases of one seed after another until one of them fails. Whether a case
// meets the planted fault depends on what the background does at that moment, so all cases of one
// seed may miss it.
func requireFound(t *testing.T, n int, run func(seed uint64, i int) error) {
	t.Helper()
	for seed := uint64(5); seed < 25; seed++ {
		if err := runFaultCases(n, 1, func(i int) error { return run(seed, i) }); err != nil {
			t.Log(strings.SplitN(err.Error(), "\n", 2)[0])
			return
		}
	}
	require.Fail(t, "the planted fault was not found")
}

// The fault cases and sync cases must find stores that ignore errors. Each of these ignores the
// errors of one kind of file.
func TestStoresThatIgnoreErrorsAreFound(t *testing.T) {
	matching := func(kind wrap.OpKind, ext string) func(wrap.OpKind, string) bool {
		return func(k wrap.OpKind, name string) bool { return k == kind && strings.Contains(filepath.Base(name), ext) }
	}
	for name, deaf := range map[string]func(wrap.OpKind, string) bool{
		"appends to logs":       matching(wrap.OpWrite, ".log"),
		"appends to tables":     matching(wrap.OpWrite, ".ldb"),
		"appends to a MANIFEST": matching(wrap.OpWrite, "MANIFEST"),
	} {
		t.Run(name, func(t *testing.T) {
			wrap := func(fsys vfs.FS) vfs.FS { return deafFS{fsys, deaf} }
			requireFound(t, 520, func(seed uint64, i int) error { // the last operations first, because their files still exist
				return faultCase{kind: faultKinds[2], at: uint64(519 - i), seed: seed, wrap: wrap}.run()
			})
		})
	}
	for name, deaf := range map[string]func(wrap.OpKind, string) bool{
		"syncs of logs":       matching(wrap.OpSync, ".log"),
		"syncs of tables":     matching(wrap.OpSync, ".ldb"),
		"syncs of a MANIFEST": matching(wrap.OpSync, "MANIFEST"),
	} {
		t.Run(name, func(t *testing.T) {
			wrap := func(fsys vfs.FS) vfs.FS { return deafFS{fsys, deaf} }
			requireFound(t, 250, func(seed uint64, i int) error {
				return syncCase{model: pagecache.Clean, at: i, then: thenContinue, seed: seed, wrap: wrap}.run()
			})
		})
	}
}
