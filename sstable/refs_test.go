package sstable

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/result"
)

// refTable returns a table of n entries, of which each third refers to a value.
func refTable(t *testing.T, n int) (file []byte, sums []base.RefSum) {
	var es entries
	want := map[uint64]uint64{}
	for i := range n {
		kind, value := base.KindSet, []byte("inline")
		if i%3 == 0 {
			ref := base.ValueRef{ID: uint64(7 + i%4*100), Seq: uint64(i), Len: uint64(10_000 + i)}
			kind, value = base.KindRef, ref.Append(nil)
			want[ref.ID] += ref.Len
		}
		es = append(es, itertest.Entry{Key: ikey(fmt.Sprintf("k%06d", i), uint64(100+i), kind), Value: value})
	}
	for id := uint64(7); id < 500; id += 100 {
		if want[id] > 0 {
			sums = append(sums, base.RefSum{ID: id, Bytes: want[id]})
		}
	}
	return buildTable(t, WriterOptions{}, es), sums
}

func TestTablesKnowWhatTheyReferTo(t *testing.T) {
	file, want := refTable(t, 1000)
	r, _ := openTable(t, file, ReaderOptions{})
	require.True(t, r.HasRefs())
	got := result.Of(r.Refs())(t)
	require.Equal(t, want, got)

	var lk Lookup
	lk.Init([]byte("k000003"), 1000)
	defer lk.Release()
	res := result.Of(r.Get(&lk))(t)
	require.True(t, res.Found)
	_, kind := base.SplitTrailer(res.Trailer)
	require.Equal(t, base.KindRef, kind)
	ref := result.Of(base.DecodeValueRef(res.Value))(t)
	require.Equal(t, base.ValueRef{ID: 307, Seq: 3, Len: 10_003}, ref)

	data := result.Of(copied(r, WriterOptions{}))(t)
	r, _ = openTable(t, data, ReaderOptions{})
	got = result.Of(r.Refs())(t)
	require.Equal(t, want, got, "of the copy")

	w := NewWriter(io.Discard, WriterOptions{})
	require.ErrorIs(t, w.Add(ikey("k", 1, base.KindRef), []byte("no reference")), base.ErrCorruption)
}

func TestTablesWithoutReferencesSayNothingOfThem(t *testing.T) {
	data := buildTable(t, WriterOptions{}, plainEntries(1, 10))
	require.NotContains(t, string(data), "required")
	r, _ := openTable(t, data, ReaderOptions{})
	require.False(t, r.HasRefs())
	sums := result.Of(r.Refs())(t)
	require.Nil(t, sums)
}

// Whatever the size of its values, a value table has one in each data block, which only those read who need it.
func TestValueTablesHaveABlockForEachValue(t *testing.T) {
	var es entries
	for i, n := range []int{0, 1, 100, 5000, 20_000, 1 << 20, 3 << 20, 7} {
		es = append(es, itertest.Entry{Key: ikey("key", uint64(100-i), base.KindSet), Value: bytes.Repeat([]byte{byte(i)}, n)})
	}
	r, _ := openTable(t, buildTable(t, WriterOptions{Values: true}, es), ReaderOptions{})
	it := result.Of(r.NewIter(IterOptions{KeysOnly: true}))(t)
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		require.Equal(t, es[n].Key, it.Key())
		require.Empty(t, it.Value())
		require.True(t, it.ix.lone.Has(n))
		n++
	}
	require.NoError(t, it.Err())
	require.Equal(t, len(es), n)
	require.Zero(t, it.stats.BlocksFromDisk)
	require.True(t, r.IsValueTable())
	ids := result.Of(r.IDs())(t)
	require.Nil(t, ids, "as in tables of early builds, which have only the ID that is their number")
	for i := range es {
		checkGet(t, r, base.Bytewise, es, []byte("key"), uint64(100-i))
	}
}

func TestValueTablesKnowTheirIDs(t *testing.T) {
	want := []uint64{3, 4, 700, base.MaxFileNum}
	r, _ := openTable(t, buildTable(t, WriterOptions{Values: true, IDs: want}, plainEntries(1, 10)), ReaderOptions{})
	ids := result.Of(r.IDs())(t)
	require.Equal(t, want, ids)
}
