package db

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// The bug: Commit in the function of Update wrote the writes, and Update then returned ErrClosed.
func TestTheFunctionOfUpdateCannotEndTheTransaction(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	for method, end := range map[string]func(*Transaction) error{"Commit": (*Transaction).Commit, "Close": (*Transaction).Close} {
		for _, returns := range []bool{true, false} {
			calls := 0
			err := d.Update(func(tx *Transaction) error {
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
			err = d.View(func(tx *Transaction) error { _ = end(tx); return nil })
			require.ErrorContains(t, err, "Transaction."+method+" in the function of View")
		}
	}
	require.Zero(t, d.Metrics().OpenTransactions)
	var kept *Transaction
	require.NoError(t, d.Update(func(tx *Transaction) error { kept = tx; return nil }))
	require.Equal(t, ErrClosed, kept.Close())
	require.ErrorContains(t, kept.Commit(), "committed already")
	require.Error(t, d.Update(func(tx *Transaction) error { kept = tx; return ErrNotFound }))
	require.ErrorContains(t, kept.Commit(), "given up by Update")
	require.NoError(t, d.View(func(tx *Transaction) error { kept = tx; return nil }))
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
	for want, end := range map[string]func(tx *Transaction){
		"committed already": func(tx *Transaction) { require.NoError(t, tx.Commit()) },
		"ended by a conflict": func(tx *Transaction) {
			require.NoError(t, d.Put([]byte("a"), nil, NoSync))
			require.Equal(t, ErrConflict, tx.Commit())
		},
		"closed without a commit": func(tx *Transaction) { require.NoError(t, tx.Close()) },
		"ended by the error of an earlier Commit": func(tx *Transaction) {
			require.Error(t, tx.Put(make([]byte, MaxKeySize+1), nil))
			require.ErrorIs(t, tx.Commit(), ErrTooLarge)
		},
	} {
		tx := d.NewTransaction(nil)
		_, err := tx.Get([]byte("a"))
		if err != nil {
			require.Equal(t, ErrNotFound, err)
		}
		require.NoError(t, tx.Put([]byte("b"), nil))
		end(tx)
		err = tx.Commit()
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorContains(t, err, "sievedb: Commit: the transaction was "+want)
		require.Equal(t, ErrClosed, tx.Close())
	}
}

// The bug: they were found at Commit, or not at all, and the same calls of the DB fail at once.
func TestWrongWritesOfATransactionFailAtOnce(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Expiry.Prefixes = [][]byte{[]byte("session/")}
	d := openTest(t, o)
	for want, wrong := range map[string]func(tx *Transaction) error{
		"start is after limit":                     func(tx *Transaction) error { return tx.DeleteRange([]byte("z"), []byte("a")) },
		"under none of Options.Expiry.Prefixes":    func(tx *Transaction) error { return tx.PutTTL([]byte("other"), nil, time.Hour) },
		"the time to live is 0s; it must be posit": func(tx *Transaction) error { return tx.PutTTL([]byte("session/1"), nil, 0) },
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
	require.NoError(t, d.Put([]byte("z"), []byte("outside"), NoSync))
	require.NoError(t, d.Update(func(tx *Transaction) error {
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
	require.NoError(t, d.Update(func(tx *Transaction) error { return n.In(tx).DeleteRange(nil, nil) }))
	require.Equal(t, map[string]string{}, contentsIn(t, n))
	requireValue(t, d, []byte("z"), []byte("outside"))
	s := d.NewSnapshot()
	defer s.Close()
	for _, r := range []Reader{s, d, n} {
		require.ErrorIs(t, n.In(r).Put([]byte("a"), nil), ErrReadOnly)
		require.ErrorIs(t, n.In(r).Delete([]byte("a")), ErrReadOnly)
		require.ErrorIs(t, n.In(r).DeleteRange(nil, nil), ErrReadOnly)
		require.ErrorIs(t, n.In(r).PutTTL([]byte("a"), nil, time.Hour), ErrReadOnly)
	}
	require.Equal(t, ErrClosed, n.In(nil).Put([]byte("a"), nil))
	require.Equal(t, ErrClosed, NamespaceView{}.Delete([]byte("a")))
	_, err = NamespaceView{}.Get([]byte("a"))
	require.Equal(t, ErrClosed, err)
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
	_, ok := (*Namespace)(nil).ParseKey([]byte("a"))
	require.False(t, ok)
}

func TestKindsOfChangesHaveNames(t *testing.T) {
	names := map[ChangeKind]string{
		ChangeBatch: "batch", ChangeLoad: "load", ChangeIngest: "ingest", ChangeDeleteRange: "delete range", ChangeSkipped: "skipped", 99: "ChangeKind(99)",
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
		"Put":    func() error { return d.Put(key, []byte("v"), NoSync) },
		"Delete": func() error { return n.Delete([]byte("key"), NoSync) },
		"Apply":  func() error { var b Batch; b.Put(key, nil); return d.Apply(&b, NoSync) },
		"DeleteRange": func() error {
			return errors.Join(d.Put(key, nil, NoSync), n.DeleteRange(t.Context(), nil, nil, NoSync))
		},
		"Update": func() error { return d.Update(func(tx *Transaction) error { return tx.Put(key, nil) }) },
		"Modify": func() error {
			return n.Modify([]byte("key"), func([]byte) ([]byte, error) { return []byte("m"), nil }, NoSync)
		},
	} {
		calls := 0
		err := d.Update(func(tx *Transaction) error {
			calls++
			_, err := tx.Get(key)
			if err == ErrNotFound {
				err = nil
			}
			return errors.Join(err, write(), tx.Put([]byte("other"), nil))
		})
		require.ErrorContains(t, err, "write it with the transaction that the function gets", name)
		require.NotErrorIs(t, err, ErrConflict, name)
		require.Equal(t, observeEvery+1, calls, name)
	}

	putAll(t, d, "other", "")
	before := d.Metrics().Transactions
	calls := 0
	require.NoError(t, d.Update(func(tx *Transaction) error {
		_, err := tx.Get([]byte("other"))
		require.NoError(t, err)
		require.NoError(t, d.Put([]byte("not read"), nil, NoSync))
		if calls++; calls <= 2*observeEvery {
			require.NoError(t, putElsewhere(d, "other", nil))
		}
		return tx.Put([]byte("other"), nil)
	}))
	got := d.Metrics().Transactions
	require.Equal(t, TransactionMetrics{
		Commits: before.Commits + 1, Conflicts: before.Conflicts + 2*observeEvery, Repeats: before.Repeats + 2*observeEvery,
	}, got)
	require.Zero(t, d.listenerCalls.observing.Load())
}

// A function may write what it reads with the DB once, such as a value that is missing: the next attempt succeeds.
func TestAFunctionOfUpdateMayBypassItsTransactionOnce(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	putAll(t, d, "other", "")
	calls := 0
	require.NoError(t, d.Update(func(tx *Transaction) error {
		_, err := tx.Get([]byte("other"))
		require.NoError(t, err)
		if calls++; calls < observeEvery {
			require.NoError(t, putElsewhere(d, "other", nil))
		} else if _, err = tx.Get([]byte("missing")); err == ErrNotFound {
			require.NoError(t, d.Put([]byte("missing"), nil, NoSync))
		}
		return tx.Put([]byte("other"), nil)
	}))
	require.Equal(t, observeEvery+1, calls)
}

// A batch of another goroutine costs one look at who writes it, not one for each key.
func TestWritesBesideAnObservedUpdateAreNotNoted(t *testing.T) {
	var c listenerCalls
	written, err := c.Observe(func() error {
		elsewhere := make(chan *observation)
		go func() { elsewhere <- c.Observation() }()
		require.Nil(t, <-elsewhere)
		c.Observation().noteKey([]byte("key"))
		return nil
	})
	require.NoError(t, err)
	require.Len(t, written, 1)
	require.Nil(t, c.Observation())
}
