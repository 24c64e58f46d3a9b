package txn

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
)

func reads(keys ...int) *Reads {
	r := &Reads{Comparer: base.Bytewise}
	for _, n := range keys {
		r.AddKey(key(n))
	}
	r.Prepare()
	return r
}

func TestRecentCommits(t *testing.T) {
	var r Recent
	note := func(seq uint64, n int) {
		if r.Watched() {
			r.Add(seq-1, batch.AppendRecord(nil, seq, base.KindSet, key(n), []byte("v")))
		}
	}
	note(1, 1)
	require.True(t, r.Covers(1, 1), "nothing was committed since")
	require.False(t, r.Covers(0, 1))

	r.Begin()
	note(2, 2)
	note(3, 3)
	require.True(t, r.Covers(1, 3))
	require.False(t, r.Covers(0, 3), "the first commit is missing")
	require.False(t, r.Conflict(reads(1, 9), 1))
	require.True(t, r.Conflict(reads(3), 1))
	require.True(t, r.Conflict(reads(3), 2))
	require.False(t, r.Conflict(reads(3), 3), "it is not above the horizon")

	r.AddKey(3, key(4))
	require.True(t, r.Conflict(reads(4), 3))

	r.Forget(10) // a load
	require.False(t, r.Covers(4, 10))
	require.True(t, r.Covers(10, 10))
	note(11, 5)
	require.True(t, r.Covers(10, 11))
	require.True(t, r.Conflict(reads(5), 10))

	r.End()
	note(12, 6)
	require.False(t, r.Covers(11, 12))
	r.Begin()
	note(13, 7)
	require.False(t, r.Covers(11, 13), "a commit was not recorded between the two")
	require.True(t, r.Covers(12, 13))
	r.End()
}

func TestRecentCommitsAreBounded(t *testing.T) {
	var r Recent
	r.Begin()
	defer r.End()
	long := bytes.Repeat([]byte("k"), 1000)
	const n = 10_000
	for seq := uint64(1); seq <= n; seq++ {
		r.AddKey(seq-1, append(long, key(int(seq%1000))...))
		require.LessOrEqual(t, len(r.old.keys)+len(r.young.keys), 2*(maxYoung+2000))
	}
	require.False(t, r.Covers(1, n))
	require.True(t, r.Covers(r.from, n))
	require.Less(t, uint64(n)-r.from, uint64(2*maxYoung/1000+2))
	last := &Reads{Comparer: base.Bytewise}
	last.AddKey(append(long, key(int((r.from+1)%1000))...))
	last.Prepare()
	require.True(t, r.Conflict(last, r.from), "the oldest recorded commit")
}

// A batch is indexed in steps.
func TestWritesFollowABatch(t *testing.T) {
	w := &Writes{Comparer: base.Bytewise}
	var entries []byte
	for n := range 100 {
		entries = batch.AppendEntry(entries, base.KindSet, key(n%10), key(n))
		if n%7 == 0 {
			w.Update(entries, uint32(n+1))
			w.Update(entries, uint32(n+1))
			require.Equal(t, n+1, w.Len())
			value, kind, ok := w.Get(key(n % 10))
			require.True(t, ok)
			require.Equal(t, base.KindSet, kind)
			require.Equal(t, key(n), value)
		}
	}
}

func TestTheNumberOfRecentCommitsIsBounded(t *testing.T) {
	var r Recent
	r.Begin()
	defer r.End()
	const n = 10 * maxCommits
	for seq := uint64(1); seq <= n; seq++ {
		r.AddKey(seq-1, nil)
		require.LessOrEqual(t, len(r.old.marks)+len(r.young.marks), 2*maxCommits)
	}
	require.True(t, r.Covers(n-maxCommits, n))
	require.True(t, r.Conflict(&Reads{Comparer: base.Bytewise, keys: [][]byte{{}}, merged: true}, n-1))
}

func TestWritesGrow(t *testing.T) {
	w := &Writes{Comparer: base.Bytewise}
	_, _, ok := w.Get(key(1))
	require.False(t, ok)
	it, last := w.Iter()
	require.Nil(t, it)
	require.Zero(t, last)
	for n := range 1000 {
		w.add(base.KindSet, key(n), key(n))
	}
	first, last := w.Iter()
	for n := range 1000 {
		w.add(base.KindDelete, key(n), nil)
		if n%2 == 0 {
			w.add(base.KindSet, key(n), []byte("new"))
		}
	}
	for n := range 1000 {
		value, kind, ok := w.Get(key(n))
		require.True(t, ok)
		require.Equal(t, n%2 == 0, kind == base.KindSet)
		if n%2 == 0 {
			require.Equal(t, "new", string(value))
		}
	}
	count := 0
	for ok := first.First(); ok; ok = first.Next() {
		if seq, _ := base.SplitTrailer(base.Trailer(first.Key())); seq <= last {
			require.Equal(t, key(count), first.Value())
			count++
		}
	}
	require.Equal(t, 1000, count)
	w.add(base.KindSet, []byte("large"), make([]byte, 1<<20))
	value, _, ok := w.Get([]byte("large"))
	require.True(t, ok)
	require.Len(t, value, 1<<20)
	require.Equal(t, 2501, w.Len())
}
