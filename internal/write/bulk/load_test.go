package bulk

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/tabletest"
)

// newLoad returns a store and a load.
func newLoad(t *testing.T) (*store, *Loader) {
	s := newStore(t)
	l := result.Of(s.NewLoader("load", "here"))(t)
	return s, l
}

// add adds n entries to the load.
func add(t *testing.T, l *Loader, n int) {
	t.Helper()
	for i := range n {
		require.NoError(t, l.Put(tabletest.Key(i), fmt.Appendf(nil, "a value of %d", i*i*i)))
	}
}

// requireEnded requires that the load has ended with err, and that no load is left.
func requireEnded(t *testing.T, s *store, l *Loader, err error) {
	t.Helper()
	require.Equal(t, err, l.Put([]byte("z"), nil))
	require.Equal(t, err, l.Delete([]byte("z")))
	_, commit := l.Commit()
	require.Equal(t, err, commit)
	require.NoError(t, l.Close())
	require.False(t, l.giveUp(base.ErrClosed))
	require.Empty(t, s.loads)
}

func TestACommitInstallsDurableTablesWhileNoWriterWrites(t *testing.T) {
	s, l := newLoad(t)
	add(t, l, 300)
	require.NotEmpty(t, s.files(".dbtmp"))
	require.Empty(t, s.files(".ldb"))
	s.requireValue(5, nil, "")
	info := result.Of(l.Commit())(t)
	require.Equal(t, []string{
		"flush", "clear level 0", "lead", "flush the rest", "hold", "place", "apply", "advance true", "release", "schedule",
	}, s.calls)
	require.EqualValues(t, 300, info.Entries)
	require.Len(t, s.edits, 1)
	added := s.edits[0].Added
	require.Greater(t, len(added), 2)
	require.Equal(t, len(added), info.Tables[added[0].Level])
	require.Positive(t, added[0].Level)
	var bytes, entries uint64
	names := filesOf(t, s.fs.Crash(), ".ldb")
	for i, a := range added {
		require.Equal(t, names[i], a.File.Name(), "numbers ascend with the keys")
		bytes += a.File.Size
		entries += a.File.Counts().Entries
		require.EqualValues(t, s.lastSeq, a.File.Seqs.Load().Largest)
	}
	require.Equal(t, info.Bytes, bytes)
	require.EqualValues(t, 300, entries)
	require.Equal(t, l.run.seq, s.lastSeq)
	s.requireValue(5, nil, "a value of 125")
	s.requireOnlyTables(len(added))
	requireEnded(t, s, l, base.ErrClosed)
}

func TestAFailedCommitEndsTheLoadAndRemovesItsFiles(t *testing.T) {
	for _, fail := range []string{"flush", "clear level 0", "lead", "flush the rest", "apply"} {
		t.Run(fail, func(t *testing.T) {
			s, l := newLoad(t)
			add(t, l, 300)
			s.fail = fail
			info, err := l.Commit()
			require.ErrorIs(t, err, errFailed)
			require.Equal(t, err, info.Err)
			require.Zero(t, info.Tables)
			require.Empty(t, s.edits)
			require.Zero(t, s.lastSeq)
			s.requireOnlyTables(0)
			requireEnded(t, s, l, err)
		})
	}
}

func TestAWrongEntryEndsTheLoad(t *testing.T) {
	entries := map[string]string{
		string(tabletest.Key(299)):              "has the key of the one before it",
		string(tabletest.Key(298)):              "sorts before that of the one before it",
		strings.Repeat("z", batch.MaxKeySize+1): "the key is",
	}
	for key, want := range entries {
		t.Run(want, func(t *testing.T) {
			s, l := newLoad(t)
			add(t, l, 300)
			err := l.Put([]byte(key), nil)
			require.ErrorContains(t, err, "sievedb: load: ")
			require.ErrorContains(t, err, "entry 301")
			require.ErrorContains(t, err, want)
			s.requireOnlyTables(0)
			requireEnded(t, s, l, err)
			require.Empty(t, s.calls)
		})
	}
}

// A load that is too low at its Commit is committed as tables made elsewhere, with a higher number.
func TestAnOvertakenLoadIsAdopted(t *testing.T) {
	for _, transaction := range []bool{false, true} {
		s := newStore(t)
		s.put("old", 0, 299)
		first := result.Of(s.NewLoader("load", "here"))(t)
		commit := first.Commit
		if transaction {
			tx := newTransaction(t, s)
			writeAll(t, tx, 300)
			commit = tx.Commit
		} else {
			add(t, first, 300)
		}
		second := result.Of(s.NewLoader("load", "here"))(t)
		require.Greater(t, second.run.seq, first.run.seq)
		require.NoError(t, second.Put(tabletest.Key(5), []byte("of the second load")))
		require.NoError(t, result.Err(second.Commit()))
		overtaken := s.lastSeq
		s.requireValue(5, nil, "of the second load")
		info := result.Of(commit())(t)
		require.GreaterOrEqual(t, info.Entries, uint64(300))
		require.Positive(t, info.Bytes)
		require.Greater(t, s.lastSeq, overtaken)
		for _, n := range []int{0, 5, 299} {
			s.requireValue(n, nil, fmt.Sprintf("a value of %d", n*n*n))
		}
		require.NoError(t, first.Close())
		require.Empty(t, s.files(".dbtmp"))
		require.Empty(t, s.loads)
	}
}

func TestAnOvertakenLoadThatFailsLeavesNoFile(t *testing.T) {
	s, l := newLoad(t)
	add(t, l, 300)
	s.lastSeq = base.LoadAhead
	s.fail = "apply"
	info, err := l.Commit()
	require.ErrorIs(t, err, errFailed)
	require.Equal(t, err, info.Err)
	s.requireOnlyTables(0)
	requireEnded(t, s, l, err)
}

// A load of many tables clears level 0 once more while no writer writes.
func TestALoadOfManyTablesDoesNotCrowdLevel0(t *testing.T) {
	for _, fails := range []bool{false, true} {
		s, l := newLoad(t)
		l.c.TableSize = func(uint64) uint64 { return 1 }
		add(t, l, maxCrowd+1)
		s.during = func(string) {
			if s.cleared == 2 && fails {
				s.fail = "clear level 0"
			}
		}
		_, err := l.Commit()
		require.Equal(t, 2, s.cleared)
		if fails {
			require.ErrorIs(t, err, errFailed)
			s.requireOnlyTables(0)
			continue
		}
		require.NoError(t, err)
		require.Len(t, s.edits[0].Added, maxCrowd+1)
	}
}

// The bug: level 0 was compacted once more while all writers waited, 0.6 s for a million entries.
func TestALoadMakesNoWriterWaitForACompaction(t *testing.T) {
	s, l := newLoad(t)
	l.c.TableSize = func(uint64) uint64 { return 1 }
	add(t, l, maxCrowd)
	s.during = func(call string) {
		if call == "lead" { // after level 0 was cleared
			s.put("meanwhile", 0, maxCrowd-1)
		}
	}
	info := result.Of(l.Commit())(t)
	require.Equal(t, 1, s.cleared)
	require.Equal(t, maxCrowd, info.Tables[0], "the tables stay in level 0 for now")
	s.requireValue(3, nil, "a value of 27")
}

// runLoad adds 300 entries to the load and commits it.
func runLoad(l *Loader) error {
	for i := range 300 {
		if err := l.Put(tabletest.Key(i), make([]byte, 50)); err != nil {
			return err
		}
	}
	_, err := l.Commit()
	return err
}

func TestAnErrorAtEveryOperationOfALoadEndsItAndLeavesNoFile(t *testing.T) {
	s, l := newLoad(t)
	var ops atomic.Int64 // tables are made durable in the background
	s.fault = func(wrap.Op) *wrap.Fault { ops.Add(1); return nil }
	require.NoError(t, runLoad(l))
	require.Greater(t, ops.Load(), int64(10))
	for n := range ops.Load() {
		s, l := newLoad(t)
		var at, failed atomic.Int64
		s.fault = func(op wrap.Op) *wrap.Fault {
			if at.Add(1) != n+1 {
				return nil
			}
			failed.Store(int64(op.Kind))
			return &wrap.Fault{Err: errFailed}
		}
		err := runLoad(l)
		kind := wrap.OpKind(failed.Load())
		if kind == wrap.OpClose && err == nil {
			require.Len(t, s.edits, 1, "a synced file that fails to close is whole")
			continue
		}
		require.ErrorIs(t, err, errFailed, "operation %d, %v", n, kind)
		require.ErrorContains(t, err, "sievedb: load: ")
		require.Empty(t, s.edits)
		s.requireOnlyTables(0)
		require.Empty(t, s.loads)
	}
}

func TestALoadWithoutEntriesInstallsNothing(t *testing.T) {
	for name, end := range map[string]func(l *Loader) error{
		"commit":  func(l *Loader) error { info, err := l.Commit(); require.Nil(t, info); return err },
		"close":   (*Loader).Close,
		"give up": func(l *Loader) error { require.True(t, l.giveUp(base.ErrClosed)); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s, l := newLoad(t)
			require.NoError(t, end(l))
			require.Empty(t, s.calls)
			requireEnded(t, s, l, base.ErrClosed)
		})
	}
	s := newStore(t)
	next := s.Set.NextFileNum()
	require.Empty(t, result.Of(s.rename(nil, base.FileTable, false))(t))
	require.Equal(t, next, s.Set.NextFileNum())
}

func TestClosingALoadRemovesItsFiles(t *testing.T) {
	s, l := newLoad(t)
	add(t, l, 300)
	require.NotEmpty(t, l.run.out.Files)
	require.NoError(t, l.Close())
	s.requireOnlyTables(0)
	require.Empty(t, s.calls)
}

func TestAPanicEndsTheLoadAndGoesOn(t *testing.T) {
	for _, call := range []string{"flush", "lead", "place", "apply"} {
		t.Run(call, func(t *testing.T) {
			s, l := newLoad(t)
			add(t, l, 300)
			s.panics = call
			require.PanicsWithValue(t, "in "+call, func() { _, _ = l.Commit() })
			requirePanicked(t, s, l)
		})
	}
	t.Run("the comparer", func(t *testing.T) {
		s, l := newLoad(t)
		add(t, l, 300)
		cmp := *base.Bytewise
		cmp.Compare = func(_, _ []byte) int { panic("in a comparison") }
		s.Cmp = &cmp
		require.PanicsWithValue(t, "in a comparison", func() { _ = l.Put([]byte("z"), nil) })
		requirePanicked(t, s, l)
		s.requireOnlyTables(0)
	})
}

// requirePanicked requires that the load has ended with the error of a panic.
func requirePanicked(t *testing.T, s *store, l *Loader) {
	t.Helper()
	_, err := l.Commit()
	var panicked *base.PanicError
	require.ErrorAs(t, err, &panicked)
	requireEnded(t, s, l, err)
}

// A listener that is called during a commit must not wait for that commit.
func TestALoadRefusesCallsFromAListenerOfItsCommit(t *testing.T) {
	s, l := newLoad(t)
	listening := false
	s.InListener = func() bool { return listening }
	var put, closed error
	s.during = func(call string) {
		if call == "flush" {
			listening = true
			put, closed = l.Put([]byte("z"), nil), l.Close()
			listening = false
		}
	}
	require.NoError(t, runLoad(l))
	require.Equal(t, base.ErrInListener, put)
	require.Equal(t, base.ErrInListener, closed)
}

// newTransaction returns a transaction that writes a table for about each 16 KiB.
func newTransaction(t *testing.T, s *store) *Transaction {
	tx := result.Of(s.NewTransaction("transaction", "here", 16<<10))(t)
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
	info := result.Of(tx.Commit())(t)
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
			require.NoError(t, result.Err(tx.Commit()))
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
