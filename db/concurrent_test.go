package db_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// While a batch is added to the memtable, a reader that looks between any two key comparisons sees none of it.
func TestABatchIsInvisibleUntilAllOfItIsInTheMemtable(t *testing.T) {
	var look func()
	o := testOptions(vfs.NewMem())
	o.Comparer = &db.Comparer{Name: "test.Watched", Compare: func(a, b []byte) int {
		if look != nil {
			now := look
			look = nil // the reader's own comparisons do not call it
			now()
			look = now
		}
		return bytes.Compare(a, b)
	}}
	d := openTest(t, o)
	keys := []string{"a", "b", "c"}
	apply := func(value string) {
		var b db.Batch
		for _, k := range keys {
			b.Put([]byte(k), []byte(value))
		}
		require.NoError(t, d.Apply(&b, db.NoSync))
	}
	apply("old")
	looks := 0
	var early []string
	look = func() {
		looks++
		for _, k := range keys {
			if value, err := d.Get([]byte(k)); err != nil || string(value) != "old" {
				early = append(early, fmt.Sprintf("%s at look %d: %s, %v", k, looks, value, err))
			}
		}
	}
	apply("new")
	look = nil
	require.Greater(t, looks, len(keys))
	require.Empty(t, early, "values that were visible too early")
	for _, k := range keys {
		requireValue(t, d, []byte(k), []byte("new"))
	}
}

// putRounds puts n keys from first on, rounds times, and gets a third of them.
func putRounds(t *testing.T, d *db.DB, first, n, rounds int) {
	for round := range rounds {
		for k := first; k < first+n; k++ {
			if err := d.Put(testKey(k), testValue(k+round), db.NoSync); err != nil {
				t.Error(err)
				return
			}
			if (k-first)%3 != 0 {
				continue
			}
			got, err := d.Get(testKey(k))
			if err != nil || string(got) != string(testValue(k+round)) {
				t.Errorf("key %d in round %d: %q, %v", k, round, got, err)
				return
			}
		}
	}
}

// walkUpwards returns an error if an iterator's keys do not ascend.
func walkUpwards(d *db.DB) error {
	it, err := d.NewIterator(nil)
	if err != nil {
		return err
	}
	prev := ""
	for k := range it.All() {
		if string(k) <= prev {
			err = errors.New("keys do not ascend")
		}
		prev = string(k)
	}
	return errors.Join(err, it.Close())
}

// Each writer owns some keys and checks its writes, while iterators and compactions run. Few tables
// may be open, so tables are closed and removed under the readers.
func TestWritersReadersAndCompactionsTogether(t *testing.T) {
	const writersN, keys, rounds = 4, 300, 8
	counting := wrap.NewCounting(vfs.NewMem())
	o := testOptions(counting)
	o.Cache.MaxOpenFiles, o.Compaction.MaxConcurrent = 10, 2
	o.Cache.Size = 8 << 10
	d := mustOpen(t, o)
	var wg sync.WaitGroup
	var stop atomic.Bool
	for w := range writersN {
		wg.Go(func() { putRounds(t, d, w*keys, keys, rounds) })
	}
	var background sync.WaitGroup
	for _, step := range []func() error{
		func() error { return walkUpwards(d) },
		func() error { return d.Compact(t.Context(), nil, nil) },
		func() error {
			_ = d.Metrics()
			_, err := d.ApproximateSize(nil, testKey(keys))
			return err
		},
	} {
		background.Go(func() {
			for !stop.Load() {
				if err := step(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	stop.Store(true)
	background.Wait()
	for k := range writersN * keys {
		requireValue(t, d, testKey(k), testValue(k+rounds-1))
	}
	settle(t, d)
	d.Obsolete().Remove() // another goroutine may be removing files, too
	eventually(t, func() bool { return d.Metrics().Total().Tables == len(namesOf(t, counting, base.FileTable)) })
	require.NoError(t, d.Close())
	require.Zero(t, counting.Snapshot().Total.OpenFiles, "every file is closed")
}

func TestAnIteratorKeepsItsFiles(t *testing.T) {
	counting := wrap.NewCounting(vfs.NewMem())
	d := openTest(t, testOptions(counting))
	fill(t, d, 0, 2000)
	settle(t, d)
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	require.True(t, it.First())
	for i := range 2000 {
		require.NoError(t, d.Delete(testKey(i), db.NoSync))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.Zero(t, d.Metrics().Total().Tables, "all entries are deleted")
	require.NotEmpty(t, namesOf(t, counting, base.FileTable))
	n := 0
	for k, v := range it.All() {
		require.Equal(t, string(testKey(n)), string(k))
		require.Equal(t, string(testValue(n)), string(v))
		n++
	}
	require.Equal(t, 2000, n)
	require.NoError(t, it.Close())
	eventually(t, func() bool { return len(namesOf(t, counting, base.FileTable)) == 0 })
	eventually(t, func() bool { return counting.Snapshot().Of(base.FileTable).OpenFiles == 0 })
}
