package db_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

var closingRounds = flag.Int("closing.rounds", 20, "how often a store is closed while all its methods are called")

// closingOptions are the options of a store whose tables all stay in level 0.
func closingOptions(fsys vfs.FS) *db.Options {
	o := testOptions(fsys)
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 1000, 1001, 1002
	o.Changes.Bytes = 1 << 20
	return o
}

// filledForClosing makes a database with three tables over the same keys.
func filledForClosing(t *testing.T, fsys vfs.FS) {
	o := closingOptions(fsys)
	o.Filters.Policy = filter.None
	d := mustOpen(t, o)
	for range 3 {
		fill(t, d, 0, 200)
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())
}

// keepingChanges returns options of a store that keeps its history.
func keepingChanges(fsys vfs.FS) *db.Options {
	o := testOptions(fsys)
	o.Changes.Bytes = 1 << 40
	return o
}

// Close waits for callers that write tables, as it does for background work. Once Close has released
// the directory, another store may be opened there, and its files get the same numbers.
func TestCloseWaitsForCallersThatWriteTables(t *testing.T) {
	for name, call := range map[string]func(*db.DB) error{
		"Compact": func(d *db.DB) error { return d.Compact(background, nil, nil) },
		"UpgradeFilters": func(d *db.DB) error {
			_, err := d.UpgradeFilters(background, nil, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			filledForClosing(t, mem)
			synctest.Test(t, func(t *testing.T) {
				g := fixture.NewGate()
				var released atomic.Bool // the directory
				d := mustOpen(t, closingOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
					if released.Load() && op.Kind != wrap.OpClose {
						t.Errorf("%v of %s after Close", op.Kind, op.Name)
					}
					return g.Hook(op)
				})))
				g.Closed.Store(true)
				called := make(chan error, 1)
				go func() { called <- call(d) }()
				synctest.Wait()
				require.NotEmpty(t, g.Arrived)
				go func() {
					if err := d.Close(); err != nil {
						t.Error(err)
					}
					released.Store(true)
				}()
				synctest.Wait()
				if released.Load() {
					t.Error("Close released the directory while a table was being written")
				}
				close(g.Open)
				require.ErrorIs(t, <-called, db.ErrClosed)
				synctest.Wait()
				require.True(t, released.Load())
			})
			d := openTest(t, closingOptions(mem))
			for k := range 200 {
				requireValue(t, d, testKey(k), testValue(k))
			}
			require.NoError(t, strayFilesWhenIdle(d, mem))
		})
	}
}

// A read that is about to open a table when the store closes returns ErrClosed. A table that is
// opened meanwhile is closed immediately.
func TestReadsThatOpenATableDuringCloseReturnErrClosed(t *testing.T) {
	for name, read := range map[string]func(*db.DB) error{
		"Get":      func(d *db.DB) error { _, err := d.Get(testKey(7)); return err },
		"GetTo":    func(d *db.DB) error { _, err := d.GetTo(nil, testKey(7)); return err },
		"Has":      func(d *db.DB) error { _, err := d.Has(testKey(7)); return err },
		"MultiGet": func(d *db.DB) error { _, err := d.MultiGet([][]byte{testKey(7), testKey(8)}); return err },
		"Explain":  func(d *db.DB) error { _, err := d.Explain(testKey(7)); return err },
		"Check":    func(d *db.DB) error { _, err := d.Check(background); return err },
		"Tables":   func(d *db.DB) error { _, err := d.Tables(); return err },
		"ApproximateSize": func(d *db.DB) error {
			_, err := d.ApproximateSize(testKey(7), testKey(8))
			return err
		},
		"Filters": func(d *db.DB) error { _, err := d.Filters(background, 10); return err },
		"a dry run of UpgradeFilters": func(d *db.DB) error {
			_, err := d.UpgradeFilters(background, nil, &db.UpgradeOptions{DryRun: true})
			return err
		},
		"an iterator": func(d *db.DB) error {
			it, err := d.NewIterator(nil)
			if err == nil {
				it.First()
				err = it.Err()
				_ = it.Close()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			filledForClosing(t, mem)
			arrived, open := make(chan struct{}), make(chan struct{})
			var opened atomic.Int64
			d := mustOpen(t, closingOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
				if op.Kind != wrap.OpOpen || filepath.Ext(op.Name) != ".ldb" {
					return nil
				}
				switch n := opened.Add(1); {
				case n == 1:
					close(arrived)
					<-open
				case n > 100:
					return &wrap.Fault{Err: errors.New("too many tables are opened")}
				}
				return nil
			})))
			result := make(chan error, 1)
			go func() { result <- read(d) }()
			<-arrived
			if err := d.Close(); err != nil {
				require.ErrorContains(t, err, "1 iterator")
			}
			close(open)
			require.ErrorIs(t, <-result, db.ErrClosed)
			require.LessOrEqual(t, opened.Load(), int64(1), "tables that were opened")
		})
	}
}

// A snapshot that is closed during a read keeps no versions alive any more. The versions may be gone
// when the read gets to them, so it must return an error instead of what it finds.
func TestReadsOfASnapshotThatIsClosedMeanwhileFail(t *testing.T) {
	key := testKey(50)
	for name, read := range map[string]func(*db.Snapshot) error{
		"Get":   func(s *db.Snapshot) error { _, err := s.Get(key); return err },
		"GetTo": func(s *db.Snapshot) error { _, err := s.GetTo(nil, key); return err },
		"Has": func(s *db.Snapshot) error {
			has, err := s.Has(key)
			if err == nil && !has {
				err = db.ErrNotFound
			}
			return err
		},
		"MultiGet": func(s *db.Snapshot) error {
			values, err := s.MultiGet([][]byte{key})
			if err == nil && values[0] == nil {
				err = db.ErrNotFound
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := hook{at: of(wrap.OpRead, ".ldb")} // at the next read of a block
			o := closingOptions(h.over(vfs.NewMem()))
			o.Filters.Policy = filter.None
			d := openTest(t, o)
			require.NoError(t, d.Put(key, []byte("old"), db.NoSync))
			require.NoError(t, d.Flush())
			fill(t, d, 0, 50)
			fill(t, d, 51, 100)
			require.NoError(t, d.Flush())
			for _, f := range d.State().Version.Levels[0].Files {
				require.NoError(t, d.TableCache().OpenWhole(f))
			}
			s := d.NewSnapshot()
			h.arm(func() {
				require.NoError(t, s.Close())
				require.NoError(t, d.Put(key, []byte("new"), db.NoSync))
				require.NoError(t, d.Compact(background, nil, nil))
			})
			require.ErrorIs(t, read(s), db.ErrClosed)
			require.True(t, h.called())
		})
	}
}

const closingKeys = 300

// closingCalls are the methods of a store with closingKeys keys. Writes keep the value of each key.
var closingCalls = map[string]func(*db.DB, *rand.Rand) error{
	"Put": func(d *db.DB, rnd *rand.Rand) error {
		k := rnd.IntN(closingKeys)
		return d.Put(testKey(k), testValue(k), db.NoSync)
	},
	"Apply": func(d *db.DB, rnd *rand.Rand) error {
		b := new(db.Batch)
		for range 30 {
			k := rnd.IntN(closingKeys)
			b.Put(testKey(k), testValue(k))
		}
		return d.Apply(b, []*db.WriteOptions{db.Sync, db.NoSync, db.Buffered}[rnd.IntN(3)])
	},
	"Get": func(d *db.DB, rnd *rand.Rand) error { _, err := d.Get(testKey(rnd.IntN(closingKeys))); return err },
	"MultiGet": func(d *db.DB, _ *rand.Rand) error {
		_, err := d.MultiGet([][]byte{testKey(1), testKey(200)})
		return err
	},
	"Flush":   func(d *db.DB, _ *rand.Rand) error { return d.Flush() },
	"Compact": func(d *db.DB, _ *rand.Rand) error { return d.Compact(background, nil, nil) },
	"UpgradeFilters": func(d *db.DB, rnd *rand.Rand) error {
		_, err := d.UpgradeFilters(background, filter.NewCacheLineBloomPolicy(8+rnd.IntN(8)), nil)
		return err
	},
	"a load": func(d *db.DB, rnd *rand.Rand) error {
		l, err := d.NewLoader()
		if err != nil {
			return err
		}
		for k := rnd.IntN(closingKeys); k < closingKeys && err == nil; k++ {
			err = l.Put(testKey(k), testValue(k))
		}
		return errors.Join(err, l.Commit())
	},
	"an iterator": func(d *db.DB, _ *rand.Rand) error {
		it, err := d.NewIterator(nil)
		if err != nil {
			return err
		}
		n := 0
		for range it.All() {
			n++
		}
		if it.Err() == nil && n != closingKeys {
			err = fmt.Errorf("an iterator shows %d keys, want %d", n, closingKeys)
		}
		return errors.Join(err, it.Err(), it.Close())
	},
	"a snapshot": func(d *db.DB, rnd *rand.Rand) error {
		s := d.NewSnapshot()
		_, err := s.Get(testKey(rnd.IntN(closingKeys)))
		return errors.Join(err, s.Close())
	},
	"Check":   func(d *db.DB, _ *rand.Rand) error { _, err := d.Check(background); return err },
	"Filters": func(d *db.DB, _ *rand.Rand) error { _, err := d.Filters(background, 10); return err },
	"Checkpoint": func(d *db.DB, rnd *rand.Rand) error {
		_, err := d.Checkpoint(background, fmt.Sprintf("copies/%d", rnd.Uint64()), nil)
		return err
	},
	"Changes": func(d *db.DB, _ *rand.Rand) error {
		return firstError(d.Changes(background, 0, &db.ChangeOptions{Unsynced: true}))
	},
	"WaitForChange":   func(d *db.DB, _ *rand.Rand) error { return d.WaitForChange(background, 0) },
	"ChangePositions": func(d *db.DB, _ *rand.Rand) error { _, _, err := d.ChangePositions(); return err },
	"SetCursor":       func(d *db.DB, rnd *rand.Rand) error { return d.SetCursor(fmt.Sprint("cursor", rnd.IntN(5)), 0) },
	"DropCursor":      func(d *db.DB, rnd *rand.Rand) error { return d.DropCursor(fmt.Sprint("cursor", rnd.IntN(5))) },
	"Cursors":         func(d *db.DB, _ *rand.Rand) error { _, err := d.Cursors(); return err },
	"Ingest": func(d *db.DB, rnd *rand.Rand) error {
		from, last := rnd.IntN(closingKeys), d.Metrics().LastSequence
		path := fmt.Sprintf("in/%d", rnd.Uint64())
		if err := tableOfKeys(d.Opts().FS, path, from, min(from+50, closingKeys), []uint64{0, last + 100}[rnd.IntN(2)]); err != nil {
			return err
		}
		_, err := d.Ingest(background, []string{path}, nil)
		return err
	},
	"Tables": func(d *db.DB, _ *rand.Rand) error { _, err := d.Tables(); return err },
	"PauseCompactions": func(d *db.DB, _ *rand.Rand) error {
		resume, err := d.PauseCompactions(background)
		if err == nil {
			runtime.Gosched()
			resume()
		}
		return err
	},
	"SetOptions": func(d *db.DB, rnd *rand.Rand) error {
		o := randomTuning(d.Options(), rnd)
		return d.SetOptions(&o)
	},
}

// keepCalling repeats a call until it returns ErrClosed.
func keepCalling(t *testing.T, d *db.DB, round int, what string, seed uint64, made *atomic.Int64) {
	rnd := rand.New(rand.NewPCG(seed+uint64(round), uint64(len(what))))
	for err := error(nil); !errors.Is(err, db.ErrClosed); {
		err = closingCalls[what](d, rnd)
		made.Add(1)
		if err != nil && !errors.Is(err, db.ErrClosed) {
			t.Errorf("round %d: %s: %v", round, what, err)
			return
		}
	}
}

// All methods of a store are called repeatedly while it closes. Calls succeed or return ErrClosed. Nothing changes the
// directory after Close. The next store, which takes over the directory immediately, has all acknowledged writes.
func TestCloseDuringAllOtherCalls(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	mem := vfs.NewMem()
	d := mustOpen(t, keepingChanges(mem))
	fill(t, d, 0, closingKeys)
	require.NoError(t, d.Close())
	for round := range *closingRounds {
		var over atomic.Bool
		o := keepingChanges(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			given := strings.HasPrefix(op.Name, "in") && op.NewName == "" // the test makes tables to ingest there
			if over.Load() && changesFiles(op.Kind) && !given {
				t.Errorf("%v of %s after Close", op.Kind, op.Name)
			}
			return nil
		}))
		o.Compaction.MaxConcurrent = 1 + round%3
		d := mustOpen(t, o)
		for k := range closingKeys {
			requireValue(t, d, testKey(k), testValue(k))
		}
		var group sync.WaitGroup
		var made atomic.Int64
		for what := range closingCalls {
			group.Go(func() { keepCalling(t, d, round, what, seed, &made) })
		}
		for enough := rnd.Int64N(300); made.Load() < enough; {
			runtime.Gosched()
		}
		if err := d.Close(); err != nil {
			require.Regexp(t, "closed (with|during a load)", err.Error())
		}
		over.Store(true)
		next := mustOpen(t, keepingChanges(mem)) // while the last calls return
		require.NoError(t, next.Close())
		group.Wait()
	}
	d = openTest(t, keepingChanges(mem))
	for k := range closingKeys {
		requireValue(t, d, testKey(k), testValue(k))
	}
	require.NoError(t, strayFilesWhenIdle(d, mem))
}

// changesFiles reports whether operations of that kind change the directory or its files.
func changesFiles(kind wrap.OpKind) bool {
	switch kind {
	case wrap.OpCreate, wrap.OpRemove, wrap.OpRename, wrap.OpLink, wrap.OpMkdirAll, wrap.OpWrite, wrap.OpSync, wrap.OpSyncDir:
		return true
	}
	return false
}
