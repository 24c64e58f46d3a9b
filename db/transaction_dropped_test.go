package db_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// increment is a transaction that reads and writes.
func increment(d *db.DB) (calls int, err error) {
	err = d.Update(func(tx *db.Transaction) error {
		calls++
		old, err := tx.Get([]byte("counter"))
		if err != nil && err != db.ErrNotFound {
			return err
		}
		return tx.Put([]byte("counter"), append(old, '|'))
	})
	return calls, err
}

// The bug: a transaction that began just after a deletion of a range counted as one from before it while snapshots
// pinned their state, as they do for a compaction filter. So every Update failed until some other write, or, if the
// deletion had failed, for a million writes.
func TestTransactionsAfterADeletionDoNotConflictWithIt(t *testing.T) {
	for _, fails := range []bool{false, true} {
		var full atomic.Bool
		d := twentyTables(t, wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
			if full.Load() && op.Kind == wrap.OpWrite && strings.Contains(op.Name, "MANIFEST") {
				return &wrap.Fault{Err: syscall.ENOSPC}
			}
			return nil
		}))
		before := d.Untraced().Last()
		full.Store(fails)
		err := d.DeleteRange(t.Context(), testKey(100), testKey(9_900), nil)
		full.Store(false)
		if fails {
			require.ErrorIs(t, err, db.ErrNoSpace)
			require.Equal(t, before, d.Untraced().Last())
			requireValue(t, d, testKey(5_000), testValue(5_000))
		} else {
			require.NoError(t, err)
			require.Equal(t, d.Finder().VisibleSeq.Load(), d.Untraced().Last())
		}
		unpin := d.Pins().Pin()
		calls, err := increment(d)
		unpin()
		require.NoError(t, err)
		require.Equal(t, 1, calls)
	}
}

// The bug: a transaction that began at the moment of a deletion could read a key as it was before, at
// the number of the deletion. Its commit found no conflict and brought the key back.
func TestNoTransactionBringsADeletedKeyBack(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	require.NoError(t, d.Put(testKey(1), testValue(1), db.NoSync))
	require.NoError(t, d.Flush())
	s := d.NewSnapshot() // so that no table is removed
	defer func() { require.NoError(t, s.Close()) }()
	first, began := make(chan struct{}), make(chan []*db.Transaction)
	go func() { began <- rewriters(d, testKey(1), first) }()
	<-first
	require.NoError(t, d.DeleteRange(t.Context(), testKey(0), testKey(9), nil))
	for _, tx := range <-began {
		require.Equal(t, db.ErrConflict, tx.Commit())
	}
	requireAbsent(t, d, testKey(1))
}

// rewriters begins transactions that write the value of key again, until it has none. It returns the
// last of them, and closes first when one has begun.
func rewriters(d *db.DB, key []byte, first chan<- struct{}) (last []*db.Transaction) {
	once := sync.OnceFunc(func() { close(first) })
	defer once()
	for {
		tx := d.NewTransaction(nil)
		value, err := tx.Get(key)
		if err != nil {
			_ = tx.Close()
			return last
		}
		_ = tx.Put(key, value)
		if last = append(last, tx); len(last) > 3 {
			_ = last[0].Close()
			last = last[1:]
		}
		once()
	}
}

// The bug: a transaction whose Commit a listener called was refused, but it continued.
func TestACommitInAListenerIsRefusedAndEndsTheTransaction(t *testing.T) {
	var tx *db.Transaction
	var once sync.Once
	results := make(chan error, 3)
	o := testOptions(vfs.NewMem())
	o.EventListener = &db.EventListener{FlushEnd: func(db.FlushInfo) {
		once.Do(func() {
			results <- tx.Commit()
			results <- tx.Commit()
			_, err := tx.Get([]byte("a"))
			results <- err
		})
	}}
	d := openTest(t, o)
	tx = d.NewTransaction(nil)
	require.NoError(t, tx.Put([]byte("a"), nil))
	require.NoError(t, d.Put([]byte("b"), nil, nil))
	require.NoError(t, d.Flush())
	require.Equal(t, db.ErrInListener, <-results)
	require.ErrorIs(t, <-results, db.ErrClosed)
	require.Equal(t, db.ErrClosed, <-results)
	require.Equal(t, db.ErrClosed, tx.Close())
	require.Zero(t, d.Metrics().OpenTransactions)
	requireAbsent(t, d, []byte("a"))
}
