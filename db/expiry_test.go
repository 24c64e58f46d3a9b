package db_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base/expiry"
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

// The script all-writes-have-times-to-live has the other wrong uses.
func TestWrongUsesOfPutTTLAreRefused(t *testing.T) {
	_, d := expiringStore(t)
	require.ErrorIs(t, d.PutTTL([]byte("t/a"), make([]byte, db.MaxValueSize-expiry.HeaderLen+1), time.Second, nil), db.ErrTooLarge)
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
	require.Empty(t, contentsIn(t, d))
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
