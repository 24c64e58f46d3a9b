package bulk

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/internal/write/txn"
)

func TestOneDeletionRunsAtATime(t *testing.T) {
	s, l := newLoad(t)
	add(t, l, 1)
	end, err := s.exclude(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.exclude(ctx)
	require.Equal(t, context.Canceled, err)
	_, err = s.DeleteTables(ctx, Spans{}, nil)
	require.Equal(t, context.Canceled, err)
	end()
	_, err = s.exclude(ctx)
	require.Equal(t, context.Canceled, err, "also if it need not wait")
	end, err = s.exclude(t.Context())
	require.NoError(t, err)
	close(s.closing)
	_, err = s.exclude(t.Context())
	require.Equal(t, base.ErrClosed, err)
	_, err = l.Commit()
	require.Equal(t, base.ErrClosed, err, "a load waits for the deletion, and the store closes")
	require.Empty(t, s.edits)
	end()
}

func TestReserveLeavesNumbersForOthers(t *testing.T) {
	for last, want := range map[uint64]uint64{
		0:                   1<<32 - 1,
		base.MaxSeq - 1<<30: base.MaxSeq - 1<<30 + 1<<6,
		base.MaxSeq - 1<<24: base.MaxSeq - 1<<24 + 1,
		base.MaxSeq >> 1:    base.MaxSeq>>1 + 1<<31,
	} {
		seq, err := reserve("a load", last, base.LoadAhead)
		require.NoError(t, err)
		require.Equal(t, want, seq)
	}
	_, err := reserve("a load", base.MaxSeq-1<<24+1, base.LoadAhead)
	require.ErrorContains(t, err, "too few sequence numbers for a load")
}

func TestAStoreWithTooFewNumbersRefusesBulkChanges(t *testing.T) {
	s := newStore(t)
	s.put("value", 1, 2)
	require.NoError(t, s.flush())
	s.lastSeq = base.MaxSeq - 1
	s.finder.VisibleSeq.Store(s.lastSeq)
	_, err := s.NewLoader("load", "here")
	require.ErrorContains(t, err, "sievedb: too few sequence numbers for a load")
	_, err = s.DeleteTables(t.Context(), NewSpans(base.Bytewise, []Span{{}}), nil)
	require.ErrorContains(t, err, "sievedb: too few sequence numbers for the deletion of a range")
	_, err = s.Ingest(t.Context(), []string{s.makeTable("in", "new", 1)}, false)
	require.ErrorContains(t, err, "sievedb: Ingest: too few sequence numbers for an ingest")
	s.requireOnlyTables(1)
}

func TestGivingUpEndsTheLoadsAndLetsNoneBegin(t *testing.T) {
	s, first := newLoad(t)
	second, err := s.NewLoader("bulk transaction", "file.go:7")
	require.NoError(t, err)
	require.NoError(t, first.Close())
	add(t, second, 300)
	s.GiveUp(base.ErrReadOnly)
	requireEnded(t, s, second, base.ErrReadOnly)
	s.requireOnlyTables(0)
	_, err = s.NewLoader("load", "here")
	require.Equal(t, base.ErrReadOnly, err)
	err = s.Discarded("closed")
	require.EqualError(t, err, "sievedb: closed during a bulk transaction that was begun at file.go:7 and not committed; it is discarded")
	require.NoError(t, s.Discarded("closed"), "once")
}

// The numbers advance if the edit is in force, or may be, and not otherwise.
func TestAnEditThatMayBeInForceAdvancesTheNumbers(t *testing.T) {
	s, l := newLoad(t)
	add(t, l, 300)
	s.lost = func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpSync {
			return &wrap.Fault{Err: errFailed}
		}
		return nil
	}
	_, err := l.Commit()
	require.ErrorIs(t, err, errFailed)
	require.True(t, manifest.IsUncertain(err))
	require.Equal(t, l.run.seq, s.lastSeq)
	require.Contains(t, s.calls, "advance false")
	require.NotEmpty(t, s.files(".ldb"), "whether the MANIFEST has them is not known")
	require.Empty(t, s.loads)
}

// namesDuring returns how many tables f names, and requires that an edit that is begun with the first of them has to
// wait for the last one.
func (s *store) namesDuring(f func(s *store) error) (named int) {
	var edit sync.WaitGroup
	var written atomic.Bool
	s.fault = func(op wrap.Op) *wrap.Fault {
		if op.Kind != wrap.OpRename || !strings.HasSuffix(op.NewName, ".ldb") {
			return nil
		}
		if named++; named == 1 {
			edit.Go(func() { _ = s.Set.Between(func() error { written.Store(true); return nil }) })
		}
		for range 1_000 { // that an edit is not written has no end to wait for
			runtime.Gosched()
		}
		require.False(s.t, written.Load(), "after %d names", named)
		return nil
	}
	require.NoError(s.t, f(s))
	edit.Wait()
	return named
}

// A crash during an edit must not find some of the tables of another change with their names: a repair uses them.
func TestTablesAreNamedWhileNoEditIsWritten(t *testing.T) {
	own := []Entry{{Kind: base.KindSet, Key: tabletest.Key(500), Value: []byte("own")}}
	for name, change := range map[string]func(s *store) error{
		"a load": loadHere,
		"an ingest": func(s *store) error {
			_, err := s.Ingest(s.t.Context(), []string{s.makeTable("in", "linked", 4_000), s.makeTable("in too", "rewritten", 1)}, false)
			return err
		},
		"a deletion": func(s *store) error {
			_, err := s.DeleteTables(s.t.Context(), span(10, 2_990), own)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { require.Greater(t, loaded(t).namesDuring(change), 1) })
	}
}

// loadHere loads several tables.
func loadHere(s *store) error {
	l, err := s.NewLoader("load", "here")
	require.NoError(s.t, err)
	add(s.t, l, 300)
	_, err = l.Commit()
	return err
}

func TestAChangeWithoutNumbersIsNotedForTransactions(t *testing.T) {
	s := newStore(t)
	s.put("old", 1)
	defer s.snapshots.Pin()()
	at := s.snapshots.Open(&s.finder.Current, nil)
	defer s.snapshots.Close(&at)
	s.led.Lock()
	err := s.Coordinator.install(leader{s}, &change{
		edit:     &manifest.Edit{LastSeq: manifest.Num(7)},
		untraced: txn.Change{Gone: []txn.Range{{Lower: tabletest.Key(3), Upper: tabletest.Key(4)}}},
	})
	s.led.Unlock()
	require.NoError(t, err)
	require.EqualValues(t, 7, s.lastSeq)
	require.EqualValues(t, 7, s.finder.VisibleSeq.Load())
	c, known := s.untraced.Between(at.Seq, 7)
	require.True(t, known)
	require.Len(t, c.Gone, 1)
}
