package ingest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
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
			j := &job{Ingester: New(Options{Cmp: base.Bytewise}, nil)}
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
			j := &job{tables: []*table{c.table}}
			require.Equal(t, !c.stays, j.demote(v, last, c.seen))
			require.Equal(t, !c.stays, c.table.rewrite)
			require.False(t, j.demote(v, last, c.seen), "a marked table is not new")
		})
	}
}

// A job that is overtaken writes the entries of its tables again.
func TestAnOvertakenJobRewritesAgain(t *testing.T) {
	for _, last := range []uint64{99, 100, 101} {
		w, a, b := &closing{}, fromTo("a", "b", 0, 0), fromTo("c", "d", 0, 0)
		a.rewrite, a.written = true, true
		j := &job{tables: []*table{a, b}, seq: 100, writers: []Writer{w}}
		require.Equal(t, last >= 100, j.overtaken(last))
		require.Equal(t, last >= 100, w.closed)
		require.Equal(t, last >= 100, a.due())
		require.False(t, b.due())
		require.Equal(t, last < 100, j.seq == 100)
		require.False(t, j.overtaken(last))
	}
}

// closing is a Writer that is only closed.
type closing struct {
	Writer
	closed bool
}

func (w *closing) Close() error { w.closed = true; return nil }
