package counters

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/sstable"
)

func TestTotalsAreTheSumsOfAllStripes(t *testing.T) {
	c := new(Lookups)
	path := Path(0).With(0).With(0).With(2) // two tables of level 0, one of level 2
	c[0].CountAbsent(path)
	c[1].CountAbsent(path)
	c[1].CountPlain(path)                              // the table of level 2 has the key
	c[2].CountAnswer(Path(0).With(0), base.KindDelete) // a tombstone
	c[2].CountRead(1, &sstable.Result{IndexRead: true, BlockFromDisk: true, BytesRead: 70, Found: true, Filter: sstable.FilterPassed})
	c[3].CountFailed()
	c[3].CountMemtable(true)
	c[3].CountMemtable(false)
	require.EqualValues(t, 1, c[3].Begin(4))
	c[3].CountFound(2)
	c[4].CountRead(6, &sstable.Result{Filter: sstable.FilterNone})
	c[4].CountRead(6, &sstable.Result{Filter: sstable.FilterPassed})
	c[4].CountPlainRead(6)
	c[4].CountRead(6, &sstable.Result{Filter: sstable.FilterNegative})
	c[31].CountDenied(6, 5)

	got := c.Total()
	require.EqualValues(t, 9, got.Gets)
	require.EqualValues(t, 3, got.GetsFound)
	require.EqualValues(t, 2, got.MemtableSearches)
	require.EqualValues(t, 1, got.MemtableHits)
	want := [len(got.Levels)]LevelTotals{
		0: {FilterNegatives: 7},
		1: {FilterTruePositives: 1, IndexReads: 1, BlocksFromDisk: 1, BytesFromDisk: 70},
		2: {FilterNegatives: 2, FilterTruePositives: 1, BlocksFromCache: 1},
		6: {FilterNegatives: 6, UnfilteredReads: 1, FilterFalsePositives: 1, FilterTruePositives: 1, BlocksFromCache: 1},
	}
	require.Equal(t, want, got.Levels)
	require.EqualValues(t, 8, got.Levels[6].FilterChecks())
	require.EqualValues(t, 9, got.Levels[6].Reads())
}

func TestOnlyIteratorsWithBothBoundsQueryRangeFilters(t *testing.T) {
	r, some := new(Ranges), []byte("k")
	require.Same(t, &r[3], r.ForBounds(3, some, some))
	require.Nil(t, r.ForBounds(3, nil, some))
	require.Nil(t, r.ForBounds(3, some, nil))
	require.Nil(t, (*Ranges)(nil).ForBounds(3, some, some))
	var none, zero Totals
	(*Ranges)(nil).AddTo(&none)
	r.AddTo(&none)
	require.Equal(t, zero, none)
}

func TestOpenIteratorsAndSnapshotsAreListed(t *testing.T) {
	var l Opened
	require.Empty(t, l.String())
	one, other, more := new(int), new(int), new(int)
	l.Add(one, Iterator, true)
	l.Add(other, Snapshot, false)
	require.Regexp(t, `^1 iterator, 1 snapshot open: iterator opened at .*:\d+$`, l.String())
	iterators, snapshots, _ := l.Counts()
	require.Equal(t, []int{1, 1}, []int{iterators, snapshots})
	l.Add(more, Snapshot, false)
	require.Regexp(t, `^1 iterator, 2 snapshots open: `, l.String())
	l.Remove(more, Snapshot)
	l.Remove(one, Iterator)
	require.Equal(t, "1 snapshot open: Options.TrackOpen records where each was opened", l.String())
	l.Remove(other, Snapshot)
	require.Empty(t, l.String())
}
