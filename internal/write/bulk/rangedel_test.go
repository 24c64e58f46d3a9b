package bulk

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/tabletest"
)

// loaded returns a store with keys 0 to 2999 in many tables.
func loaded(t *testing.T) *store {
	s, l := newLoad(t)
	for n := range 3_000 {
		require.NoError(t, l.Put(tabletest.Key(n), []byte("loaded")))
	}
	_, err := l.Commit()
	require.NoError(t, err)
	require.Greater(t, len(s.files(".ldb")), 20)
	s.calls = nil
	return s
}

// span returns the range from one key to another one, limit excluded.
func span(from, limit int) Spans {
	return NewSpans(base.Bytewise, []Span{{Start: tabletest.Key(from), Limit: tabletest.Key(limit)}})
}

// atTable calls f before the nth table with a temporary name is created, counted from 1.
func (s *store) atTable(nth int, f func()) {
	s.fault = func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpCreate && strings.HasSuffix(op.Name, ".dbtmp") {
			if nth--; nth == 0 {
				f()
			}
		}
		return nil
	}
}

func (s *store) requireDeleted(from, limit int) {
	s.t.Helper()
	for n := range 3_000 {
		want := "loaded"
		if from <= n && n < limit {
			want = ""
		}
		s.requireValue(n, nil, want)
	}
}

func TestADeletionRemovesTheTablesOfTheRangeAndWritesTombstonesForOtherKeys(t *testing.T) {
	s := loaded(t)
	tables := len(s.files(".ldb"))
	own := []Entry{{Kind: base.KindSet, Key: tabletest.Key(500), Value: []byte("own")}}
	info, err := s.DeleteTables(t.Context(), span(10, 2_990), own)
	require.NoError(t, err)
	require.Equal(t, []string{
		"flush", "ignore level 0", "lead", "flush the rest", "hold", "place", "apply", "advance true", "release", "respect level 0",
	}, s.calls)
	require.Equal(t, tables-2, info.TablesDropped, "those at the ends have other keys")
	require.Zero(t, info.TablesCovered)
	require.Positive(t, info.BytesDropped)
	require.Less(t, info.Tombstones, uint64(400))
	s.requireValue(500, nil, "own")
	s.requireValue(501, nil, "")
	s.requireValue(9, nil, "loaded")
	require.Len(t, s.untracedSince(0).Gone, 1)
	require.Empty(t, s.files(".dbtmp"))
}

// Time stands still in a bubble while somebody runs, so a wait would be seen.
func TestADeletionDoesNotWaitForASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := loaded(t)
		tables := len(s.files(".ldb"))
		at := s.snapshots.Open(&s.finder.Current, nil)
		start := time.Now()
		info, err := s.DeleteTables(t.Context(), span(10, 2_990), nil)
		require.NoError(t, err)
		require.Zero(t, time.Since(start), "nobody waits")
		require.EqualValues(t, 2_980, info.Tombstones)
		require.Equal(t, tables-2, info.TablesCovered)
		require.Zero(t, info.TablesDropped)
		s.requireDeleted(10, 2_990)
		s.requireValue(1_500, &at, "loaded")

		require.True(t, s.Waiting())
		s.snapshots.Close(&at)
		s.Wake()
		s.background.Wait()
		require.False(t, s.Waiting())
		require.Less(t, len(s.files(".ldb")), tables)
		s.requireDeleted(10, 2_990)
	})
}

// tombstoneTables returns how many tables of tombstones a deletion writes while a snapshot is open.
func tombstoneTables(t *testing.T) (created int) {
	s := loaded(t)
	at := s.snapshots.Open(&s.finder.Current, nil)
	defer s.snapshots.Close(&at)
	s.fault = func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpCreate {
			created++
		}
		return nil
	}
	_, err := s.DeleteTables(t.Context(), span(10, 2_990), nil)
	require.NoError(t, err)
	return created
}

// The job begins again as soon as it looks, at the end at the latest.
func TestADeletionRemovesTablesAfterAllWhenTheLastSnapshotIsClosed(t *testing.T) {
	last := tombstoneTables(t)
	require.Greater(t, last, 5)
	for _, table := range []int{1, 5, last} {
		s := loaded(t)
		first, second := s.snapshots.Open(&s.finder.Current, nil), s.snapshots.Open(&s.finder.Current, nil)
		s.atTable(table, func() {
			s.snapshots.Close(&first)
			s.snapshots.Close(&second)
		})
		created, hook := 0, s.fault
		s.fault = func(op wrap.Op) *wrap.Fault {
			if op.Kind == wrap.OpCreate {
				created++
			}
			return hook(op)
		}
		info, err := s.DeleteTables(t.Context(), span(10, 2_990), nil)
		require.NoError(t, err)
		require.Equal(t, table < last, created < last, "of %d tables of tombstones %d were created; closed at table %d", last, created, table)
		require.Positive(t, info.TablesDropped)
		require.Zero(t, info.TablesCovered)
		require.Less(t, info.Tombstones, uint64(400), "of the second attempt")
		s.requireDeleted(10, 2_990)
		require.Empty(t, s.files(".dbtmp"), "of the first attempt")
		require.Equal(t, 1, strings.Count(strings.Join(s.calls, ","), "lead"), "writers wait once")
	}
}

// A snapshot that begins while a range is deleted pins what it reads, so nothing waits for it.
func TestASnapshotFromDuringADeletionKeepsItsView(t *testing.T) {
	s := loaded(t)
	s.atTable(1, func() {
		at := s.snapshots.Open(&s.finder.Current, nil)
		require.NotNil(t, at.State)
		s.t.Cleanup(func() {
			s.requireValue(1_500, &at, "loaded")
			s.snapshots.Close(&at)
		})
	})
	info, err := s.DeleteTables(t.Context(), span(10, 2_990), nil)
	require.NoError(t, err)
	require.Positive(t, info.TablesDropped)
	s.requireDeleted(10, 2_990)
}

func TestADeletionThatIsOvertakenIsRepeated(t *testing.T) {
	s := loaded(t)
	s.deletionAhead = 16
	s.atTable(1, func() { s.put("meanwhile", numbers(100, 200)...) })
	_, err := s.DeleteTables(t.Context(), span(10, 2_990), nil)
	require.NoError(t, err)
	s.requireDeleted(10, 2_990)
	require.Equal(t, 2, strings.Count(strings.Join(s.calls, ","), "lead"))
}

func TestADeletionThatIsOvertakenAgainAndAgainFails(t *testing.T) {
	s := loaded(t)
	s.during = func(call string) {
		if call == "lead" {
			s.lastSeq += 2 * base.LoadAhead
			s.finder.VisibleSeq.Store(s.lastSeq)
		}
	}
	_, err := s.DeleteTables(t.Context(), span(10, 2_990), nil)
	require.ErrorContains(t, err, "writes happened during it; delete less at a time")
	s.requireDeleted(0, 0)
	require.Empty(t, s.files(".dbtmp"))
}

// What is written while a range is deleted is deleted with it: the deletion happens at its end.
func TestWritesDuringADeletionOfTablesAreDeleted(t *testing.T) {
	for name, then := range map[string]func(s *store){
		"in the memtable": func(*store) {},
		"in a table":      func(s *store) { require.NoError(s.t, s.flush()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := loaded(t)
			s.atTable(1, func() {
				s.put("meanwhile", 5, 15, 1_500, 2_995)
				then(s)
			})
			_, err := s.DeleteTables(t.Context(), span(10, 2_990), nil)
			require.NoError(t, err)
			for n, want := range map[int]string{5: "meanwhile", 15: "", 1_500: "", 2_995: "meanwhile"} {
				s.requireValue(n, nil, want)
			}
		})
	}
}

func TestAFailedDeletionDeletesNothing(t *testing.T) {
	for _, fail := range []string{"flush", "lead", "flush the rest", "apply"} {
		t.Run(fail, func(t *testing.T) {
			s := loaded(t)
			tables := len(s.files(".ldb"))
			s.fail = fail
			_, err := s.DeleteTables(t.Context(), span(10, 2_990), nil)
			require.ErrorIs(t, err, errFailed)
			s.requireDeleted(0, 0)
			s.requireOnlyTables(tables)
			s.fail = ""
			_, err = s.DeleteTables(t.Context(), span(10, 2_990), nil)
			require.NoError(t, err, "nothing is reserved any more")
			s.requireDeleted(10, 2_990)
		})
	}
}
