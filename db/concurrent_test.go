package db_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

var atomicityFor = flag.Duration("atomicity.for", 0,
	"how long to test that readers see whole batches; a fixed number of batches is the minimum")

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

// Writers move amounts between their accounts, one batch per transfer, so the sums never change. A
// reader that sees another sum has seen half a batch.
func TestReadersSeeWholeBatchesOnly(t *testing.T) {
	const writersN, readersN, accounts, balance, transfers = 8, 8, 12, 1000, 600
	o := testOptions(vfs.NewMem())
	o.Compaction.MaxConcurrent = 2
	d := openTest(t, o)
	put := func(b *db.Batch, account int, amount uint64) {
		b.Put(testKey(account), binary.LittleEndian.AppendUint64(nil, amount))
	}
	var b db.Batch
	for i := range writersN * accounts {
		put(&b, i, balance)
	}
	require.NoError(t, d.Apply(&b, db.NoSync))

	end := time.Now().Add(*atomicityFor)
	var writers, readers sync.WaitGroup
	var stop atomic.Bool
	var written, read atomic.Uint64
	for w := range writersN {
		writers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			var amounts [accounts]uint64
			for i := range amounts {
				amounts[i] = balance
			}
			for i := 0; i < transfers || time.Now().Before(end); i++ {
				from, to := rnd.IntN(accounts), rnd.IntN(accounts)
				amount := rnd.Uint64N(amounts[from] + 1)
				amounts[from] -= amount
				amounts[to] += amount
				var b db.Batch
				put(&b, w*accounts+from, amounts[from])
				put(&b, w*accounts+to, amounts[to])
				if err := d.Apply(&b, &db.WriteOptions{NoSync: rnd.IntN(10) > 0}); err != nil {
					t.Error(err)
					return
				}
				written.Add(1)
			}
		})
	}
	for range readersN {
		readers.Go(func() {
			for !stop.Load() && !t.Failed() {
				s := d.NewSnapshot()
				forward, back, looked, err := sumsOf(s, accounts, writersN)
				if err := errors.Join(err, s.Close()); err != nil {
					t.Error(err)
				}
				for w := range writersN {
					if got := [3]uint64{forward[w], back[w], looked[w]}; got != [3]uint64{accounts * balance, accounts * balance, accounts * balance} {
						t.Errorf("writer %d: sums %v", w, got)
					}
				}
				read.Add(1)
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	t.Logf("%d batches written, %d snapshots read three times", written.Load(), read.Load())
}

// sumsOf adds up the accounts of each writer, read with an iterator in either direction and with lookups.
func sumsOf(s *db.Snapshot, accounts, writers int) (forward, back, looked []uint64, err error) {
	forward, back, looked = make([]uint64, writers), make([]uint64, writers), make([]uint64, writers)
	it, err := s.NewIterator(nil)
	if err != nil {
		return forward, back, looked, err
	}
	// An extra key is added to some sum, and shows there.
	owner := func(n int) int { return min(max(n, 0)/accounts, writers-1) }
	n := 0
	for _, v := range it.All() {
		forward[owner(n)] += binary.LittleEndian.Uint64(v)
		n++
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		n--
		back[owner(n)] += binary.LittleEndian.Uint64(it.Value())
	}
	for i := range writers * accounts {
		v, err := s.Get(testKey(i))
		if err != nil {
			return forward, back, looked, errors.Join(err, it.Close())
		}
		looked[owner(i)] += binary.LittleEndian.Uint64(v)
	}
	return forward, back, looked, it.Close()
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
