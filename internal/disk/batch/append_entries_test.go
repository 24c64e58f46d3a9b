package batch

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

func puts(n int) *Batch {
	b := new(Batch)
	for i := range n {
		b.Add(base.KindSet, fmt.Appendf(nil, "key %d", i), bytes.Repeat([]byte{'v'}, i%300))
		b.Add(base.KindDelete, fmt.Appendf(nil, "gone %d", i), nil)
	}
	return b
}

func TestAppendedEntriesAreThoseThatWereAddedOneByOne(t *testing.T) {
	from, to := puts(1000), puts(3)
	want := puts(3)
	want.Append(from)
	require.NoError(t, to.AppendEntries(from.Entries()))
	require.Equal(t, texts(want), texts(to))
	require.Equal(t, []any{want.Count(), want.MemSize(), want.Record(7)}, []any{to.Count(), to.MemSize(), to.Record(7)})
	_, memSize, err := Check(to.Record(7))
	require.NoError(t, err)
	require.Equal(t, memSize, to.MemSize())
	require.NoError(t, to.AppendEntries(to.Entries()), "a batch can be appended to itself")
	require.Equal(t, 2*want.Len(), to.Len())
	require.Equal(t, texts(want)[5][1:], texts(to)[5+want.Len()][len(fmt.Sprint(5+want.Len())):])
}

// Entries were added one by one, each with a copy of its own.
func TestAppendedEntriesNeedOneAllocation(t *testing.T) {
	entries := puts(1000).Entries()
	var b *Batch
	require.EqualValues(t, 2, testing.AllocsPerRun(10, func() {
		b = new(Batch)
		b.Grow(len(entries))
		require.NoError(t, b.AppendEntries(entries))
	}), "the batch and its bytes")
	require.EqualValues(t, 0, testing.AllocsPerRun(10, func() {
		b.Reset()
		require.NoError(t, b.AppendEntries(entries))
	}))
}

func TestEntriesThatAreRefusedLeaveTheBatchAsItWas(t *testing.T) {
	large := AppendEntry(nil, base.KindSet, make([]byte, MaxKeySize+1), nil)
	cut := AppendEntry(AppendEntry(nil, base.KindSet, []byte("a"), nil), base.KindSet, []byte("b"), []byte("value"))
	for name, c := range map[string]struct {
		entries []byte
		want    error
	}{
		"a key above the limit": {large, base.ErrTooLarge},
		"a value is cut":        {cut[:len(cut)-1], base.ErrCorruption},
		"a key is cut":          {[]byte{1, 4, 'k'}, base.ErrCorruption},
		"an unknown kind":       {[]byte{2, 1, 'k'}, base.ErrCorruption},
		"another one":           {[]byte{77}, base.ErrCorruption},
	} {
		b := puts(2)
		require.ErrorIs(t, b.AppendEntries(c.entries), c.want, name)
		require.Equal(t, puts(2).Record(1), b.Record(1), name)
		require.NoError(t, b.Refused(), name)
	}
	var empty Batch
	require.NoError(t, empty.AppendEntries(nil))
	require.Zero(t, empty.Len()+empty.Size())
	b := puts(1)
	c := Batch{data: b.data, entries: b.entries, owner: b}
	require.ErrorContains(t, c.AppendEntries(b.Entries()), "copy")
}

// What AppendEntries takes, UnmarshalBinary takes as well, and the batches are the same.
func FuzzAppendEntries(f *testing.F) {
	f.Add(puts(2).Entries())
	f.Add([]byte{1, 0x80, 0, 0})
	f.Fuzz(func(t *testing.T, entries []byte) {
		var b, want Batch
		if err := b.AppendEntries(entries); err != nil {
			require.True(t, base.IsUnreadable(err), err)
			require.Zero(t, b.Len()+b.Size())
			return
		}
		record := append(AppendEmpty(nil), entries...)
		record[8], record[9], record[10], record[11] = byte(b.entries), byte(b.entries>>8), byte(b.entries>>16), byte(b.entries>>24)
		require.NoError(t, want.UnmarshalBinary(record))
		require.Equal(t, []any{want.Count(), want.MemSize(), want.Entries()}, []any{b.Count(), b.MemSize(), b.Entries()})
	})
}
