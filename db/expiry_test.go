package db_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base/expiry"
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

func putTTL(t testing.TB, d *db.DB, key, value string, ttl time.Duration) {
	t.Helper()
	require.NoError(t, d.PutTTL([]byte(key), []byte(value), ttl, db.NoSync))
}

func TestBatchesWithTTL(t *testing.T) {
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
}

// The script all-writes-have-times-to-live has the other wrong uses.
func TestWrongUsesOfPutTTLAreRefused(t *testing.T) {
	d := openTest(t, expiryOptions(newTestClock()))
	plain := openTest(t, testOptions(vfs.NewMem()))
	var b db.Batch
	b.Put([]byte("t/first"), nil)
	b.PutTTL([]byte("a"), nil, time.Second)
	require.ErrorContains(t, d.Apply(&b, nil), "under none of Options.Expiry.Prefixes")
	require.ErrorContains(t, plain.Apply(&b, nil), "under none of Options.Expiry.Prefixes")
	b.Reset()
	b.PutTTL([]byte("t/a"), nil, -time.Second)
	require.ErrorContains(t, d.Apply(&b, nil), "the time to live is -1s; it must be positive")
	require.True(t, b.Content().Begin()) // as another goroutine
	b.PutTTL([]byte("t/a"), nil, time.Second)
	b.Content().End()
	require.ErrorContains(t, d.Apply(&b, nil), "several goroutines used the batch")
	require.ErrorIs(t, d.PutTTL([]byte("t/a"), make([]byte, db.MaxValueSize-expiry.HeaderLen+1), time.Second, nil), db.ErrTooLarge)
	require.Empty(t, contentsIn(t, d))
	require.Empty(t, contentsIn(t, plain))
	for _, none := range []error{
		(*db.DB)(nil).PutTTL(nil, nil, 1, nil), new(db.DB).PutTTL(nil, nil, 1, nil), (*db.Namespace)(nil).PutTTL(nil, nil, 1, nil),
		(*db.Loader)(nil).PutTTL(nil, nil, 1), new(db.Transaction).PutTTL(nil, nil, 1),
	} {
		require.Equal(t, db.ErrClosed, none)
	}
	_, _, err := (*db.DB)(nil).GetTTL(nil)
	require.Equal(t, db.ErrClosed, err)
	require.Zero(t, (*db.Iterator)(nil).TTL())
	view := d.NewTransaction(&db.TransactionOptions{ReadOnly: true})
	require.ErrorIs(t, view.PutTTL([]byte("t/a"), nil, 1), db.ErrReadOnly)
	require.NoError(t, view.Close())
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

// The bug: the holder of a lock that had ended committed after others had seen the lock free.
func TestATransactionConflictsIfAValueThatItReadHasExpired(t *testing.T) {
	reads := map[string]func(tx *db.Transaction) error{
		"Get":    func(tx *db.Transaction) error { _, err := tx.Get([]byte("t/lock")); return err },
		"GetTTL": func(tx *db.Transaction) error { _, _, err := tx.GetTTL([]byte("t/lock")); return err },
		"GetTo":  func(tx *db.Transaction) error { _, err := tx.GetTo(nil, []byte("t/lock")); return err },
		"Has":    func(tx *db.Transaction) error { _, err := tx.Has([]byte("t/lock")); return err },
		"MultiGet": func(tx *db.Transaction) error {
			_, err := tx.MultiGet([][]byte{[]byte("u"), []byte("t/lock")})
			return err
		},
		"an iterator": func(tx *db.Transaction) error {
			it, err := tx.NewIterator(nil)
			require.NoError(t, err)
			require.True(t, it.First())
			return it.Close()
		},
		"an iterator of keys": func(tx *db.Transaction) error {
			it, err := tx.NewIterator(&db.IterOptions{KeysOnly: true})
			require.NoError(t, err)
			require.True(t, it.SeekLT([]byte("u")))
			return it.Close()
		},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			c, d := expiringStore(t)
			putAll(t, d, "u", "1")
			for _, passed := range []time.Duration{0, time.Second - time.Millisecond, time.Second, time.Hour} {
				putTTL(t, d, "t/lock", "mine", time.Second)
				tx := d.NewTransaction(nil)
				require.NoError(t, read(tx))
				require.NoError(t, tx.Put([]byte("v"), []byte("2")))
				c.move(passed)
				_, err := d.Get([]byte("t/lock"))
				require.Equal(t, passed >= time.Second, errors.Is(err, db.ErrNotFound))
				c.move(-time.Hour) // the time of the store does not go back
				if passed < time.Second {
					require.NoError(t, tx.Commit())
				} else {
					require.Equal(t, db.ErrConflict, tx.Commit())
				}
				c.move(time.Hour + time.Second)
			}
			tx := d.NewTransaction(nil) // it sees that the value is gone, which stays true
			_, err := tx.Get([]byte("t/lock"))
			require.Equal(t, db.ErrNotFound, err)
			require.NoError(t, tx.Put([]byte("v"), []byte("3")))
			c.move(time.Hour)
			require.NoError(t, tx.Commit())
		})
	}
	c, d := expiringStore(t)
	putTTL(t, d, "t/lock", "mine", time.Second)
	calls := 0
	require.NoError(t, d.Update(func(tx *db.Transaction) error {
		calls++
		held, err := tx.Has([]byte("t/lock"))
		require.NoError(t, err)
		require.Equal(t, calls == 1, held)
		c.move(time.Second)
		return tx.Put([]byte("v"), []byte("2"))
	}))
	require.Equal(t, 2, calls, "Update repeats it")
}
