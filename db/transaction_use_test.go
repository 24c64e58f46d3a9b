package db_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: Commit in the function of Update wrote the writes, and Update then returned ErrClosed.
func TestTheFunctionOfUpdateCannotEndTheTransaction(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	for method, end := range map[string]func(*db.Transaction) error{"Commit": (*db.Transaction).Commit, "Close": (*db.Transaction).Close} {
		for _, returns := range []bool{true, false} {
			calls := 0
			err := d.Update(func(tx *db.Transaction) error {
				calls++
				require.NoError(t, tx.Put([]byte("a"), nil))
				err := end(tx)
				require.ErrorContains(t, err, "Transaction."+method+" in the function of Update, which ends the transaction by itself")
				require.NoError(t, tx.Put([]byte("b"), nil), "it has not ended")
				if returns {
					return err
				}
				return nil
			})
			require.ErrorContains(t, err, "in the function of Update")
			require.Equal(t, 1, calls)
			require.Equal(t, map[string]string{}, contentsIn(t, d))
			err = d.View(func(tx *db.Transaction) error { _ = end(tx); return nil })
			require.ErrorContains(t, err, "Transaction."+method+" in the function of View")
		}
	}
	require.Zero(t, d.Metrics().OpenTransactions)
	var kept *db.Transaction
	require.NoError(t, d.Update(func(tx *db.Transaction) error { kept = tx; return nil }))
	require.Equal(t, db.ErrClosed, kept.Close())
	require.ErrorContains(t, kept.Commit(), "committed already")
	require.Error(t, d.Update(func(tx *db.Transaction) error { kept = tx; return db.ErrNotFound }))
	require.ErrorContains(t, kept.Commit(), "given up by Update")
	require.NoError(t, d.View(func(tx *db.Transaction) error { kept = tx; return nil }))
	require.ErrorContains(t, kept.Commit(), "ended by View")
}

func TestTransactionsWithoutAFunctionAreRefused(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	require.EqualError(t, d.Update(nil), "sievedb: Update: the function is nil; pass the one that the transaction is to run")
	require.ErrorContains(t, d.View(nil), "View: the function is nil")
	require.ErrorContains(t, d.Modify([]byte("a"), nil, nil), "Modify: the function is nil")
}

func TestASecondCommitSaysWhatHappened(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	for want, end := range map[string]func(tx *db.Transaction){
		"committed already": func(tx *db.Transaction) { require.NoError(t, tx.Commit()) },
		"ended by a conflict": func(tx *db.Transaction) {
			require.NoError(t, d.Put([]byte("a"), nil, db.NoSync))
			require.Equal(t, db.ErrConflict, tx.Commit())
		},
		"closed without a commit": func(tx *db.Transaction) { require.NoError(t, tx.Close()) },
		"ended by the error of an earlier Commit": func(tx *db.Transaction) {
			require.Error(t, tx.Put(make([]byte, db.MaxKeySize+1), nil))
			require.ErrorIs(t, tx.Commit(), db.ErrTooLarge)
		},
	} {
		tx := d.NewTransaction(nil)
		_, err := tx.Get([]byte("a"))
		if err != nil {
			require.Equal(t, db.ErrNotFound, err)
		}
		require.NoError(t, tx.Put([]byte("b"), nil))
		end(tx)
		err = tx.Commit()
		require.ErrorIs(t, err, db.ErrClosed)
		require.ErrorContains(t, err, "sievedb: Commit: the transaction was "+want)
		require.Equal(t, db.ErrClosed, tx.Close())
	}
}

// The bug: they were found at Commit, or not at all, and the same calls of the DB fail at once.
func TestWrongWritesOfATransactionFailAtOnce(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Expiry.Prefixes = [][]byte{[]byte("session/")}
	d := openTest(t, o)
	for want, wrong := range map[string]func(tx *db.Transaction) error{
		"start is after limit":                     func(tx *db.Transaction) error { return tx.DeleteRange([]byte("z"), []byte("a")) },
		"under none of Options.Expiry.Prefixes":    func(tx *db.Transaction) error { return tx.PutTTL([]byte("other"), nil, time.Hour) },
		"the time to live is 0s; it must be posit": func(tx *db.Transaction) error { return tx.PutTTL([]byte("session/1"), nil, 0) },
	} {
		tx := d.NewTransaction(nil)
		require.NoError(t, tx.PutTTL([]byte("session/2"), nil, time.Hour))
		require.NoError(t, tx.DeleteRange([]byte("a"), []byte("a")))
		require.ErrorContains(t, wrong(tx), want)
		require.ErrorContains(t, tx.Commit(), want, "a part would be missing")
	}
	require.Equal(t, map[string]string{}, contentsIn(t, d))
	noPrefix := openTest(t, testOptions(vfs.NewMem()))
	require.ErrorContains(t, noPrefix.NewTransaction(nil).PutTTL([]byte("a"), nil, time.Hour), "add a prefix")
}

func TestANamespaceInATransactionWrites(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Expiry.Namespaces = []string{"n"}
	d := openTest(t, o)
	n, err := d.Namespace("n")
	require.NoError(t, err)
	require.NoError(t, d.Put([]byte("z"), []byte("outside"), db.NoSync))
	require.NoError(t, d.Update(func(tx *db.Transaction) error {
		in := n.In(tx)
		for _, key := range []string{"a", "b", "c", "d"} {
			require.NoError(t, in.Put([]byte(key), []byte("1")))
		}
		require.NoError(t, in.PutTTL([]byte("e"), []byte("2"), time.Hour))
		require.NoError(t, in.Delete([]byte("a")))
		require.NoError(t, in.DeleteRange([]byte("c"), []byte("e")))
		value, err := in.Get([]byte("b"))
		require.Equal(t, "1", string(value))
		return err
	}))
	require.Equal(t, map[string]string{"b": "1", "e": "2"}, contentsIn(t, n))
	require.NoError(t, d.Update(func(tx *db.Transaction) error { return n.In(tx).DeleteRange(nil, nil) }))
	require.Equal(t, map[string]string{}, contentsIn(t, n))
	requireValue(t, d, []byte("z"), []byte("outside"))
	s := d.NewSnapshot()
	defer s.Close()
	for _, r := range []db.Reader{s, d, n} {
		require.ErrorIs(t, n.In(r).Put([]byte("a"), nil), db.ErrReadOnly)
		require.ErrorIs(t, n.In(r).Delete([]byte("a")), db.ErrReadOnly)
		require.ErrorIs(t, n.In(r).DeleteRange(nil, nil), db.ErrReadOnly)
		require.ErrorIs(t, n.In(r).PutTTL([]byte("a"), nil, time.Hour), db.ErrReadOnly)
	}
	require.Equal(t, db.ErrClosed, n.In(nil).Put([]byte("a"), nil))
	require.Equal(t, db.ErrClosed, db.NamespaceView{}.Delete([]byte("a")))
	_, err = db.NamespaceView{}.Get([]byte("a"))
	require.Equal(t, db.ErrClosed, err)
}

func TestAKeyOfANamespaceIsParsed(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	n, err := d.Namespace("n")
	require.NoError(t, err)
	inner, err := n.Namespace("inner")
	require.NoError(t, err)
	for _, key := range []string{"", "a", "\x00", "\x00\x01b"} {
		rest, ok := n.ParseKey(n.Key([]byte(key)))
		require.True(t, ok)
		require.Equal(t, key, string(rest))
		rest, ok = n.ParseKey(inner.Key([]byte(key)))
		require.True(t, ok, "it is in the outer one too")
		require.Equal(t, "\x00inner\x00\x01"+key, string(rest))
		_, ok = inner.ParseKey(n.Key([]byte(key)))
		require.False(t, ok)
		_, ok = n.ParseKey([]byte(key))
		require.False(t, ok)
	}
	_, ok := (*db.Namespace)(nil).ParseKey([]byte("a"))
	require.False(t, ok)
}

func TestKindsOfChangesHaveNames(t *testing.T) {
	names := map[db.ChangeKind]string{
		db.ChangeBatch: "batch", db.ChangeLoad: "load", db.ChangeIngest: "ingest", db.ChangeDeleteRange: "delete range", db.ChangeSkipped: "skipped", 99: "ChangeKind(99)",
	}
	for kind, name := range names {
		require.Equal(t, name, kind.String())
	}
}

// A function that writes what it reads with something else than its transaction conflicts each time. Update says so
// soon. Writes of what it does not read, and conflicts with others, are not taken for that.
func TestUpdateNamesWritesThatBypassTheTransaction(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	n, err := d.Namespace("n")
	require.NoError(t, err)
	key := n.Key([]byte("key"))
	for name, write := range map[string]func() error{
		"Put":    func() error { return d.Put(key, []byte("v"), db.NoSync) },
		"Delete": func() error { return n.Delete([]byte("key"), db.NoSync) },
		"Apply":  func() error { var b db.Batch; b.Put(key, nil); return d.Apply(&b, db.NoSync) },
		"DeleteRange": func() error {
			return errors.Join(d.Put(key, nil, db.NoSync), n.DeleteRange(t.Context(), nil, nil, db.NoSync))
		},
		"Update": func() error { return d.Update(func(tx *db.Transaction) error { return tx.Put(key, nil) }) },
		"Modify": func() error {
			return n.Modify([]byte("key"), func([]byte) ([]byte, error) { return []byte("m"), nil }, db.NoSync)
		},
	} {
		calls := 0
		err := d.Update(func(tx *db.Transaction) error {
			calls++
			_, err := tx.Get(key)
			if err == db.ErrNotFound {
				err = nil
			}
			return errors.Join(err, write(), tx.Put([]byte("other"), nil))
		})
		require.ErrorContains(t, err, "write it with the transaction that the function gets", name)
		require.NotErrorIs(t, err, db.ErrConflict, name)
		require.Equal(t, db.ObserveEvery+1, calls, name)
	}

	putAll(t, d, "other", "")
	before := d.Metrics().Transactions
	calls := 0
	require.NoError(t, d.Update(func(tx *db.Transaction) error {
		_, err := tx.Get([]byte("other"))
		require.NoError(t, err)
		require.NoError(t, d.Put([]byte("not read"), nil, db.NoSync))
		if calls++; calls <= 2*db.ObserveEvery {
			require.NoError(t, putElsewhere(d, "other", nil))
		}
		return tx.Put([]byte("other"), nil)
	}))
	got := d.Metrics().Transactions
	require.Equal(t, report.TransactionMetrics{
		Commits: before.Commits + 1, Conflicts: before.Conflicts + 2*db.ObserveEvery, Repeats: before.Repeats + 2*db.ObserveEvery,
	}, got)
	require.Zero(t, d.Observing())
}

// A function may write what it reads with the DB once, such as a value that is missing: the next attempt succeeds.
func TestAFunctionOfUpdateMayBypassItsTransactionOnce(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	putAll(t, d, "other", "")
	calls := 0
	require.NoError(t, d.Update(func(tx *db.Transaction) error {
		_, err := tx.Get([]byte("other"))
		require.NoError(t, err)
		if calls++; calls < db.ObserveEvery {
			require.NoError(t, putElsewhere(d, "other", nil))
		} else if _, err = tx.Get([]byte("missing")); err == db.ErrNotFound {
			require.NoError(t, d.Put([]byte("missing"), nil, db.NoSync))
		}
		return tx.Put([]byte("other"), nil)
	}))
	require.Equal(t, db.ObserveEvery+1, calls)
}
