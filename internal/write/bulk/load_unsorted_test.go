package bulk

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/test/tabletest"
)

// newTransaction returns a transaction that writes a table for about each 16 KiB.
func newTransaction(t *testing.T, s *store) *Transaction {
	tx, err := s.NewTransaction("transaction", "here", 16<<10)
	require.NoError(t, err)
	return tx
}

// writeAll writes n keys in an order that is not that of the keys, and deletes one more.
func writeAll(t *testing.T, tx *Transaction, n int) {
	t.Helper()
	for i := range n {
		i = i * 7 % n
		require.NoError(t, tx.Put(tabletest.Key(i), []byte("replaced")))
		require.NoError(t, tx.Put(tabletest.Key(i), fmt.Appendf(nil, "a value of %d", i*i*i)))
	}
}

func TestATransactionThatFitsInMemoryIsABatch(t *testing.T) {
	s := newStore(t)
	tx := newTransaction(t, s)
	require.NoError(t, tx.Put([]byte("b"), []byte("1")))
	require.NoError(t, tx.Put([]byte("a"), []byte("2")))
	require.NoError(t, tx.Put([]byte("b"), []byte("3")))
	require.NoError(t, tx.Delete([]byte("c")))
	require.False(t, tx.Spilled())
	var b batch.Batch
	tx.Batch(&b)
	require.Equal(t, []string{"1 a2", "1 b3", "2 c"}, writes(&b))
	require.NoError(t, tx.Close())
	require.Empty(t, s.loads)
	s.requireOnlyTables(0)
}

func TestALargeTransactionIsCommittedAtOneMoment(t *testing.T) {
	s := newStore(t)
	s.put("before", numbers(0, 300)...)
	tx := newTransaction(t, s)
	writeAll(t, tx, 300)
	require.NoError(t, tx.Delete(tabletest.Key(17)))
	require.True(t, tx.Spilled())
	s.requireValue(5, nil, "before")
	at := s.snapshots.Open(&s.finder.Current, nil)
	info, err := tx.Commit()
	require.NoError(t, err)
	require.Positive(t, info.Tables[0], "the tables overlap each other")
	for n := range 300 {
		want := fmt.Sprintf("a value of %d", n*n*n)
		if n == 17 {
			want = ""
		}
		s.requireValue(n, nil, want)
		s.requireValue(n, &at, "before")
	}
	require.Equal(t, base.ErrClosed, tx.Put([]byte("a"), nil))
	require.Empty(t, s.files(".dbtmp"))
}

// While an iterator reads the tables they keep their temporary names, and the store has links.
func TestAnIteratorKeepsTheTablesOfATransaction(t *testing.T) {
	for _, commit := range []bool{true, false} {
		s := newStore(t)
		tx := newTransaction(t, s)
		writeAll(t, tx, 300)
		view := tx.View(true)
		view.Tables.Ref()
		temporary := len(s.files(".dbtmp"))
		require.Positive(t, temporary)
		if commit {
			_, err := tx.Commit()
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(s.files(".ldb")), temporary)
		} else {
			require.NoError(t, tx.Close())
		}
		require.GreaterOrEqual(t, len(s.files(".dbtmp")), temporary)
		view.Tables.Unref()
		require.Empty(t, s.files(".dbtmp"))
	}
}

func TestATransactionHasAsManyWritesAsNumbers(t *testing.T) {
	s := newStore(t)
	tx := newTransaction(t, s)
	tx.overflow = tx.l.run.seq + 3
	for range 3 {
		require.NoError(t, tx.Put([]byte("a"), nil))
	}
	require.ErrorContains(t, tx.Put([]byte("a"), nil), "has 3 writes, as many as are supported")
	require.NoError(t, tx.Close())
}
