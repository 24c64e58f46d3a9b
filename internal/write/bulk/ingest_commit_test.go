package bulk

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/internal/write/txn"
	"github.com/sievedb/sievedb/report"
)

// fromTo returns a table with a range of keys and of sequence numbers.
func fromTo(from, to string, minSeq, maxSeq uint64) *table {
	ikey := func(key string) []byte { return base.AppendInternalKey(nil, []byte(key), 1, base.KindSet) }
	return &table{meta: manifest.NewFileMeta(1, 1, ikey(from), ikey(to)), minSeq: minSeq, maxSeq: maxSeq}
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
	v := &manifest.Version{Cmp: base.Bytewise}
	v.Levels[0].Files = []*manifest.FileMeta{fromTo("m", "n", 0, 0).meta}
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
	info, err := s.Ingest(t.Context(), []string{s.makeTable("in", "new", 1, 2)}, false)
	require.NoError(t, err)
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
	info, err := s.Ingest(t.Context(), []string{path}, false)
	require.NoError(t, err)
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
	info, err := s.Ingest(t.Context(), []string{path}, false)
	require.NoError(t, err)
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
