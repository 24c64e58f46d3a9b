package db_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// testClock is a clock that tests move, in milliseconds.
type testClock struct{ ms atomic.Int64 }

func newTestClock() *testClock {
	c := &testClock{}
	c.ms.Store(1_700_000_000_000)
	return c
}

func (c *testClock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

func (c *testClock) move(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// expiryOptions returns options under which values of keys that begin with t/ may expire, and
// compactions begin only when a test wants one.
func expiryOptions(c *testClock) *db.Options {
	o := filterOptions(nil)
	o.Expiry = db.ExpiryOptions{Prefixes: [][]byte{[]byte("t/")}, Clock: c.now}
	return o
}

// expiringStore opens a store with these options.
func expiringStore(t *testing.T) (*testClock, *db.DB) {
	c := newTestClock()
	return c, openTest(t, expiryOptions(c))
}

// requireShown opens a database, requires its content, and closes it.
func requireShown(t *testing.T, o *db.Options, pairs ...string) {
	t.Helper()
	d := mustOpen(t, o)
	requireContent(t, d, pairs...)
	require.NoError(t, d.Close())
}

func putTTL(t testing.TB, d *db.DB, key, value string, ttl time.Duration) {
	t.Helper()
	require.NoError(t, d.PutTTL([]byte(key), []byte(value), ttl, db.NoSync))
}

// requireEverywhere is requireContent for the present, after a flush and after a compaction.
func requireEverywhere(t *testing.T, d *db.DB, pairs ...string) {
	t.Helper()
	requireContent(t, d, pairs...)
	require.NoError(t, d.Flush())
	requireContent(t, d, pairs...)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	requireContent(t, d, pairs...)
}

func TestValuesExpireAtTheirTime(t *testing.T) {
	c, d := expiringStore(t)
	putTTL(t, d, "t/a", "1", time.Second)
	putTTL(t, d, "t/b", "2", 2*time.Second)
	putAll(t, d, "t/c", "3", "u", "4")
	requireEverywhere(t, d, "t/a", "1", "t/b", "2", "t/c", "3", "u", "4")
	c.move(999 * time.Millisecond)
	requireContent(t, d, "t/a", "1", "t/b", "2", "t/c", "3", "u", "4")
	c.move(time.Millisecond)
	requireContent(t, d, "t/a", "", "t/b", "2", "t/c", "3", "u", "4")
	c.move(-time.Hour)
	requireContent(t, d, "t/a", "", "t/b", "2", "t/c", "3", "u", "4") // it does not come back
	requireEverywhere(t, d, "t/a", "", "t/b", "2", "t/c", "3", "u", "4")
	require.Empty(t, entriesOf(t, d.Directory().FS, "t/a"), "the space is free")
	c.move(time.Hour + time.Second)
	requireEverywhere(t, d, "t/a", "", "t/b", "", "t/c", "3", "u", "4")
	m := d.Metrics()
	require.EqualValues(t, 2, m.Expiry.ValuesDropped)
	require.Equal(t, c.now().UnixMilli(), m.Expiry.Time.UnixMilli())
	require.Positive(t, m.Expiry.Hidden)
	require.EqualValues(t, 5, m.Lookups.Count-m.Expiry.Hidden-m.Lookups.Found, "lookups of dropped values")
	requireNoFaults(t, d)
}

// What is hidden does not uncover an older value, nor the other way round.
func TestAnExpiredValueHidesOlderOnes(t *testing.T) {
	c, d := expiringStore(t)
	putAll(t, d, "t/a", "lasting", "t/z", "z")
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	putTTL(t, d, "t/a", "short", time.Second)
	c.move(time.Second)
	requireContent(t, d, "t/a", "", "t/z", "z")
	require.NoError(t, d.Flush())
	putAll(t, d, "t/b", "b", "t/a1", "x")
	require.NoError(t, d.Flush())
	requireContent(t, d, "t/a", "", "t/a1", "x", "t/b", "b", "t/z", "z")
	requireEverywhere(t, d, "t/a", "", "t/a1", "x", "t/b", "b", "t/z", "z")

	putTTL(t, d, "t/a", "short", time.Second)
	putAll(t, d, "t/a", "lasting again")
	c.move(time.Second)
	requireEverywhere(t, d, "t/a", "lasting again")
	require.NoError(t, d.Delete([]byte("t/a"), db.NoSync))
	requireEverywhere(t, d, "t/a", "")
}

// Snapshots, iterators and transactions keep the time at which they were opened.
func TestReadersOfOneMomentKeepItsTime(t *testing.T) {
	c, d := expiringStore(t)
	putTTL(t, d, "t/a", "1", time.Second)
	putTTL(t, d, "t/b", "2", time.Minute)
	early := d.NewSnapshot()
	defer early.Close()
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	defer it.Close()
	tx := d.NewTransaction(nil)
	defer func() { _ = tx.Close() }()
	c.move(time.Second)
	late := d.NewSnapshot()
	defer late.Close()
	c.move(time.Minute)
	for range 2 {
		requireContent(t, early, "t/a", "1", "t/b", "2")
		requireContent(t, late, "t/a", "", "t/b", "2")
		requireContent(t, d, "t/a", "", "t/b", "")
		requireContent(t, tx, "t/a", "1", "t/b", "2")
		values, err := early.MultiGet([][]byte{[]byte("t/a"), []byte("t/b"), []byte("t/c")})
		require.NoError(t, err)
		require.Equal(t, [][]byte{[]byte("1"), []byte("2"), nil}, values)
		require.True(t, it.First())
		require.Equal(t, "1", string(it.Value()))
		require.True(t, it.Last())
		require.Equal(t, "2", string(it.Value()))
		require.NoError(t, d.Compact(t.Context(), nil, nil))
	}
	values, err := d.MultiGet([][]byte{[]byte("t/a"), []byte("t/b")})
	require.NoError(t, err)
	require.Equal(t, [][]byte{nil, nil}, values)
}

func TestTheTimeSurvivesReopening(t *testing.T) {
	c := newTestClock()
	o := expiryOptions(c)
	d := mustOpen(t, o)
	putTTL(t, d, "t/a", "1", time.Second)
	putTTL(t, d, "t/b", "2", time.Minute)
	c.move(time.Second)
	requireContent(t, d, "t/a", "", "t/b", "2")
	require.NoError(t, d.Close())
	c.move(-time.Hour)
	for _, readOnly := range []bool{true, false} {
		o.ReadOnly = readOnly
		requireShown(t, o, "t/a", "", "t/b", "2")
	}
	plain := filterOptions(nil) // an opening without the option keeps the time
	plain.FS, plain.Expiry.Clock = o.FS, c.now
	require.NoError(t, mustOpen(t, plain).Close())
	d = mustOpen(t, o)
	requireContent(t, d, "t/a", "", "t/b", "2")
	c.move(time.Hour + time.Minute)
	requireContent(t, d, "t/a", "", "t/b", "")
	require.NoError(t, d.Close())
}

func TestBatchesAndTransactionsAndLoadsWithTTL(t *testing.T) {
	c, d := expiringStore(t)
	var b, more db.Batch
	b.Put([]byte("t/a"), []byte("1"))
	b.PutTTL([]byte("t/b"), []byte("2"), time.Second)
	b.Put([]byte("u"), []byte("3"))
	b.Delete([]byte("t/gone"))
	more.PutTTL([]byte("t/c"), nil, 2*time.Second)
	b.Append(&more)
	b.Append(&b)
	before := b.Size()
	c.move(time.Hour) // the time to live begins with Apply
	for range 2 {
		require.NoError(t, d.Apply(&b, db.NoSync))
		require.Equal(t, before, b.Size(), "the batch does not change")
	}
	_, err := b.MarshalBinary()
	require.ErrorContains(t, err, "PutTTL")
	requireContent(t, d, "t/a", "1", "t/b", "2", "u", "3")
	c.move(time.Second)
	requireContent(t, d, "t/a", "1", "t/b", "", "u", "3")
	has, err := d.Has([]byte("t/c"))
	require.NoError(t, err)
	require.True(t, has)
	b.Reset()
	b.Put([]byte("t/b"), []byte("lasting"))
	data, err := b.MarshalBinary()
	require.NoError(t, err)
	require.NoError(t, more.UnmarshalBinary(data))
	require.NoError(t, d.Apply(&more, db.NoSync))
	c.move(time.Hour)
	requireContent(t, d, "t/a", "1", "t/b", "lasting", "u", "3")

	require.NoError(t, d.Update(func(tx *db.Transaction) error {
		require.NoError(t, tx.PutTTL([]byte("t/d"), []byte("4"), time.Second))
		require.NoError(t, tx.Put([]byte("t/e"), []byte("5")))
		requireContent(t, tx, "t/a", "1", "t/b", "lasting", "t/d", "4", "t/e", "5", "u", "3")
		return tx.Delete([]byte("t/a"))
	}))
	requireEverywhere(t, d, "t/a", "", "t/d", "4", "t/e", "5", "u", "3")
	c.move(time.Second)
	requireContent(t, d, "t/d", "", "t/e", "5")
	require.NoError(t, d.Modify([]byte("t/d"), func(old []byte) ([]byte, error) {
		require.Nil(t, old)
		return []byte("new"), nil
	}, db.NoSync))
	requireContent(t, d, "t/d", "new")

	l := newLoader(t, d)
	require.NoError(t, l.Put([]byte("t/l1"), []byte("6")))
	require.NoError(t, l.PutTTL([]byte("t/l2"), []byte("7"), time.Second))
	require.NoError(t, l.Put([]byte("x"), []byte("8")))
	require.NoError(t, l.Commit())
	requireEverywhere(t, d, "t/l1", "6", "t/l2", "7", "x", "8")
	c.move(time.Second)
	requireEverywhere(t, d, "t/l1", "6", "t/l2", "", "x", "8")
}

func TestWrongUsesOfPutTTLAreRefused(t *testing.T) {
	d := openTest(t, expiryOptions(newTestClock()))
	plain := openTest(t, testOptions(vfs.NewMem()))
	var b db.Batch
	refused := func(want string, err error) {
		t.Helper()
		require.ErrorContains(t, err, want)
	}
	refused("the time to live is 0s; it must be positive", d.PutTTL([]byte("t/a"), nil, 0, nil))
	refused("under none of Options.Expiry.Prefixes", d.PutTTL([]byte("a"), nil, time.Second, nil))
	refused("under none of Options.Expiry.Prefixes", plain.PutTTL([]byte("t/a"), nil, time.Second, nil))
	b.Put([]byte("t/first"), nil)
	b.PutTTL([]byte("a"), nil, time.Second)
	refused("under none of Options.Expiry.Prefixes", d.Apply(&b, nil))
	refused("under none of Options.Expiry.Prefixes", plain.Apply(&b, nil))
	b.Reset()
	b.PutTTL([]byte("t/a"), nil, -time.Second)
	refused("the time to live is -1s; it must be positive", d.Apply(&b, nil))
	require.True(t, b.Content().Begin()) // as another goroutine
	b.PutTTL([]byte("t/a"), nil, time.Second)
	b.Content().End()
	refused("several goroutines used the batch", d.Apply(&b, nil))
	for want, put := range map[string]func(l *db.Loader) error{
		"must be positive":        func(l *db.Loader) error { return l.PutTTL([]byte("t/l3"), nil, 0) },
		"Options.Expiry.Prefixes": func(l *db.Loader) error { return l.PutTTL([]byte("x"), nil, time.Second) },
	} {
		l := newLoader(t, d)
		refused(want, put(l))
		refused(want, l.Put([]byte("t/z"), nil)) // the load has ended
		refused(want, l.Commit())
	}
	require.ErrorIs(t, d.PutTTL([]byte("t/a"), make([]byte, db.MaxValueSize-expiry.HeaderLen+1), time.Second, nil), db.ErrTooLarge)
	for _, r := range []*db.DB{d, plain} {
		it, err := r.NewIterator(nil)
		require.NoError(t, err)
		require.False(t, it.First(), "nothing was written")
		require.NoError(t, it.Close())
	}
	require.Equal(t, db.ErrClosed, (*db.DB)(nil).PutTTL(nil, nil, 1, nil))
	require.Equal(t, db.ErrClosed, new(db.DB).PutTTL(nil, nil, 1, nil))
	require.Equal(t, db.ErrClosed, (*db.Loader)(nil).PutTTL(nil, nil, 1))
	require.Equal(t, db.ErrClosed, new(db.Transaction).PutTTL(nil, nil, 1))
	view := d.NewTransaction(&db.TransactionOptions{ReadOnly: true})
	require.ErrorIs(t, view.PutTTL([]byte("t/a"), nil, 1), db.ErrReadOnly)
	require.NoError(t, view.Close())

	_, err := db.Open("x", &db.Options{FS: vfs.NewMem(), Expiry: db.ExpiryOptions{Namespaces: []string{""}}})
	refused("Options.Expiry.Namespaces: sievedb: Namespace: the name is empty", err)
	_, err = db.Open("x", &db.Options{FS: vfs.NewMem(), Filters: db.FilterOptions{Policy: always}, Expiry: db.ExpiryOptions{Prefixes: [][]byte{nil}},
		Comparer: &db.Comparer{Name: "inexact", Compare: bytes.Compare, InexactEqual: true}})
	refused("leave Options.Expiry.Prefixes empty", err)
}

func TestValuesInNamespacesExpire(t *testing.T) {
	c := newTestClock()
	o := expiryOptions(c)
	o.Expiry.Namespaces = []string{"sessions"}
	d := openTest(t, o)
	sessions, err := d.Namespace("sessions")
	require.NoError(t, err)
	others, err := d.Namespace("others")
	require.NoError(t, err)
	inner, err := sessions.Namespace("inner")
	require.NoError(t, err)
	require.NoError(t, sessions.PutTTL([]byte("a"), []byte("1"), time.Second, nil))
	require.NoError(t, inner.PutTTL([]byte("a"), []byte("2"), time.Second, nil))
	require.NoError(t, sessions.Put([]byte("b"), []byte("3"), nil))
	require.ErrorContains(t, others.PutTTL([]byte("a"), []byte("4"), time.Second, nil), "Options.Expiry.Prefixes")
	requireContent(t, sessions, "a", "1", "b", "3")
	requireContent(t, inner, "a", "2")
	c.move(time.Second)
	requireContent(t, sessions, "a", "", "b", "3")
	requireContent(t, inner, "a", "")
	require.Equal(t, db.ErrClosed, (*db.Namespace)(nil).PutTTL(nil, nil, 1, nil))
}

// A value without an envelope is an error for its key, and for iterators that come to it.
func TestAValueWithoutAnEnvelopeIsAnErrorForItsKey(t *testing.T) {
	o := expiryOptions(newTestClock())
	require.NoError(t, mustOpen(t, o).Close())
	plain := filterOptions(nil)
	plain.FS, plain.Expiry.Raw = o.FS, true
	d := mustOpen(t, plain)
	putAll(t, d, "s", "0", "t/a", "written without the option", "t/b", "", "t/c", "3", "t/d", "4")
	require.NoError(t, d.Close())
	d = openTest(t, o)
	require.NoError(t, d.DeleteRange(t.Context(), []byte("t/c"), []byte("t/d"), nil))
	require.NoError(t, d.Update(func(tx *db.Transaction) error { return tx.DeleteRange([]byte("t/d"), []byte("t/e")) }))
	for range 2 {
		requireContent(t, &without{d}, "s", "0")
		for _, key := range []string{"t/a", "t/b"} {
			_, err := d.Get([]byte(key))
			require.ErrorIs(t, err, db.ErrNoEnvelope)
			require.ErrorContains(t, err, "Options.Expiry.Prefixes")
			_, err = d.Has([]byte(key))
			require.ErrorIs(t, err, db.ErrNoEnvelope)
			_, err = d.MultiGet([][]byte{[]byte("s"), []byte(key)})
			require.ErrorIs(t, err, db.ErrNoEnvelope)
			_, err = d.Explain([]byte(key))
			require.ErrorIs(t, err, db.ErrNoEnvelope)
		}
		it, err := d.NewIterator(nil)
		require.NoError(t, err)
		require.True(t, it.First())
		require.False(t, it.Next())
		require.ErrorIs(t, it.Err(), db.ErrNoEnvelope)
		require.False(t, it.First())
		require.ErrorIs(t, it.Close(), db.ErrNoEnvelope)
		it, err = d.NewIterator(nil)
		require.NoError(t, err)
		require.False(t, it.Last())
		require.ErrorIs(t, it.Close(), db.ErrNoEnvelope)
		require.NoError(t, d.Compact(t.Context(), nil, nil), "compactions keep it")
	}
	putAll(t, d, "t/a", "new")
	require.NoError(t, d.Delete([]byte("t/b"), db.NoSync))
	requireEverywhere(t, d, "s", "0", "t/a", "new", "t/b", "", "t/c", "", "t/d", "")
}

// without is a store whose iterators stop before the values that lack an envelope.
type without struct{ *db.DB }

func (w *without) NewIterator(*db.IterOptions) (*db.Iterator, error) {
	return w.DB.NewIterator(&db.IterOptions{UpperBound: []byte("t/")})
}

// countTableReads gives the options a file system in memory, and returns the number of reads of tables there.
func countTableReads(o *db.Options) *atomic.Int64 {
	var reads atomic.Int64
	o.FS = wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpRead && filepath.Ext(op.Name) == ".ldb" {
			reads.Add(1)
		}
		return nil
	})
	return &reads
}

// The values of expired tables are not read, and neither are their properties, which are known.
func TestExpiredTablesAreRemovedWithoutBeingRead(t *testing.T) {
	synctest.Test(t, expiredTablesAreRemovedWithoutBeingRead)
}

func expiredTablesAreRemovedWithoutBeingRead(t *testing.T) {
	c := newTestClock()
	o := expiryOptions(c)
	o.Tables.Compression = db.NoCompression
	reads := countTableReads(o)
	var last atomic.Pointer[db.CompactionInfo]
	o.EventListener = &db.EventListener{CompactionEnd: func(i db.CompactionInfo) { last.Store(&i) }}
	d := openTest(t, o)
	for i := range 300 {
		putTTL(t, d, "t/"+string(testKey(i)), strings.Repeat("v", 100), time.Minute)
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	putAll(t, d, "t/key000007x", "stays")
	putTTL(t, d, "t/key000008", "newer", time.Hour)
	require.NoError(t, d.Flush())
	tables := len(d.State().Version.Levels[db.NumLevels-1].Files)
	require.Greater(t, tables, 2)
	s := d.NewSnapshot()
	c.move(time.Minute)
	d.Scheduler().Schedule()
	waitUntilIdle(d)
	require.Len(t, d.State().Version.Levels[db.NumLevels-1].Files, tables, "the snapshot sees them")
	requireContent(t, s, "t/key000008", "newer", "t/key000009", strings.Repeat("v", 100))
	late := d.NewSnapshot() // it hides them
	defer late.Close()
	resume, err := d.PauseCompactions(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	d.Scheduler().Schedule()
	require.Len(t, d.State().Version.Levels[db.NumLevels-1].Files, tables, "the set of tables does not change in a pause")
	synctest.Wait() // for a look at tables that began before their values had expired
	before := reads.Load()
	resume()
	d.Scheduler().Schedule()
	waitUntilIdle(d)
	require.Empty(t, d.State().Version.Levels[db.NumLevels-1].Files)
	require.Equal(t, before, reads.Load())
	m := d.Metrics()
	require.EqualValues(t, tables, m.Expiry.TablesDropped)
	require.Zero(t, m.Expiry.ValuesDropped)
	require.Equal(t, "all values have expired", last.Load().Reason)
	require.Equal(t, []int{db.NumLevels - 1, tables, 0}, []int{last.Load().InputLevel, last.Load().InputTables, last.Load().OutputTables})
	requireContent(t, d, "t/key000007x", "stays", "t/key000008", "newer", "t/key000009", "")
	require.NoError(t, strayFilesWhenIdle(d, d.Directory().FS))
	requireNoFaults(t, d)
}

// An opening samples tables with values that expire, and not those whose values have all expired.
func TestTablesThatExpiredMeanwhileAreRemovedWithoutBeingRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		o := expiryOptions(c)
		o.Tables.Compression = db.NoCompression
		reads := countTableReads(o)
		d := openTest(t, o)
		for i := range 300 {
			putTTL(t, d, "t/"+string(testKey(i)), strings.Repeat("v", 100), time.Minute)
		}
		require.NoError(t, d.Compact(t.Context(), nil, nil))
		tables := len(d.State().Version.Levels[db.NumLevels-1].Files)
		require.Greater(t, tables, 2)
		require.NoError(t, d.Close())
		c.move(time.Minute)
		reads.Store(0)
		d = openTest(t, o)
		synctest.Wait()
		waitUntilIdle(d)
		require.Empty(t, d.State().Version.Levels[db.NumLevels-1].Files)
		require.EqualValues(t, tables, reads.Load(), "the properties of each table are read")
	})
}

// A merge drops what has expired at its beginning. A snapshot that is opened while it begins, or
// later, may have an earlier time than the values after it.
func TestAMergeUsesTheTimeBeforeItReadsTheSnapshots(t *testing.T) {
	c := newTestClock()
	o := expiryOptions(c)
	var d *db.DB
	var armed atomic.Bool
	var s *db.Snapshot
	o.Expiry.Clock = func() time.Time {
		stack := make([]byte, 8<<10)
		if armed.Load() && bytes.Contains(stack[:runtime.Stack(stack, false)], []byte("beginFilter")) && armed.CompareAndSwap(true, false) {
			s = d.NewSnapshot()
			c.move(time.Second)
		}
		return c.now()
	}
	d = openTest(t, o)
	putTTL(t, d, "t/a", "1", time.Second)
	putAll(t, d, "t/b", "2")
	require.NoError(t, d.Flush())
	armed.Store(true)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	requireContent(t, s, "t/a", "1", "t/b", "2")
	requireContent(t, d, "t/a", "", "t/b", "2")
	require.NoError(t, s.Close())
}

// A merge drops what a snapshot hides because it had expired before the snapshot was opened, and
// keeps the rest of what it sees.
func TestASnapshotDoesNotKeepWhatHadExpiredForIt(t *testing.T) {
	c := newTestClock()
	o := expiryOptions(c)
	o.Compaction.Filter = testFilter
	d := openTest(t, o)
	putTTL(t, d, "t/a", "1", time.Second)
	putTTL(t, d, "t/b", "2", 2*time.Second)
	putAll(t, d, "t/c", "drop", "u", "drop")
	c.move(time.Second)
	early, late := d.NewSnapshot(), d.NewSnapshot()
	c.move(time.Second)
	for range 2 {
		requireContent(t, early, "t/a", "", "t/b", "2", "t/c", "drop", "u", "drop")
		require.NoError(t, d.Compact(t.Context(), nil, nil))
		require.Empty(t, entriesOf(t, d.Directory().FS, "t/a"))
		require.Len(t, entriesOf(t, d.Directory().FS, "t/b"), 1)
	}
	require.EqualValues(t, 1, d.Metrics().Expiry.ValuesDropped)
	require.NoError(t, early.Close())
	require.NoError(t, late.Close())
	requireEverywhere(t, d, "t/a", "", "t/b", "")
	requireContent(t, d, "t/c", "", "u", "")
}

func TestAMergeUsesTheTimeOfItsBeginning(t *testing.T) {
	c := newTestClock()
	o := expiryOptions(c)
	g := fixture.NewGate()
	o.FS = g.FS()
	d := openTest(t, o)
	putAll(t, d, "t/a", "1") // begins a table, which waits at the gate
	putTTL(t, d, "t/b", "2", time.Second)
	require.NoError(t, d.Flush())
	done := make(chan error)
	g.Closed.Store(true)
	go func() { done <- d.Compact(t.Context(), nil, nil) }()
	<-g.Arrived
	s := d.NewSnapshot()
	defer s.Close()
	c.move(time.Second)
	requireContent(t, d, "t/a", "1", "t/b", "")
	close(g.Open)
	require.NoError(t, <-done)
	requireContent(t, s, "t/a", "1", "t/b", "2")
	requireContent(t, d, "t/a", "1", "t/b", "")
}

// A table knows when its values expire after it was read from disk, moved, copied, or loaded.
func TestTablesRecordWhenTheirValuesExpire(t *testing.T) {
	c := newTestClock()
	o := expiryOptions(c)
	d := mustOpen(t, o)
	want := uint64(c.ms.Load()) + 60_000
	requireExpiry := func(want uint64) {
		t.Helper()
		var all []uint64
		eventually(t, func() bool { // the properties are read in the background
			all = nil
			for _, l := range d.State().Version.Levels {
				for _, f := range l.Files {
					if f.Counts() == nil {
						return false
					}
					all = append(all, f.Counts().Expiry)
				}
			}
			return true
		})
		require.Equal(t, []uint64{want}, all)
	}
	putTTL(t, d, "t/a", "1", time.Second)
	putTTL(t, d, "t/b", "1", time.Minute)
	require.NoError(t, d.Delete([]byte("t/c"), db.NoSync))
	require.NoError(t, d.Flush())
	requireExpiry(want)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	requireExpiry(want)
	_, err := d.UpgradeFilters(t.Context(), nil, &db.UpgradeOptions{})
	require.NoError(t, err)
	require.NoError(t, d.Close())
	o.Filters.Policy = always
	d = mustOpen(t, o)
	requireExpiry(want)
	report, err := d.UpgradeFilters(t.Context(), nil, nil)
	require.NoError(t, err)
	require.Equal(t, 1, report.Upgraded)
	requireExpiry(want)
	putAll(t, d, "t/d", "does not expire")
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	requireExpiry(0)
	require.NoError(t, d.Close())
}

// A table that was written under other prefixes may have values that readers now see.
func TestTablesOfOtherPrefixesAreNotRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		prefixes []string
		removed  bool
	}{
		"the same": {[]string{"t/", "s/"}, true}, "one of them, and the other is recorded": {[]string{"t/"}, true}, "a shorter one": {[]string{"t"}, false},
		"another": {[]string{"x"}, false}, "more, but one covers each key": {[]string{"t/", "s/", "x"}, false}, "one for all keys": {[]string{""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestClock()
			o := expiryOptions(c)
			o.Expiry.Prefixes = append(o.Expiry.Prefixes, []byte("s/"))
			d := mustOpen(t, o)
			putTTL(t, d, "t/a", "1", time.Second)
			putTTL(t, d, "s/b", "1", time.Second)
			require.NoError(t, d.Flush())
			require.NoError(t, d.Close())
			o.Expiry.Prefixes = nil
			for _, p := range test.prefixes {
				o.Expiry.Prefixes = append(o.Expiry.Prefixes, []byte(p))
			}
			c.move(time.Minute)
			d = openTest(t, o)
			eventually(t, func() bool {
				files := d.State().Version.Levels[0].Files
				return len(files) == 0 || files[0].Counts() != nil
			})
			d.Scheduler().Schedule()
			waitUntilIdle(d)
			require.Equal(t, test.removed, d.State().Version.NumFiles() == 0)
		})
	}
}

func TestExplainSaysThatAValueHasExpired(t *testing.T) {
	c, d := expiringStore(t)
	putTTL(t, d, "t/a", "1", time.Second)
	defer d.NewSnapshot().Close() // otherwise the table is removed
	for _, flush := range []bool{false, true} {
		if flush {
			require.NoError(t, d.Flush())
			c.move(-time.Second)
		}
		x, err := d.Explain([]byte("t/a"))
		require.NoError(t, err)
		require.Equal(t, []bool{!flush, flush, false}, []bool{x.Found, x.Expired, x.Deleted}, x.String())
		c.move(time.Second)
		x, err = d.Explain([]byte("t/a"))
		require.NoError(t, err)
		require.Equal(t, []bool{false, true, false}, []bool{x.Found, x.Expired, x.Deleted}, x.String())
		require.Contains(t, x.String(), "expired: ")
	}
}

// While the time passes in one goroutine, readers in others never see a value again that one of
// them has missed, and see none after its time.
func TestExpiredValuesStayHiddenDuringCompactions(t *testing.T) {
	c := newTestClock()
	o := expiryOptions(c)
	o.Compaction.L0Trigger, o.Compaction.MaxConcurrent, o.Memtables.Size = 2, 2, 8<<10
	d := openTest(t, o)
	const keys = 400
	key := func(i int) []byte { return fmt.Appendf(nil, "t/%06d", i) }
	for i := range keys {
		putTTL(t, d, string(key(i)), strings.Repeat("v", 50), time.Duration(1+i)*time.Millisecond)
	}
	stop, done := make(chan struct{}), make(chan error, 3)
	go func() { // writes other keys, to cause compactions
		var err error
		for i := 0; err == nil && !closed(stop); i++ {
			err = d.PutTTL(fmt.Appendf(nil, "t/x%06d", i%500), bytes.Repeat([]byte("w"), 100), time.Duration(1+i%7)*time.Millisecond, db.NoSync)
		}
		done <- err
	}()
	var missed [keys]atomic.Bool
	for range 2 {
		go func() { done <- readUntil(d, key, missed[:], stop) }()
	}
	start := c.ms.Load()
	for c.ms.Load() < start+keys {
		c.move(time.Millisecond)
		if c.ms.Load()%10 == 0 {
			c.move(-5 * time.Millisecond)
			runtime.Gosched()
			c.move(5 * time.Millisecond)
			require.NoError(t, d.Flush())
		}
	}
	close(stop)
	for range 3 {
		require.NoError(t, <-done)
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	requireNoFaults(t, d)
	for i := range keys {
		_, err := d.Get(key(i))
		require.Equal(t, db.ErrNotFound, err)
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// readUntil reads until stop is closed. Value number i expires i+1 milliseconds after the start.
func readUntil(d *db.DB, key func(int) []byte, missed []atomic.Bool, stop chan struct{}) error {
	for i := 0; !closed(stop); i = (i + 7) % len(missed) {
		was := missed[i].Load()
		_, err := d.Get(key(i))
		switch {
		case err == nil && was:
			return fmt.Errorf("value %d was shown again", i)
		case err == db.ErrNotFound:
			missed[i].Store(true)
		case err != nil:
			return err
		}
		was = missed[i].Load() // before the snapshot: what is hidden later, the snapshot may show
		s := d.NewSnapshot()
		_, first := s.Get(key(i))
		_, second := s.Get(key(i))
		_ = s.Close()
		if first != second || first == nil && was {
			return fmt.Errorf("value %d of a snapshot: %v, then %v; hidden before: %v", i, first, second, was)
		}
	}
	return nil
}

// Close records the time, and a crash keeps that of the last flush or compaction.
func TestTheTimeOfTheLastEditSurvivesACrash(t *testing.T) {
	c := newTestClock()
	o := expiryOptions(c)
	mem := vfs.NewMem()
	o.FS = mem
	d := mustOpen(t, o)
	putTTL(t, d, "t/a", "1", time.Second)
	c.move(time.Second)
	requireContent(t, d, "t/a", "")
	require.NoError(t, d.Flush())
	crashed := mem.Crash()
	require.NoError(t, d.Close())
	c.move(-time.Hour)
	o.FS = crashed
	requireShown(t, o, "t/a", "")
}

// A wrong clock put the time of the store far ahead, so that times to live last for years. There is no other fault.
func TestRepairForgetsATimeThatIsFarAhead(t *testing.T) {
	c := newTestClock()
	o := expiryOptions(c)
	for _, ahead := range []time.Duration{time.Hour, 1000 * 24 * time.Hour} {
		d := mustOpen(t, o)
		right := c.now()
		putAll(t, d, "t/a", "1")
		c.move(ahead)
		d.Metrics()
		require.NoError(t, d.Close())
		c.move(-ahead)
		report, err := db.RepairWithReport("db", o)
		require.NoError(t, err)
		require.Equal(t, ahead == time.Hour, report.Healthy)
		if !report.Healthy {
			require.Contains(t, report.ManifestProblem, "the time of the store is 24000h0m0s ahead of the clock")
		}
		d = mustOpen(t, o)
		if !report.Healthy {
			require.Equal(t, right.UnixMilli(), d.Metrics().Expiry.Time.UnixMilli())
		}
		requireContent(t, d, "t/a", "1")
		require.NoError(t, d.Close())
	}
}

// The bug: MultiGet of a transaction read what its own writes hide, and failed where that has no envelope.
func TestMultiGetOfATransactionDoesNotReadWhatItWrote(t *testing.T) {
	d := openTest(t, expiryOptions(newTestClock()))
	for _, key := range []string{"t/a", "t/b"} { // without envelopes, as if the directory were damaged
		require.NoError(t, d.PutSealed([]byte(key), []byte("raw")))
	}
	putAll(t, d, "u", "1")
	tx := d.NewTransaction(nil)
	defer tx.Close()
	require.NoError(t, tx.Put([]byte("t/a"), []byte("mine")))
	require.NoError(t, tx.Delete([]byte("t/b")))
	values, err := tx.MultiGet([][]byte{[]byte("t/b"), []byte("t/a"), []byte("u"), []byte("v")})
	require.NoError(t, err)
	require.Equal(t, [][]byte{nil, []byte("mine"), []byte("1"), nil}, values)
	_, err = d.MultiGet([][]byte{[]byte("t/a")})
	require.ErrorIs(t, err, db.ErrNoEnvelope)
}
