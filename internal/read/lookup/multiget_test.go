package lookup_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// requireMultiGet compares MultiGet with a loop of Gets, and both with the model.
func requireMultiGet(t *testing.T, from interface {
	Get(key []byte) ([]byte, error)
	MultiGet(keys [][]byte) ([][]byte, error)
}, keys [][]byte, model map[string][]byte) {
	t.Helper()
	values := result.Of(from.MultiGet(keys))(t)
	require.Len(t, values, len(keys))
	for i, key := range keys {
		want, stored := model[string(key)]
		require.Equal(t, stored, values[i] != nil, "key %q", key)
		require.Equal(t, string(want), string(values[i]), "key %q", key)
		got, err := from.Get(key)
		if !stored {
			require.Equal(t, db.ErrNotFound, err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
}

// multiGetModel is a store with the entries that it must have, now and in a snapshot.
type multiGetModel struct {
	*testing.T
	d        *db.DB
	rnd      *rand.Rand
	now      map[string][]byte
	snapshot *db.Snapshot // nil before the first one
	then     map[string][]byte
}

// key returns one of 900 keys, of which one is empty.
func (m *multiGetModel) key() []byte {
	if n := m.rnd.IntN(900); n > 0 {
		return fixture.Key(n)
	}
	return []byte{}
}

// write deletes a key, or puts an empty value or one byte many times.
func (m *multiGetModel) write(fill byte) {
	k := m.key()
	switch m.rnd.IntN(8) {
	case 0:
		require.NoError(m, m.d.Delete(k, db.NoSync))
		delete(m.now, string(k))
	case 1:
		require.NoError(m, m.d.Put(k, nil, db.NoSync))
		m.now[string(k)] = []byte{}
	default:
		m.now[string(k)] = bytes.Repeat([]byte{fill}, m.rnd.IntN(300))
		require.NoError(m, m.d.Put(k, m.now[string(k)], db.NoSync))
	}
}

// compare looks up many keys in the store and the snapshot, some of them more than once, some sorted.
func (m *multiGetModel) compare() {
	queried := make([][]byte, m.rnd.IntN(120))
	for i := range queried {
		queried[i] = m.key()
		if i > 0 && m.rnd.IntN(10) == 0 {
			queried[i] = queried[m.rnd.IntN(i)]
		}
	}
	if m.rnd.IntN(2) == 0 {
		sortKeys(queried)
	}
	requireMultiGet(m.T, m.d, queried, m.now)
	if m.snapshot != nil {
		requireMultiGet(m.T, m.snapshot, queried, m.then)
	}
}

// maintain flushes, compacts or takes a new snapshot now and then.
func (m *multiGetModel) maintain() {
	switch m.rnd.IntN(12) {
	case 0:
		require.NoError(m, m.d.Flush())
	case 1:
		require.NoError(m, m.d.Compact(m.Context(), nil, nil))
	case 2:
		m.closeSnapshot()
		m.snapshot, m.then = m.d.NewSnapshot(), maps.Clone(m.now)
	}
}

func (m *multiGetModel) closeSnapshot() {
	if m.snapshot != nil {
		require.NoError(m, m.snapshot.Close())
	}
}

// Keys are everywhere: in the memtable, in one that waits, in level 0 and below, with tombstones
// above them and snapshots from before.
func TestMultiGetAgreesWithAModelOnEveryRun(t *testing.T) {
	for _, compression := range []db.Compression{db.SnappyCompression, db.NoCompression} {
		for _, cacheSize := range []int64{-1, 20 << 10, 8 << 20} {
			t.Run(fmt.Sprintf("compression %d, cache of %d bytes", compression, cacheSize), func(t *testing.T) {
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				o := storetest.Options(vfs.NewMem())
				o.Cache.Size, o.Tables.Compression, o.Cache.MaxOpenFiles = cacheSize, compression, 10
				m := &multiGetModel{T: t, d: storetest.Open(t, o), rnd: rand.New(rand.NewPCG(seed, 0)), now: map[string][]byte{}}
				for round := range 60 {
					for range 40 {
						m.write(byte(round))
					}
					m.compare()
					m.maintain()
				}
				m.closeSnapshot()
			})
		}
	}
}

func sortKeys(keys [][]byte) {
	for i := range keys {
		for j := i; j > 0 && bytes.Compare(keys[j-1], keys[j]) > 0; j-- {
			keys[j-1], keys[j] = keys[j], keys[j-1]
		}
	}
}

func TestMultiGetOfSpecialCases(t *testing.T) {
	d := storetest.MustOpen(t, storetest.Options(vfs.NewMem()))
	values, err := d.MultiGet(nil)
	require.NoError(t, err)
	require.Empty(t, values)
	require.NoError(t, d.Put(nil, []byte("of the empty key"), db.NoSync))
	require.NoError(t, d.Put([]byte("empty"), nil, db.NoSync))
	require.NoError(t, d.Put([]byte("huge"), make([]byte, 100_000), db.NoSync))
	for range 2 {
		values, err = d.MultiGet([][]byte{[]byte("empty"), nil, []byte("gone"), []byte("huge"), []byte("empty"), nil})
		require.NoError(t, err)
		require.Equal(t, [][]byte{{}, []byte("of the empty key"), nil, make([]byte, 100_000), {}, []byte("of the empty key")}, values)
		_ = append(values[1], "beyond its end"...)
		require.Equal(t, "of the empty key", string(values[5]), "values that share memory do not grow into each other")
		require.NoError(t, d.Flush())
	}
	m := d.Metrics()
	require.EqualValues(t, 12, m.Lookups.Count)
	require.EqualValues(t, 10, m.Lookups.Found)
	s := d.NewSnapshot()
	require.NoError(t, s.Close())
	_, err = s.MultiGet([][]byte{nil})
	require.Equal(t, db.ErrClosed, err)
	require.NoError(t, d.Close())
	_, err = d.MultiGet([][]byte{nil})
	require.Equal(t, db.ErrClosed, err)
}

// MultiGet counts what Gets would have counted, except for shared blocks.
func TestMultiGetCountsAsGetsDo(t *testing.T) {
	w := fixture.WatchTables(t)
	d := storetest.FilledLevels(t, storetest.WatchedOptions(w, nil), 4000)
	var keys [][]byte
	for i := range 4000 {
		keys = append(keys, fixture.Key(i))
	}
	sums := func(look func()) (report.LevelMetrics, *db.Metrics) {
		before := d.Metrics()
		look()
		after := d.Metrics()
		b, a := before.Total(), after.Total()
		a.Reads -= b.Reads
		a.FilterChecks -= b.FilterChecks
		a.FilterNegatives -= b.FilterNegatives
		a.FilterTruePositives -= b.FilterTruePositives
		a.FilterFalsePositives -= b.FilterFalsePositives
		a.BlocksFromCache -= b.BlocksFromCache
		a.BlocksFromDisk -= b.BlocksFromDisk
		after.Lookups.Count -= before.Lookups.Count
		after.Lookups.Found -= before.Lookups.Found
		return a, after
	}
	for _, key := range keys { // until all of level 0 is open, its order is unknown, and more tables are searched
		result.Of(d.Has(key))(t)
	}
	one, m1 := sums(func() {
		for _, key := range keys {
			_, err := d.Get(key)
			require.True(t, err == nil || err == db.ErrNotFound)
		}
	})
	parts := map[string]int{}
	many, m2 := sums(func() {
		parts = w.During(func() {
			result.Of(d.MultiGet(keys))(t)
		})
	})
	require.Equal(t, m1.Lookups.Count, m2.Lookups.Count)
	require.Equal(t, m1.Lookups.Found, m2.Lookups.Found)
	require.Equal(t, one.Reads, many.Reads)
	require.Equal(t, one.FilterNegatives, many.FilterNegatives)
	require.Equal(t, one.FilterTruePositives, many.FilterTruePositives)
	require.Equal(t, one.FilterFalsePositives, many.FilterFalsePositives)
	require.EqualValues(t, parts["data"], many.BlocksFromDisk)
	require.Less(t, many.BlocksFromCache+many.BlocksFromDisk, (one.BlocksFromCache+one.BlocksFromDisk)/2, "neighbours share blocks")
}

// A damaged block fails the MultiGets that need it, and no others.
func TestMultiGetOfADamagedBlockIsCorruption(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	storetest.Compacted(t, o, 2000)
	table := filepath.Join("db", fixture.Names(t, mem, base.FileTable)[0])
	fixture.ChangeFile(t, mem, table, func(data []byte) { data[40] ^= 1 })
	o = storetest.Options(mem) // with a new order checker, which has not seen the intact block
	o.Cache.Size = -1
	d := storetest.Open(t, o)
	var broken, whole [][]byte
	for i := range 2000 {
		if _, err := d.Get(fixture.Key(i)); err != nil {
			require.ErrorIs(t, err, db.ErrCorruption)
			broken = append(broken, fixture.Key(i))
		} else {
			whole = append(whole, fixture.Key(i))
		}
	}
	require.NotEmpty(t, broken)
	require.NotEmpty(t, whole)
	values, err := d.MultiGet(append(whole[:50:50], broken[0]))
	require.ErrorIs(t, err, db.ErrCorruption)
	require.Nil(t, values)
	values = result.Of(d.MultiGet(whole))(t)
	require.Len(t, values, len(whole))
}

// All values of a MultiGet are of one moment, while a writer changes them together, compactions
// run, and tables are closed.
func TestMultiGetSeesOneMoment(t *testing.T) {
	const keys = 100
	rounds := 400
	if race.Sampled() {
		rounds = 150
	}
	o := storetest.Options(vfs.NewMem())
	o.Cache.MaxOpenFiles, o.Compaction.MaxConcurrent, o.Cache.Size = 10, 2, 8<<10
	d := storetest.Open(t, o)
	var queried [][]byte
	for i := range keys {
		queried = append(queried, fixture.Key(i*37%keys))
	}
	write := func(round int) error {
		var b db.Batch
		for i := range keys {
			b.Put(fixture.Key(i), fmt.Appendf(nil, "%040d", round))
		}
		return d.Apply(&b, db.NoSync)
	}
	require.NoError(t, write(0))
	var readers sync.WaitGroup
	var done atomic.Bool
	for range 3 {
		readers.Go(func() {
			for last := ""; !done.Load() && !t.Failed(); {
				values, err := d.MultiGet(queried)
				if err != nil {
					t.Error(err)
					return
				}
				now := string(values[0])
				for _, v := range values {
					if string(v) != now || now < last {
						t.Errorf("%q next to %q after %q", v, now, last)
						return
					}
				}
				last = now
			}
		})
	}
	for round := range rounds {
		require.NoError(t, write(round+1))
		if round%50 == 0 {
			require.NoError(t, d.Compact(t.Context(), nil, nil))
		}
	}
	done.Store(true)
	readers.Wait()
}

// All kinds of lookups follow references to value tables, and open the envelopes of values that may expire.
func TestAllLookupsFindValuesThatAreApartAndThatExpire(t *testing.T) {
	for _, apart := range []int{0, 1} {
		t.Run(fmt.Sprintf("values apart from %d bytes on", apart), func(t *testing.T) {
			now := time.Now()
			o := storetest.Options(vfs.NewMem())
			o.Tables.SeparateValues, o.Compaction.L0Trigger = apart, 100
			o.Expiry = db.ExpiryOptions{Prefixes: [][]byte{[]byte("t/")}, Clock: func() time.Time { return now }}
			d := storetest.Open(t, o)
			want := fixture.Contents{}
			for run := range 3 { // two tables and the memtable
				for i := range 20 {
					key := fmt.Sprintf("k%d/%d", run, i)
					want[key] = strings.Repeat(key, 10)
					require.NoError(t, d.Put([]byte(key), []byte(want[key]), db.NoSync))
					key = fmt.Sprintf("t/%d/%d", run, i)
					value := strings.Repeat(key, 10)
					if want[key] = value; i%2 == 0 {
						delete(want, key)
						require.NoError(t, d.PutTTL([]byte(key), []byte(value), time.Minute, db.NoSync))
					} else {
						require.NoError(t, d.Put([]byte(key), []byte(value), db.NoSync))
					}
				}
				if run < 2 {
					require.NoError(t, d.Flush())
				}
			}
			alive := maps.Clone(want)
			for run := range 3 {
				for i := 0; i < 20; i += 2 {
					key := fmt.Sprintf("t/%d/%d", run, i)
					alive[key] = strings.Repeat(key, 10)
				}
			}
			storetest.RequireAllAgree(t, d, alive, "k0", "t/", "t/9/9")
			now = now.Add(2 * time.Minute)
			storetest.RequireAllAgree(t, d, want, "k0", "t/", "t/0/0", "t/1/2", "t/2/4")
			x := storetest.Explain(t, d, []byte("t/0/0"))
			require.True(t, x.Expired)
		})
	}
}
