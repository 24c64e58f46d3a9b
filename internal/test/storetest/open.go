package storetest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/test/crashtest/order"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// Options returns options with small sizes, so that a few thousand keys fill several levels. The
// order of the store's operations is checked; see fixture.CheckOrder.
func Options(fs vfs.FS) *db.Options {
	return &db.Options{
		FS: fixture.CheckOrder(fs), Memtables: db.MemtableOptions{Size: 16 << 10}, Tables: db.TableOptions{Size: 8 << 10, BlockSize: 512},
		Compaction: db.CompactionOptions{MaxLevelBase: 32 << 10},
		Cache:      db.CacheOptions{Size: 256 << 10},
	}
}

// DividedOptions returns options with tables so small that a compaction of a few hundred entries is divided into pieces,
// so many at a time. No background compaction begins as long as only level 0 grows.
func DividedOptions(fs vfs.FS, pieces int) *db.Options {
	o := Options(fs)
	o.Tables.Size, o.Tables.Compression, o.Compaction.MaxConcurrent = 4<<10, db.NoCompression, pieces
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 1000, 1000, 2000
	return o
}

// MustOpen opens the directory "db". The test fails at its end if the store did operations on files in a wrong order.
func MustOpen(t testing.TB, o *db.Options) *db.DB {
	t.Helper()
	if _, test := t.(*testing.T); test && o != nil && o.FS != nil {
		checked := *o
		checked.FS = fixture.CheckOrder(o.FS)
		o = &checked
		t.Cleanup(func() { require.Empty(t, o.FS.(*order.FS).Violations(), "order of operations") })
	}
	d, err := db.Open("db", o)
	require.NoError(t, err)
	return d
}

// Open is MustOpen, and the end of the test closes the store.
func Open(t testing.TB, o *db.Options) *db.DB {
	t.Helper()
	d := MustOpen(t, o)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Fill puts keys [from, to) in random order, with their fixture.Value.
func Fill(t testing.TB, d *db.DB, from, to int) {
	t.Helper()
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(to - from) {
		require.NoError(t, d.Put(fixture.Key(from+i), fixture.Value(from+i), db.NoSync))
	}
}

// PutAll puts pairs of a key and a value.
func PutAll(t testing.TB, d *db.DB, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		require.NoError(t, d.Put([]byte(pairs[i]), []byte(pairs[i+1]), db.NoSync))
	}
}

// Settle flushes and waits until no compaction is due.
func Settle(t testing.TB, d *db.DB) {
	t.Helper()
	require.NoError(t, d.Flush())
	fixture.Eventually(t, func() bool {
		// One that runs holds its tables, for which another may be due after it.
		before := compactions(d)
		if running(t, d) > 0 {
			return false
		}
		// SetOptions starts what is due before it returns. It has ended already if one more is counted.
		o := d.Options()
		require.NoError(t, d.SetOptions(&o))
		return running(t, d) == 0 && compactions(d) == before
	})
}

// running returns how many compactions have begun and not ended, and requires that none has failed.
func running(t testing.TB, d *db.DB) int {
	t.Helper()
	m := d.Metrics()
	require.NoError(t, m.BackgroundError)
	return len(m.Compactions.Running)
}

// compactions returns how many compactions have ended, of all kinds. One is counted before it is no longer running.
func compactions(d *db.DB) uint64 {
	m := d.Metrics()
	return m.Compactions.Count + m.Compactions.TrivialMoves + m.Expiry.TablesDropped
}

// RequireValue requires that Get returns want.
func RequireValue(t testing.TB, d *db.DB, key, want []byte) {
	t.Helper()
	got, err := d.Get(key)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// RequireNoFaults requires that Check finds none.
func RequireNoFaults(t testing.TB, d *db.DB) {
	t.Helper()
	checked, err := d.Check(t.Context())
	require.NoError(t, err)
	require.Empty(t, checked.Faults)
}

// MustFollow opens a follower of the directory "db", which the end of the test closes.
func MustFollow(t testing.TB, o *db.Options) *db.DB {
	t.Helper()
	f, err := db.OpenFollower("db", o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			require.ErrorIs(t, err, db.ErrClosed)
		}
	})
	return f
}

// NewLoader begins a load.
func NewLoader(t testing.TB, d *db.DB) *db.Loader {
	t.Helper()
	l, err := d.NewLoader()
	require.NoError(t, err)
	return l
}

// CheckpointTo makes a checkpoint in dir.
func CheckpointTo(t testing.TB, d *db.DB, dir string) report.Checkpoint {
	t.Helper()
	info, err := d.Checkpoint(t.Context(), dir, nil)
	require.NoError(t, err)
	return info
}

// FillUnder writes keys [from, to) with a filter policy, which stays in o, to a table of their own.
func FillUnder(t testing.TB, o *db.Options, p filter.Policy, from, to int) {
	t.Helper()
	o.Filters.Policy, o.Compaction.L0Trigger = p, 100
	d := MustOpen(t, o)
	Fill(t, d, from, to)
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
}

// FilledLevels fills a store with n even keys in several levels, and opens it again. The end of the test closes it.
func FilledLevels(t testing.TB, o *db.Options, n int) *db.DB {
	t.Helper()
	d := MustOpen(t, o)
	put := func(i int) {
		require.NoError(t, d.Put(fixture.Key(2*((i*7919)%n)), fixture.Value(i), db.NoSync))
	}
	for i := range n {
		put(i)
	}
	Settle(t, d)
	if OccupiedLevels(d) == 1 { // the last compaction may have merged all tables; another table then gets its own level
		put(0)
		Settle(t, d)
	}
	require.GreaterOrEqual(t, OccupiedLevels(d), 2, "the test needs several levels")
	require.NoError(t, d.Close())
	return Open(t, o)
}

// OccupiedLevels returns the number of levels with tables.
func OccupiedLevels(d *db.DB) (levels int) {
	for _, l := range d.Metrics().Levels {
		if l.Tables > 0 {
			levels++
		}
	}
	return levels
}
