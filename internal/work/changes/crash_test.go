package changes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/cuts"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// changesCrashOptions has the smallest sizes, and the logs elsewhere for every third seed.
func changesCrashOptions(fsys vfs.FS, seed uint64) *db.Options {
	o := &db.Options{
		FS: fsys, Memtables: db.MemtableOptions{Size: 4 << 10}, Tables: db.TableOptions{Size: 4 << 10, BlockSize: 512},
		Compaction: db.CompactionOptions{MaxLevelBase: 16 << 10, L0Trigger: 2}, Limits: db.LimitOptions{ManifestSize: 4 << 10},
		Changes: db.ChangeRetention{Bytes: 1 << 40},
	}
	if seed%3 == 0 {
		o.LogDir = "logs"
	}
	return o
}

// seen is a copy that a reader of the feed had once so many operations were done.
type seen struct {
	ops   int
	copy  *replica
	edits bool // the change may be made by an edit
}

// The power fails at every operation, with a reader that has followed the feed to some point. What it has seen is not
// taken back, and from where it is the feed leads to what was recovered. It is only refused where a load, an ingest or
// a deleted range was being recorded.
func TestCrashAtEveryOperationWithAFeed(t *testing.T) {
	race.SkipInShort(t)
	total, limit := 300, 300
	if race.Sampled() {
		total, limit = 200, 60
	}
	if *cuts.Limit > 0 {
		limit = *cuts.Limit
	}
	cuts.Seeds(t, func(t *testing.T, seed uint64) {
		r := recorder.New(recorder.Image{})
		c := &changer{fsys: r, rnd: rand.New(rand.NewPCG(seed, 18))}
		var history []seen
		copied := newReplica()
		for range 2 {
			d := storetest.MustOpen(t, changesCrashOptions(r, seed))
			for range total / 2 {
				c.change(t, d)
				require.NoError(t, copied.follow(d, nil))
				history = append(history, seen{r.Len(), copied.clone(), c.edits})
			}
			require.NoError(t, d.Close())
		}
		trace := r.Trace()
		var followed, gone atomic.Int64
		models := cuts.Models(t)
		if !slices.Contains(models, recorder.M5) {
			models = append(models, recorder.M5) // a log moves between two directories
		}
		_, err := cuts.EachState(trace, models, seed, limit, func(s recorder.State, cut int, m recorder.Model) error {
			at, _ := slices.BinarySearchFunc(history, cut+1, func(h seen, n int) int { return h.ops - n })
			from := newReplica()
			if at > 0 {
				from = history[at-1].copy.clone()
			}
			err := followAfterCrash(s.Mem(), seed, from)
			if errors.Is(err, db.ErrChangesGone) && at < len(history) && history[at].edits {
				gone.Add(1)
				return nil
			}
			followed.Add(1)
			return err
		})
		cuts.RequireNoFailure(t, err)
		t.Logf("seed %d: %d operations, %d feeds continued, %d refused", seed, len(trace.Ops), followed.Load(), gone.Load())
		require.Less(t, 20*gone.Load(), followed.Load()+20)
	})
}

// followAfterCrash opens a store and compares it with a copy that follows its feed, now and after a few more changes.
func followAfterCrash(mem *vfs.Mem, seed uint64, from *replica) error {
	d, err := db.Open("db", changesCrashOptions(mem, seed))
	if err != nil {
		return err
	}
	defer d.Close()
	for range 2 {
		if err := from.follow(d, nil); err != nil {
			return fmt.Errorf("from position %d: %w", from.position, err)
		}
		n := 0
		entries, failed := d.All(nil)
		for key, value := range entries {
			if n++; from.content[string(key)] != string(value) {
				return fmt.Errorf("the copy has a different value of %q", key)
			}
		}
		if err := failed(); err != nil {
			return err
		}
		if n != len(from.content) {
			return fmt.Errorf("the copy has %d entries, the store %d", len(from.content), n)
		}
		for i := range 20 {
			if err := d.Put(fixture.Key(i), fixture.Value(int(seed%1000)), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// Each operation of a run fails once, or from there on. What the feed yields then leads to the content of the store,
// now and after it was opened again, or the feed says that it is not there any more.
//
//make:gates
func TestAnErrorAtEveryOperationOfAFeed(t *testing.T) {
	race.SkipInShort(t)
	run := func(failAt uint64, forGood, full bool) (ops uint64, restart bool) {
		mem := vfs.NewMem()
		var armed atomic.Bool
		var at atomic.Uint64
		fsys := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			if !armed.Load() {
				return nil
			}
			if n := at.Add(1); n == failAt || forGood && n > failAt && failAt > 0 {
				if full {
					return &wrap.Fault{Err: syscall.ENOSPC}
				}
				return &wrap.Fault{Err: wrap.ErrInjected}
			}
			return nil
		})
		o := changesCrashOptions(fsys, 1)
		d := result.Of(db.Open("db", o))(t)
		for i := range 200 {
			require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), nil))
		}
		copied := newReplica()
		require.NoError(t, copied.follow(d, nil))
		copied.failed = true
		armed.Store(true)
		_ = d.DeleteRange(context.Background(), fixture.Key(20), fixture.Key(150), nil)
		if l, err := d.NewLoader(); err == nil {
			_ = l.Put(fixture.Key(30), []byte("loaded"))
			_ = l.Commit()
		}
		for i := range 30 {
			_ = d.Put(fixture.Key(i), fixture.Value(1000+i), nil)
		}
		_ = d.Flush()
		armed.Store(false)
		for readable(d) != nil && d.SyncLog() == nil { // a table is being opened that a compaction needs, and this has failed
		}
		_ = copied.follow(d, nil)
		for i := range 30 {
			_ = d.Put(fixture.Key(i), fixture.Value(2000+i), nil)
		}
		live := copied.clone()
		if err := live.follow(d, nil); err == nil && d.SyncLog() == nil {
			require.Equal(t, live.content, storetest.Contents(t, d), "operation %d", failAt)
		} else if err != nil {
			require.ErrorIs(t, err, db.ErrChangesGone, "operation %d", failAt)
			restart = true
		}
		_ = d.Close()
		err := followAfterCrash(mem.Kill(), 1, copied)
		if errors.Is(err, db.ErrChangesGone) {
			return at.Load(), true
		}
		require.NoError(t, err, "operation %d, permanently %v", failAt, forGood)
		return at.Load(), restart
	}
	ops, _ := run(0, false, false)
	require.Greater(t, ops, uint64(40))
	runs, restart := 0, 0
	step := uint64(1)
	if testing.Short() {
		step = 3
	}
	for n := uint64(1); n <= ops; n += step {
		for i, forGood := range []bool{false, true} { // each operation with both errors, in turns
			runs++
			if _, again := run(n, forGood, (n+uint64(i))%2 == 0); again {
				restart++
			}
		}
	}
	t.Logf("%d runs, in %d of them the history restarted", runs, restart)
	require.Less(t, restart, runs/4)
}

// readable returns the error of reading everything.
func readable(d *db.DB) error {
	entries, failed := d.All(nil)
	for range entries {
	}
	return failed()
}
