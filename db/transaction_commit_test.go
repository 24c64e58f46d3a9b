package db_test

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/write/txn"
	"github.com/sievedb/sievedb/vfs"
)

// readerOf returns a transaction that has read a key and written another, and is ready to commit.
func readerOf(t *testing.T, d *db.DB, key string) *db.Transaction {
	t.Helper()
	tx := d.NewTransaction(nil)
	get(t, tx, key)
	require.NoError(t, tx.Put([]byte("by the reader of "+key), nil))
	tx.Reads().Prepare()
	return tx
}

// Commits between the examination and the leader's check are found there, and so are the requests of the same group.
func TestTheLeaderFindsLateConflicts(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	fill(t, d, 0, 10)
	tx, other := readerOf(t, d, "a"), readerOf(t, d, "b")
	d.Recent().Begin()
	defer d.Recent().End()
	require.NoError(t, d.Put([]byte("first"), nil, db.NoSync)) // from here on commits are recorded
	horizon, err := tx.Examine()
	require.NoError(t, err)
	require.NoError(t, d.Put([]byte("unrelated"), nil, db.NoSync))
	require.NoError(t, tx.Committer().CheckLate(nil, horizon, false))
	var b db.Batch
	b.Put([]byte("z"), nil)
	b.Put([]byte("a"), nil)
	before := []*batch.Batch{{}, b.Content()}
	require.Equal(t, db.ErrConflict, tx.Committer().CheckLate(before, horizon, false), "the same group")
	require.NoError(t, other.Committer().CheckLate(before, horizon, false))
	require.NoError(t, d.Apply(&b, db.NoSync))
	require.Equal(t, db.ErrConflict, tx.Committer().CheckLate(nil, horizon, false), "an earlier group")
	require.NoError(t, other.Committer().CheckLate(nil, horizon, false))
	require.NoError(t, tx.Close())
	require.NoError(t, other.Close())
}

// After a load the recorded commits are not all. The transaction is examined again; the last time by the leader.
func TestATransactionIsExaminedAgain(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	fill(t, d, 0, 10)
	tx, other := readerOf(t, d, "a"), readerOf(t, d, "b")
	d.Recent().Begin()
	defer d.Recent().End()
	horizon, err := tx.Examine()
	require.NoError(t, err)
	l, err := d.NewLoader()
	require.NoError(t, err)
	require.NoError(t, l.Put([]byte("a"), nil))
	require.NoError(t, l.Commit())
	require.Equal(t, txn.ErrExamineAgain, tx.Committer().CheckLate(nil, horizon, false))
	require.Equal(t, db.ErrConflict, tx.Committer().CheckLate(nil, horizon, true))
	require.Equal(t, txn.ErrExamineAgain, other.Committer().CheckLate(nil, horizon, false))
	require.NoError(t, other.Committer().CheckLate(nil, horizon, true))
	require.Equal(t, db.ErrConflict, tx.Commit())
	require.NoError(t, other.Commit())
}

// oneMore returns a counter's next value.
func oneMore(old []byte) ([]byte, error) {
	n := uint64(1)
	if old != nil {
		n += binary.LittleEndian.Uint64(old)
	}
	return binary.LittleEndian.AppendUint64(nil, n), nil
}

// Many goroutines at one counter, each with its sync: Update takes turns and never gives up. In a bubble, because on a
// busy machine a turn may last longer than the others wait for theirs.
func TestUpdatesOfOneKeyTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openTest(t, testOptions(vfs.NewMem()))
		const writers, each = 16, 40
		var group sync.WaitGroup
		for range writers {
			group.Go(func() {
				for range each {
					if err := d.Modify([]byte("n"), oneMore, nil); err != nil {
						panic(err)
					}
				}
			})
		}
		group.Wait()
		requireValue(t, d, []byte("n"), binary.LittleEndian.AppendUint64(nil, writers*each))
	})
}

// putElsewhere writes in another goroutine.
func putElsewhere(d *db.DB, key string, value []byte) error {
	written := make(chan error)
	go func() { written <- d.Put([]byte(key), value, db.NoSync) }()
	return <-written
}

func TestUpdateGivesUp(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	calls := 0
	err := d.Update(func(tx *db.Transaction) error {
		calls++
		get(t, tx, "a")
		require.NoError(t, tx.Put([]byte("b"), nil))
		return putElsewhere(d, "a", fmt.Append(nil, calls))
	})
	require.ErrorIs(t, err, db.ErrConflict)
	require.ErrorContains(t, err, "gave up after 100 attempts")
	require.Equal(t, 100, calls)
	require.True(t, d.Turns().Take(1, nil), "the next one can have its turn")
	d.Turns().End()
	requireAbsent(t, d, []byte("b"))
}

// An Update within an Update does not wait for it for ever.
func TestUpdatesNest(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	conflictingOn := func(key string) func(tx *db.Transaction) error {
		calls := 0
		return func(tx *db.Transaction) error {
			get(t, tx, key)
			if calls++; calls < 8 {
				require.NoError(t, putElsewhere(d, key, fmt.Append(nil, calls)))
			}
			return tx.Put([]byte("calls for "+key), fmt.Append(nil, calls))
		}
	}
	outer := conflictingOn("outer")
	require.NoError(t, d.Update(func(tx *db.Transaction) error {
		if err := d.Update(conflictingOn("inner")); err != nil {
			return err
		}
		return outer(tx)
	}))
	requireValue(t, d, []byte("calls for inner"), []byte("8"))
	requireValue(t, d, []byte("calls for outer"), []byte("8"))
}

func TestAFailedUpdateWritesNothing(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	failed := errors.New("failed")
	require.Equal(t, failed, d.Update(func(tx *db.Transaction) error {
		require.NoError(t, tx.Put([]byte("a"), nil))
		return failed
	}))
	require.PanicsWithValue(t, "oh", func() {
		_ = d.Update(func(tx *db.Transaction) error {
			require.NoError(t, tx.Put([]byte("a"), nil))
			panic("oh")
		})
	})
	require.Equal(t, failed, d.Modify([]byte("a"), func([]byte) ([]byte, error) { return []byte("b"), failed }, nil))
	requireAbsent(t, d, []byte("a"))
	require.Zero(t, d.Metrics().OpenTransactions)
}

func TestCompareAndSwap(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	key := []byte("key")
	for _, c := range []struct {
		name       string
		old, value []byte
		swapped    bool
		then       []byte // nil: absent
	}{
		{"an absent key has no value", []byte{}, []byte("1"), false, nil},
		{"put", nil, []byte("1"), true, []byte("1")},
		{"the key has a value now", nil, []byte("2"), false, []byte("1")},
		{"another value", []byte("0"), []byte("2"), false, []byte("1")},
		{"replace", []byte("1"), []byte("2"), true, []byte("2")},
		{"replace by an empty value", []byte("2"), []byte{}, true, []byte{}},
		{"an empty value is not absent", nil, []byte("3"), false, []byte{}},
		{"delete", []byte{}, nil, true, nil},
		{"delete what is absent", nil, nil, true, nil},
	} {
		swapped, err := d.CompareAndSwap(key, c.old, c.value, db.NoSync)
		require.NoError(t, err, c.name)
		require.Equal(t, c.swapped, swapped, c.name)
		if c.then == nil {
			requireAbsent(t, d, key)
		} else {
			requireValue(t, d, key, c.then)
		}
	}
	before := d.Metrics().Writes.Batches
	_, err := d.CompareAndSwap(key, nil, []byte("1"), nil)
	require.NoError(t, err)
	require.Equal(t, before+1, d.Metrics().Writes.Batches, "one commit")
	_, err = d.CompareAndSwap(key, nil, []byte("1"), nil)
	require.NoError(t, err)
	require.Equal(t, before+1, d.Metrics().Writes.Batches, "no commit")
}

func TestMisusedTransactions(t *testing.T) {
	var none *db.Transaction
	var noDB *db.DB
	d := mustOpen(t, testOptions(vfs.NewMem()))
	ended := d.NewTransaction(nil)
	require.NoError(t, ended.Close())
	open := d.NewTransaction(&db.TransactionOptions{ReadOnly: true})
	require.ErrorIs(t, open.Put([]byte("a"), nil), db.ErrReadOnly)
	require.ErrorIs(t, open.Delete([]byte("a")), db.ErrReadOnly)
	require.NoError(t, open.Commit())
	large := d.NewTransaction(nil)
	require.ErrorIs(t, large.Put(make([]byte, db.MaxKeySize+1), nil), db.ErrTooLarge)
	require.ErrorIs(t, large.Commit(), db.ErrTooLarge)
	forgotten := d.NewTransaction(nil)
	require.Equal(t, 1, d.Metrics().OpenTransactions)
	require.NoError(t, forgotten.Put([]byte("a"), nil))
	it, err := forgotten.NewIterator(nil)
	require.NoError(t, err)
	require.ErrorContains(t, d.Close(), "1 iterator, 1 transaction open")
	require.False(t, it.First())
	require.Equal(t, db.ErrClosed, it.Err())
	for name, tx := range map[string]*db.Transaction{
		"nil": none, "zero": {}, "ended": ended, "of a nil DB": noDB.NewTransaction(nil), "of a closed DB": d.NewTransaction(nil), "at Close": forgotten,
	} {
		for method, err := range errorsOfReader(tx) {
			require.Equal(t, db.ErrClosed, err, "%s: %s", name, method)
		}
		if tx != forgotten {
			require.Equal(t, db.ErrClosed, tx.Put(nil, nil), name)
			require.Equal(t, db.ErrClosed, tx.Delete(nil), name)
		}
		tx.SetWriteOptions(db.NoSync)
		require.ErrorIs(t, tx.Commit(), db.ErrClosed, name)
		require.Equal(t, db.ErrClosed, tx.Close(), name)
	}
	require.NoError(t, it.Close())
	fn := func(*db.Transaction) error { panic("called") }
	require.Equal(t, db.ErrClosed, d.View(fn))
	require.Equal(t, db.ErrClosed, d.Update(fn))
	require.Equal(t, db.ErrClosed, noDB.Update(fn))
	_, err = d.CompareAndSwap([]byte("a"), nil, nil, nil)
	require.Equal(t, db.ErrClosed, err)
}

func TestTransactionsOfAReadOnlyDatabase(t *testing.T) {
	mem := vfs.NewMem()
	d := mustOpen(t, testOptions(mem))
	require.NoError(t, d.Put([]byte("a"), []byte("1"), nil))
	require.NoError(t, d.Close())
	o := testOptions(mem)
	o.ReadOnly = true
	d = openTest(t, o)
	require.NoError(t, d.View(func(tx *db.Transaction) error { get(t, tx, "a"); return nil }))
	require.Equal(t, db.ErrReadOnly, d.Update(func(*db.Transaction) error { panic("called") }))
	tx := d.NewTransaction(nil)
	require.Equal(t, db.ErrReadOnly, tx.Put([]byte("a"), nil))
	require.NoError(t, tx.Close())
}

// A transaction keeps what it reads on disk only until it ends.
func TestAnEndedTransactionLetsEntriesGo(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	require.NoError(t, d.Put([]byte("a"), []byte("1"), db.NoSync))
	tx := d.NewTransaction(nil)
	require.NoError(t, d.Put([]byte("a"), []byte("2"), db.NoSync))
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	value, err := tx.Get([]byte("a"))
	require.NoError(t, err)
	require.Equal(t, "1", string(value))
	require.Equal(t, int64(2), entriesOnDisk(t, d))
	require.NoError(t, tx.Commit())
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.Equal(t, int64(1), entriesOnDisk(t, d))
}

func entriesOnDisk(t *testing.T, d *db.DB) (n int64) {
	t.Helper()
	infos, err := d.Tables()
	require.NoError(t, err)
	for _, table := range infos {
		n += table.Entries
	}
	return n
}
