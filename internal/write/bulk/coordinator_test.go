package bulk

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/internal/write/txn"
	"github.com/sievedb/sievedb/report"
)

func TestOneDeletionRunsAtATime(t *testing.T) {
	s, l := newLoad(t)
	add(t, l, 1)
	end := result.Of(s.exclude(t.Context()))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.exclude(ctx)
	require.Equal(t, context.Canceled, err)
	_, err = s.DeleteTables(ctx, Spans{}, nil)
	require.Equal(t, context.Canceled, err)
	end()
	_, err = s.exclude(ctx)
	require.Equal(t, context.Canceled, err, "also if it need not wait")
	end = result.Of(s.exclude(t.Context()))(t)
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
		seq := result.Of(reserve("a load", last, base.LoadAhead))(t)
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
	second := result.Of(s.NewLoader("bulk transaction", "file.go:7"))(t)
	require.NoError(t, first.Close())
	add(t, second, 300)
	s.GiveUp(base.ErrReadOnly)
	requireEnded(t, s, second, base.ErrReadOnly)
	s.requireOnlyTables(0)
	_, err := s.NewLoader("load", "here")
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
	l := result.Of(s.NewLoader("load", "here"))(s.t)
	add(s.t, l, 300)
	_, err := l.Commit()
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

// fromTo returns a table with a range of keys and of sequence numbers.
func fromTo(from, to string, minSeq, maxSeq uint64) *table {
	ikey := func(key string) []byte { return base.AppendInternalKey(nil, []byte(key), 1, base.KindSet) }
	return &table{meta: version.NewFileMeta(1, 1, ikey(from), ikey(to)), minSeq: minSeq, maxSeq: maxSeq}
}

// rewritten returns the first keys of the tables that are marked.
func rewritten(tables []*table) (first string) {
	for _, t := range tables {
		if t.rewrite {
			first += string(t.smallest())
		}
	}
	return first
}

func TestTablesThatOverlapAreSeparatedFromOthers(t *testing.T) {
	for _, c := range []struct {
		name   string
		ranges []string // of one letter each
		want   string
	}{
		{"none overlap", []string{"ab", "cd", "ee"}, ""},
		{"a shared key", []string{"ab", "bc", "dd"}, "ab"},
		{"within a long one", []string{"az", "bc", "de", "zz"}, "abdz"},
		{"two pairs", []string{"ac", "bd", "eg", "fh"}, "abef"},
		{"a chain", []string{"ac", "be", "df", "gg"}, "abd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &ingest{Coordinator: New(Options{Cmp: base.Bytewise})}
			for _, r := range c.ranges {
				j.tables = append(j.tables, fromTo(r[:1], r[1:], 1, 1))
			}
			j.separate()
			require.Equal(t, c.want, rewritten(j.tables))
		})
	}
}

func TestWhichTablesStayAsTheyAre(t *testing.T) {
	v := &version.Version{Cmp: base.Bytewise}
	v.Levels[0].Files = []*version.FileMeta{fromTo("m", "n", 0, 0).meta}
	const last = 1000
	for _, c := range []struct {
		name  string
		table *table
		seen  bool
		stays bool
	}{
		{"nothing in its range", fromTo("a", "b", 0, last), false, true},
		{"old and new numbers in a free range", fromTo("a", "b", 0, last+5), false, true},
		{"old numbers that a snapshot would see", fromTo("a", "b", 0, last), true, false},
		{"the last number, with a snapshot", fromTo("a", "b", last, last), true, false},
		{"new numbers, with a snapshot", fromTo("a", "b", last+1, last+1), true, true},
		{"overlaps, with old numbers", fromTo("n", "o", 0, last), false, false},
		{"overlaps, with an old number", fromTo("l", "m", last, last+5), false, false},
		{"overlaps, with new numbers", fromTo("l", "m", last+1, last+5), true, true},
		{"numbers that are far above", fromTo("a", "b", freeSeq, freeSeq), false, true},
		{"numbers that are too far above", fromTo("a", "b", 0, freeSeq+1), false, false},
		{"new numbers that are too far above", fromTo("a", "b", freeSeq+1, freeSeq+1), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &ingest{tables: []*table{c.table}}
			require.Equal(t, !c.stays, j.demote(v, last, c.seen))
			require.Equal(t, !c.stays, c.table.rewrite)
			require.False(t, j.demote(v, last, c.seen), "a marked table is not new")
		})
	}
}

// makeTable writes a table outside of the store and returns its path. All entries have the sequence number 1.
func (s *store) makeTable(path, value string, keys ...int) string {
	var entries []fixture.Entry
	for _, n := range keys {
		entries = append(entries, fixture.Put(string(tabletest.Key(n)), 1, value))
	}
	fixture.WriteFile(s.t, s.fs, path, fixture.Table(s.t, entries...))
	return path
}

// An ingest that is overtaken writes the entries of its tables again, and in the end while it leads.
func TestAnOvertakenIngestRewritesAgain(t *testing.T) {
	s := newStore(t)
	s.put("old", 1, 5)
	s.ingestAhead = 3
	leads := 0
	s.during = func(call string) {
		if call == "lead" {
			leads++
			s.put("meanwhile", 2, 2, 2)
		}
	}
	info := result.Of(s.Ingest(t.Context(), []string{s.makeTable("in", "new", 1, 2)}, false))(t)
	require.Equal(t, patience, leads)
	require.Equal(t, 1, info.Rewritten)
	require.Equal(t, info.Seq, s.lastSeq)
	s.requireValue(1, nil, "new")
	s.requireValue(2, nil, "new")
	require.Empty(t, s.files(".dbtmp"))
}

// ingestWithSnapshot ingests a table in a free range while a snapshot is open, which during may close. It runs in a
// bubble, and requires that its clock does not move.
func ingestWithSnapshot(t *testing.T, during func(s *store, at *lookup.At)) (*store, *lookup.At, report.Ingest) {
	s := newStore(t)
	s.put("old", 1)
	at := s.snapshots.Open(&s.finder.Current, nil)
	path := s.makeTable("in", strings.Repeat("new", 300), numbers(100, 3_000)...)
	s.fault = func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpCreate && strings.HasSuffix(op.Name, ".dbtmp") && during != nil {
			during(s, &at)
			during = nil
		}
		return nil
	}
	start := time.Now()
	info := result.Of(s.Ingest(t.Context(), []string{path}, false))(t)
	require.Zero(t, time.Since(start), "nobody waits")
	s.requireValue(1, nil, "old")
	s.requireValue(100, nil, strings.Repeat("new", 300))
	require.Empty(t, s.files(".dbtmp"))
	require.EqualValues(t, 2_900, info.Entries)
	return s, &at, info
}

// Time stands still in a bubble while somebody runs, so a wait would be seen.
func TestAnIngestDoesNotWaitForASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, info := ingestWithSnapshot(t, nil)
		require.Equal(t, 1, info.Rewritten)
		s.requireValue(100, at, "")
	})
}

func TestAnIngestLinksATableAfterAllWhenTheSnapshotIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, info := ingestWithSnapshot(t, func(s *store, at *lookup.At) { s.snapshots.Close(at) })
		require.Equal(t, 1, info.Linked)
		require.Zero(t, info.Rewritten)
		require.EqualValues(t, 3, info.Seq, "the number of a rewriting that was given up is not used")
		require.Len(t, s.untracedSince(0).Came, 1)
	})
}

// A snapshot that is opened while a table is rewritten pins what it reads.
func TestAnIngestDoesNotWaitForSnapshotsThatBeginMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var second lookup.At
		s, _, info := ingestWithSnapshot(t, func(s *store, at *lookup.At) {
			second = s.snapshots.Open(&s.finder.Current, nil)
			s.snapshots.Close(at)
		})
		require.Equal(t, 1, info.Linked)
		s.requireValue(100, &second, "")
		s.snapshots.Close(&second)
	})
}

// Whether a table may stay as it is was not examined since the writes of the meantime, which it overlaps.
func TestARewritingWhileWritersWaitDoesNotEndWithTheSnapshots(t *testing.T) {
	s := newStore(t)
	s.put("old", 1)
	s.ingestAhead = 3
	at := s.snapshots.Open(&s.finder.Current, nil)
	leads := 0
	s.during = func(call string) {
		if call != "lead" {
			return
		}
		s.put("meanwhile", 150, 150, 150)
		if leads++; leads == patience {
			s.snapshots.Close(&at)
		}
	}
	path := s.makeTable("in", strings.Repeat("new", 300), numbers(100, 3_000)...)
	info := result.Of(s.Ingest(t.Context(), []string{path}, false))(t)
	require.Equal(t, patience, leads)
	require.Equal(t, 1, info.Rewritten)
	s.requireValue(150, nil, strings.Repeat("new", 300))
}

// untracedSince returns what changed above start without a trace.
func (s *store) untracedSince(start uint64) txn.Change {
	c, known := s.untraced.Between(start, s.lastSeq)
	require.True(s.t, known)
	return c
}
