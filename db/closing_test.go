package db_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

var closingRounds = flag.Int("closing.rounds", 20, "how often a store is closed while all its methods are called")

// keepingChanges returns options of a store that keeps its history.
func keepingChanges(fsys vfs.FS) *db.Options {
	o := testOptions(fsys)
	o.Changes.Bytes = 1 << 40
	return o
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
			if over.Load() && fixture.ChangesFiles(op.Kind) && !given {
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

// randomTuning returns o with random values of all options that can be changed.
func randomTuning(o db.Options, rnd *rand.Rand) db.Options {
	o.Compaction = db.CompactionOptions{
		MaxConcurrent: 1 + rnd.IntN(4), L0Trigger: 1 + rnd.IntN(5), L0Slowdown: 6 + rnd.IntN(3), L0Stop: 10 + rnd.IntN(5),
		MaxLevelBase: 4<<10 + rnd.Int64N(64<<10),
	}
	o.Memtables = db.MemtableOptions{Size: 4<<10 + rnd.IntN(32<<10), MaxWaiting: 1 + rnd.IntN(4)}
	o.Tables = db.TableOptions{
		Size: 4<<10 + rnd.Int64N(16<<10), BlockSize: 64 + rnd.IntN(4<<10), RestartInterval: 1 + rnd.IntN(20),
		Compression: db.Compression(rnd.IntN(4)),
	}
	o.Cache.Size = []int64{-1, 1, 4 << 10, 256 << 10, 8 << 20}[rnd.IntN(5)]
	o.Cache.MaxOpenFiles = 10 + rnd.IntN(50)
	return o
}
