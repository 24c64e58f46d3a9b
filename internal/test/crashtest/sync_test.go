package crashtest

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/cuts"
	"github.com/sievedb/sievedb/internal/test/crashtest/order"
	"github.com/sievedb/sievedb/internal/test/crashtest/pagecache"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/vfs"
)

// Each sync of a run fails in turn and leaves the unsynced pages as one of three kinds of file system does. Then the
// machine crashes, or the store is opened again without a crash, every other time after the syncs of Close have failed
// too, or it continues; if a log failed, also after a flush, with further writes.
//
//make:gates
func TestAFailureOfEverySync(t *testing.T) {
	cuts.Seeds(t, func(t *testing.T, seed uint64) {
		count := pagecache.New(pagecache.Clean, func(int, wrap.Op) error { return nil })
		r := newFaultRun(seed, 1)
		require.NoError(t, r.workload(fixture.LogsOf(seed, count)))
		total, step := count.Syncs(), 1
		require.Greater(t, total, 60)
		if race.Sampled() {
			step = 13
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
	thenFlush
	numThens
)

type syncCase struct {
	model pagecache.Model
	at    int
	then  int
	seed  uint64
}

func (c syncCase) run() error {
	var failed atomic.Pointer[wrap.Op]
	var over atomic.Bool // a run on a busy machine may have fewer syncs than were counted
	disk := pagecache.New(c.model, func(n int, op wrap.Op) error {
		unsaved := c.then == thenReopen && c.at%2 == 0 && n > c.at // Close cannot save what the log lacks
		if n != c.at && !unsaved || over.Load() {
			return nil
		}
		failed.CompareAndSwap(nil, &op)
		return syscall.EIO
	})
	err := c.use(disk, &failed, func() { over.Store(true) })
	if err != nil {
		op := "none"
		if f := failed.Load(); f != nil {
			op = fmt.Sprintf("%v of %s", f.Kind, f.Name)
		}
		return fmt.Errorf("seed %d, pages %v, failed sync %d (%s), then %s: %w", c.seed, c.model, c.at, op,
			[]string{"crash", "reopen", "continue", "flush"}[c.then], err)
	}
	return nil
}

// use writes synced batches until the failure shows or all are written. After a failed sync of a log
// or the MANIFEST, no write may be accepted, for a log until a flush. over is called before the store is opened again.
func (c syncCase) use(disk *pagecache.FS, failed *atomic.Pointer[wrap.Op], over func()) error {
	checker := order.New(fixture.LogsOf(c.seed, disk))
	r := newFaultRun(c.seed, 1)
	d, err := db.Open("db", crashOptions(checker, 0))
	if err == nil {
		flushed := false
		for range 120 {
			before := failed.Load()
			final := before != nil && finalFile(before.Name) && !neverInForce(checker, before.Name) && !flushed
			if final && !awaitWriteError(d) {
				_ = d.Close()
				return fmt.Errorf("the failure does not end the writes")
			}
			if final && c.then == thenFlush {
				flushed = strings.HasSuffix(before.Name, ".log")
				final = !flushed
				if err := d.Flush(); (err == nil) != flushed {
					_ = d.Close()
					return fmt.Errorf("the flush after the failure: %v", err)
				}
			}
			err := r.write(d, true)
			if final && err == nil {
				_ = d.Close()
				return fmt.Errorf("a write was accepted after the failure")
			}
			if flushed && err != nil {
				_ = d.Close()
				return fmt.Errorf("after the flush: %w", err)
			}
			if failed.Load() != nil && c.then < thenContinue {
				break
			}
		}
		if c.then >= thenContinue {
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
	var left vfs.FS = disk
	crash := disk.Crash
	if c.then != thenReopen {
		left, crash = crashed, crashed.Crash
	}
	return r.opensAlike(left, func(*db.DB) (vfs.FS, error) { return crash(), nil })
}

// neverInForce reports whether a file is a MANIFEST that was being made when its sync failed: the one before it stays
// in force, and the next edit makes another.
func neverInForce(fsys vfs.FS, name string) bool {
	current, err := damage.ReadFile(fsys, filepath.Join("db", base.CurrentName))
	return err == nil && strings.HasPrefix(filepath.Base(name), "MANIFEST-") && string(current) != filepath.Base(name)+"\n"
}

// awaitWriteError waits until the store refuses writes and reports whether it does. The store notices
// a failed sync of the MANIFEST in the background, on a busy machine long after the sync.
func awaitWriteError(d *db.DB) bool {
	for start := time.Now(); d.Apply(new(db.Batch), db.NoSync) == nil; time.Sleep(time.Millisecond) {
		if time.Since(start) > 2*time.Minute {
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
