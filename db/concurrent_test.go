package db

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/vfs"
	"github.com/stretchr/testify/require"
)

// Writers move amounts between accounts, a batch each; the sum never changes.
// Whoever sees another sum has seen half a batch.
func TestReadersSeeWholeBatchesOnly(t *testing.T) {
	const accounts, balance, transfers = 20, 1000, 1500
	o := testOptions(NewMemFS())
	o.MaxConcurrentCompactions = 2
	d := openTest(t, o)
	put := func(b *Batch, account int, amount uint64) {
		b.Put(testKey(account), binary.LittleEndian.AppendUint64(nil, amount))
	}
	var b Batch
	for i := range accounts {
		put(&b, i, balance)
	}
	require.NoError(t, d.Apply(&b, NoSync))

	var writers, readers sync.WaitGroup
	var mu sync.Mutex // one transfer at a time: the store has no transactions
	var stop atomic.Bool
	for w := range 4 {
		writers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			for range transfers {
				mu.Lock()
				from, to := rnd.IntN(accounts), rnd.IntN(accounts)
				a, err1 := d.Get(testKey(from))
				c, err2 := d.Get(testKey(to))
				if err1 == nil && err2 == nil && from != to {
					x, y := binary.LittleEndian.Uint64(a), binary.LittleEndian.Uint64(c)
					amount := rnd.Uint64N(x + 1)
					var b Batch
					put(&b, from, x-amount)
					put(&b, to, y+amount)
					err1 = d.Apply(&b, &WriteOptions{NoSync: rnd.IntN(10) > 0})
				}
				mu.Unlock()
				if err := errors.Join(err1, err2); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		readers.Go(func() {
			for !stop.Load() {
				s := d.NewSnapshot()
				var sums [3]uint64
				it, err := s.NewIterator(nil)
				if err != nil {
					t.Error(err)
					return
				}
				for _, v := range it.All() {
					sums[0] += binary.LittleEndian.Uint64(v)
				}
				for ok := it.Last(); ok; ok = it.Prev() {
					sums[1] += binary.LittleEndian.Uint64(it.Value())
				}
				for i := range accounts {
					v, err := s.Get(testKey(i))
					if err != nil {
						t.Error(err)
						return
					}
					sums[2] += binary.LittleEndian.Uint64(v)
				}
				if err := errors.Join(it.Close(), s.Close()); err != nil || sums != [3]uint64{accounts * balance, accounts * balance, accounts * balance} {
					t.Errorf("sums %v, error %v", sums, err)
					return
				}
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
}

// Each writer owns some keys and knows what it wrote; readers come and go;
// compactions run; few tables may be open, so that they are closed and removed
// under the readers.
func TestWritersReadersAndCompactionsTogether(t *testing.T) {
	const writersN, keys, rounds = 4, 300, 8
	counting := vfs.NewCounting(vfs.NewMem())
	o := testOptions(counting)
	o.MaxOpenFiles, o.MaxConcurrentCompactions = 10, 2
	o.BlockCacheSize = 8 << 10
	d := mustOpen(t, o)
	var wg sync.WaitGroup
	var stop atomic.Bool
	for w := range writersN {
		wg.Go(func() {
			for round := range rounds {
				for i := range keys {
					k := w*keys + i
					if err := d.Put(testKey(k), testValue(k+round), NoSync); err != nil {
						t.Error(err)
						return
					}
					if i%3 == 0 {
						got, err := d.Get(testKey(k))
						if err != nil || string(got) != string(testValue(k+round)) {
							t.Errorf("key %d in round %d: %q, %v", k, round, got, err)
							return
						}
					}
				}
			}
		})
	}
	var background sync.WaitGroup
	background.Go(func() {
		for !stop.Load() {
			it, err := d.NewIterator(nil)
			if err != nil {
				t.Error(err)
				return
			}
			prev := ""
			for k := range it.All() {
				if string(k) <= prev {
					t.Error("keys do not ascend")
				}
				prev = string(k)
			}
			if err := it.Close(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	background.Go(func() {
		for !stop.Load() {
			if err := d.Compact(t.Context(), nil, nil); err != nil {
				t.Error(err)
				return
			}
		}
	})
	background.Go(func() {
		for !stop.Load() {
			_ = d.Metrics()
			if _, err := d.ApproximateSize(nil, testKey(keys)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	wg.Wait()
	stop.Store(true)
	background.Wait()
	for k := range writersN * keys {
		requireValue(t, d, testKey(k), testValue(k+rounds-1))
	}
	settle(t, d)
	d.obsolete.remove(d)
	require.Equal(t, d.Metrics().Total().Tables, len(namesOf(t, counting, base.FileTable)), "obsolete tables are removed")
	require.NoError(t, d.Close())
	require.Zero(t, counting.Snapshot().Total.OpenFiles, "every file is closed")
}

func TestAnIteratorKeepsItsFiles(t *testing.T) {
	counting := vfs.NewCounting(vfs.NewMem())
	d := openTest(t, testOptions(counting))
	fill(t, d, 0, 2000)
	settle(t, d)
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	require.True(t, it.First())
	for i := range 2000 {
		require.NoError(t, d.Delete(testKey(i), NoSync))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.Zero(t, d.Metrics().Total().Tables, "nothing is left of the data")
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

func TestGroupsShareASync(t *testing.T) {
	d := openTest(t, testOptions(NewMemFS()))
	var wg sync.WaitGroup
	// The first leader is held in its sync until the others have queued.
	d.commit.mu.Lock()
	d.commit.led = true
	d.commit.mu.Unlock()
	for i := range 16 {
		wg.Go(func() {
			if err := d.Put(testKey(i), testValue(i), Sync); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, func() bool {
		d.commit.mu.Lock()
		defer d.commit.mu.Unlock()
		return len(d.commit.waiting) == 16
	})
	before := d.Metrics().LogSyncs
	d.commit.mu.Lock()
	d.commit.waiting[0].wake <- true
	d.commit.mu.Unlock()
	wg.Wait()
	m := d.Metrics()
	require.EqualValues(t, 16, m.Writes)
	require.EqualValues(t, 1, m.LogSyncs-before, "sixteen writers, one fsync")
}
