package db_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

func newBulk(t testing.TB, d *db.DB) *db.BulkTransaction {
	t.Helper()
	b, err := d.NewBulkTransaction()
	require.NoError(t, err)
	return b
}

// fillBulk writes n entries in the order of a permutation.
func fillBulk(b *db.BulkTransaction, n int) error {
	for i := range n {
		if err := b.Put(testKey(i*7919%n), testValue(i)); err != nil {
			return err
		}
	}
	return nil
}

// Other loads, begun later and committed earlier, do not hide a bulk transaction.
func TestABulkTransactionThatWasOvertakenIsRewritten(t *testing.T) {
	for _, keep := range []bool{false, true} {
		o := testOptions(vfs.NewMem())
		d := openTest(t, o)
		b := newBulk(t, d)
		require.NoError(t, fillBulk(b, 500))
		for i := range 500 {
			require.NoError(t, b.Put(testKey(i), testValue(i)))
		}
		var it *db.Iterator
		if keep {
			var err error
			it, err = b.NewIterator(nil)
			require.NoError(t, err)
		}
		l := newLoader(t, d)
		require.NoError(t, l.Put(testKey(3), []byte("loaded")))
		require.NoError(t, l.Put(testKey(600), []byte("loaded")))
		require.NoError(t, l.Commit())
		_, err := b.NewIterator(nil)
		require.ErrorContains(t, err, "begin it again")
		require.NoError(t, b.Commit())
		if keep {
			require.Len(t, walk(t, it, false), 500)
			require.Len(t, walk(t, it, true), 500)
			require.NoError(t, it.Close())
		}
		for i := range 500 {
			requireValue(t, d, testKey(i), testValue(i))
		}
		require.Empty(t, namesOf(t, o.FS, base.FileTemp))
	}
}

func TestIteratorsOfABulkTransactionReadWhileItWrites(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	b := newBulk(t, d)
	require.NoError(t, fillBulk(b, 200))
	it, err := b.NewIterator(nil)
	require.NoError(t, err)
	done := make(chan int)
	go func() {
		n := 0
		for range 5 {
			for ok := it.First(); ok; ok = it.Next() {
				n++
			}
		}
		_ = it.Close() // a failure is in n
		done <- n
	}()
	require.NoError(t, fillBulk(b, 1000))
	require.NoError(t, b.Commit())
	require.Equal(t, 5*200, <-done)
}

//make:portable
//make:wasm
func TestABulkTransactionExpiresItsValues(t *testing.T) {
	var now atomic.Int64 // ms
	now.Store(1e12)
	o := testOptions(vfs.NewMem())
	o.Expiry = db.ExpiryOptions{Prefixes: [][]byte{[]byte("key")}, Clock: func() time.Time { return time.UnixMilli(now.Load()) }}
	d := openTest(t, o)
	b := newBulk(t, d)
	require.Error(t, b.PutTTL([]byte("other"), nil, time.Second))
	require.Error(t, b.PutTTL(testKey(1), nil, 0))
	for _, n := range []int{0, 300} {
		require.NoError(t, fillBulk(b, n))
		require.NoError(t, b.PutTTL(testKey(n), []byte("short"), time.Second))
		require.NoError(t, b.Put(testKey(n+1), []byte("long")))
		it, err := b.NewIterator(nil)
		require.NoError(t, err)
		require.True(t, it.SeekGE(testKey(n)))
		require.Equal(t, "short", string(it.Value()))
		require.True(t, it.Next())
		require.Equal(t, "long", string(it.Value()))
		require.NoError(t, it.Close())
		got, err := b.Get(testKey(n))
		require.NoError(t, err)
		require.Equal(t, "short", string(got))
		now.Add(1000)
		_, err = b.Get(testKey(n))
		require.Equal(t, db.ErrNotFound, err)
		require.NoError(t, b.Commit())
		_, err = d.Get(testKey(n))
		require.Equal(t, db.ErrNotFound, err)
		requireValue(t, d, testKey(n+1), []byte("long"))
		b = newBulk(t, d)
	}
	require.NoError(t, b.Close())
}

// What a bulk transaction refuses is not in it, and it continues.
func TestABulkTransactionRefusesWithoutEnding(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	b := newBulk(t, d)
	require.ErrorIs(t, b.Put(make([]byte, db.MaxKeySize+1), nil), db.ErrTooLarge)
	require.NoError(t, b.Put([]byte("a"), make([]byte, 100<<10)), "larger than a memtable")
	require.NoError(t, b.Put([]byte("b"), nil))
	require.NoError(t, b.Commit())
	require.Equal(t, db.ErrClosed, b.Put([]byte("c"), nil))
	require.Equal(t, db.ErrClosed, b.Commit())
	require.Equal(t, db.ErrClosed, b.Close())
	requireValue(t, d, []byte("a"), make([]byte, 100<<10))
	requireValue(t, d, []byte("b"), []byte{})
	b = newBulk(t, d)
	require.NoError(t, fillBulk(b, 500))
	require.ErrorContains(t, d.Close(), "closed during a bulk transaction that was begun at")
	require.Equal(t, db.ErrClosed, b.Put([]byte("c"), nil))
	require.Equal(t, db.ErrClosed, b.Commit())
}

// Close may come at any moment of a bulk transaction. What is called then returns ErrClosed, and nothing else.
func TestClosingTheDatabaseDuringABulkTransaction(t *testing.T) {
	for round := range 30 {
		mem := vfs.NewMem()
		d := mustOpen(t, testOptions(mem))
		require.NoError(t, d.Put(testKey(1), []byte("old"), db.Sync))
		b := newBulk(t, d)
		begun := make(chan struct{})
		var wg sync.WaitGroup
		var failure error
		wg.Go(func() { failure = useBulk(b, begun, 200+20*round) })
		<-begun
		_ = d.Close() // it says what was still open, if anything was
		wg.Wait()
		require.Equal(t, db.ErrClosed, failure)
		require.Equal(t, db.ErrClosed, b.Commit())
		d = mustOpen(t, testOptions(mem))
		requireContent(t, d, string(testKey(1)), "old")
		require.NoError(t, d.Close())
	}
}

// useBulk writes and reads until there is an error. It closes begun after n writes.
func useBulk(b *db.BulkTransaction, begun chan struct{}, n int) error {
	for i := 0; ; i++ {
		if i == n {
			close(begun)
		}
		if err := b.Put(testKey(i*7919%1000), testValue(i)); err != nil {
			return err
		}
		if _, err := b.Get(testKey(i % 1000)); err != nil && err != db.ErrNotFound {
			return err
		}
		if i%50 != 0 {
			continue
		}
		it, err := b.NewIterator(nil)
		if err != nil {
			return err
		}
		for range 20 {
			it.Next()
		}
		if err := it.Close(); err != nil {
			return err
		}
	}
}
