package batch

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/memtable"
)

func TestDamagedBatchesAreCorruption(t *testing.T) {
	good := AppendRecord(nil, 1, base.KindSet, []byte("key"), []byte("value"))
	change := func(f func(data []byte) []byte) []byte { return f(bytes.Clone(good)) }
	cases := map[string][]byte{
		"shorter than a header":      good[:11],
		"more entries than bytes":    change(func(d []byte) []byte { d[8] = 200; return d }),
		"an entry missing":           change(func(d []byte) []byte { d[8] = 2; return d }),
		"bytes after the last":       change(func(d []byte) []byte { return append(d, 0) }),
		"no entry but bytes":         change(func(d []byte) []byte { d[8] = 0; return d }),
		"an unknown kind":            change(func(d []byte) []byte { d[12] = 32; return d }),
		"a key that is too long":     change(func(d []byte) []byte { d[13] = 100; return d }),
		"a value that is too long":   change(func(d []byte) []byte { d[17] = 6; return d }),
		"a sequence above the limit": change(func(d []byte) []byte { d[7] = 1; return d }),
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := Check(data)
			require.ErrorIs(t, err, base.ErrCorruption)
		})
	}
}

// A record of a later version was corruption, which Repair left out.
func TestABatchWithAReservedKindIsNewer(t *testing.T) {
	data := AppendRecord(nil, 7, base.KindSet, []byte("key"), []byte("value"))
	for _, kind := range []byte{2, 31} {
		data[12] = kind
		_, _, err := Check(data)
		require.ErrorIs(t, err, base.ErrNewer)
		require.NotErrorIs(t, err, base.ErrCorruption)
		require.ErrorIs(t, new(Batch).UnmarshalBinary(data), base.ErrCorruption, "bytes of a caller have no checksum")
	}
}

func FuzzCheck(f *testing.F) {
	two := AppendRecord(nil, 7, base.KindSet, []byte("key"), []byte("value"))
	two = AppendEntry(two, base.KindDelete, []byte("other"), nil)
	two[8] = 2
	f.Add(two)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, record []byte) {
		next, memSize, err := Check(record)
		if err != nil {
			require.ErrorIs(t, err, base.ErrCorruption)
			return
		}
		require.LessOrEqual(t, next-1, base.MaxSeq)
		if memSize > 1<<20 {
			return
		}
		mem := memtable.New(base.Bytewise, int(memSize)+4<<10)
		header := result.Of(NewReader(record))(t)
		Insert(mem, new(memtable.Inserter), record)
		require.Equal(t, int(header.Count), mem.Len())
	})
}

// The parts of a large entry's record are the bytes that AppendRecord appends.
func TestRecordPartsConcatenateToTheRecord(t *testing.T) {
	for _, kind := range []base.Kind{base.KindSet, base.KindDelete} {
		value := []byte("value")
		if kind == base.KindDelete {
			value = nil
		}
		require.Equal(t, AppendRecord(nil, 9, kind, []byte("key"), value),
			bytes.Join(RecordParts(9, kind, []byte("key"), value), nil))
	}
}

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

// texts returns the entries of a batch as texts.
func texts(b *Batch) (all []string) {
	names := map[EntryKind]string{EntryPut: "put", EntryDelete: "delete", EntryDeleteRange: "range"}
	for i, e := range b.All() {
		all = append(all, fmt.Sprintf("%d %s %s %s %v", i, names[e.Kind], e.Key, e.Value, e.TTL))
	}
	return all
}

func mixed() *Batch {
	b := new(Batch)
	b.DeleteRange(nil, []byte("m"))
	b.Add(base.KindSet, []byte("a"), []byte("1"))
	b.PutTTL([]byte("b"), []byte("2"), time.Second)
	b.DeleteRange([]byte("x"), nil)
	b.Add(base.KindDelete, []byte("c"), nil)
	return b
}

func TestABatchReturnsItsWritesInOrder(t *testing.T) {
	b := mixed()
	want := []string{"0 range  m 0s", "1 put a 1 0s", "2 put b 2 1s", "3 range x  0s", "4 delete c  0s"}
	require.Equal(t, want, texts(b))
	require.Equal(t, 5, b.Len())
	require.EqualValues(t, 3, b.Count())
	require.True(t, b.HasRanges())
	require.NoError(t, b.Refused())
	require.Empty(t, texts(new(Batch)))
	for _, stop := range []int{0, 1} { // at a range and at an entry
		n := 0
		for i := range b.All() {
			n++
			if i == stop {
				break
			}
		}
		require.Equal(t, stop+1, n)
	}

	twice := new(Batch)
	twice.Add(base.KindDelete, []byte("before"), nil)
	twice.Append(b)
	twice.Append(new(Batch))
	require.Equal(t, []string{"0 delete before  0s", "1 range  m 0s", "2 put a 1 0s", "3 put b 2 1s", "4 range x  0s", "5 delete c  0s"}, texts(twice))
	twice.Append(twice)
	require.Equal(t, 12, twice.Len())
	twice.Reset()
	require.Empty(t, texts(twice))
	require.False(t, twice.HasRanges())
	require.Nil(t, twice.Entries())
}

// The record of a batch is what Check and NewReader accept.
func TestTheRecordOfABatch(t *testing.T) {
	b := new(Batch)
	b.Add(base.KindSet, []byte("a"), []byte("1"))
	b.Add(base.KindDelete, []byte("b"), nil)
	record := b.Record(77)
	require.Equal(t, b.Size(), len(record))
	require.Equal(t, b.Entries(), record[HeaderLen:])
	next, memSize, err := Check(record)
	require.NoError(t, err)
	require.EqualValues(t, 79, next)
	require.Equal(t, b.MemSize(), memSize)

	data := result.Of(b.AppendBinary([]byte("before")))(t)
	var read Batch
	require.NoError(t, read.UnmarshalBinary(data[len("before"):]))
	require.Equal(t, texts(b), texts(&read))
	require.Equal(t, b.MemSize(), read.MemSize())
	none := result.Of(new(Batch).AppendBinary(nil))(t)
	require.Equal(t, AppendEmpty(nil), none)
	require.NoError(t, read.UnmarshalBinary(none))
	require.Zero(t, read.Len()+read.Size())
	for n := range data[len("before"):] {
		require.ErrorIs(t, read.UnmarshalBinary(data[len("before"):][:n]), base.ErrCorruption)
	}
	require.ErrorContains(t, result.Err(mixed().AppendBinary(nil)), "DeleteRange has no binary form")
	b.PutTTL([]byte("a"), nil, time.Second)
	require.ErrorContains(t, result.Err(b.AppendBinary(nil)), "PutTTL")
}

// A batch of entries within their limits may exceed the limit for batches.
func TestABatchAboveItsLimitIsRefusedWithItsName(t *testing.T) {
	b := Batch{data: make([]byte, HeaderLen, MaxBatchSize)} // capacity that is never touched
	b.data = b.data[:MaxBatchSize-100]
	b.Add(base.KindSet, []byte("k"), make([]byte, 89))
	err := b.Refused()
	require.ErrorIs(t, err, base.ErrTooLarge)
	require.ErrorContains(t, err, fmt.Sprintf("the batch would take %d bytes with its entry 1, and at most %d (MaxBatchSize)", MaxBatchSize+1, MaxBatchSize))
	require.ErrorContains(t, err, "apply it in parts")

	b.Reset()
	require.Zero(t, b.Cap(), "Reset does not keep that much memory")
	b.Add(base.KindSet, []byte("k"), []byte("v"))
	require.NoError(t, b.Refused(), "the batch can be used again")
	require.NoError(t, b.CheckMemory())
	b.memSize = MaxBatchSize + 1
	require.ErrorContains(t, b.CheckMemory(), "the 1 entries of the batch take up to 1073741825 bytes in memory")
	require.ErrorIs(t, result.Err(b.AppendBinary(nil)), base.ErrTooLarge)

	many := Batch{data: make([]byte, HeaderLen+1), entries: math.MaxInt32}
	many.owner = &many
	b.Reset()
	b.Add(base.KindSet, []byte("k"), nil)
	b.Append(&many)
	require.ErrorContains(t, b.Refused(), "the batch has 2147483648 entries")
}

func TestEntriesAboveALimitRefuseTheBatch(t *testing.T) {
	long := make([]byte, MaxKeySize+1)
	for name, write := range map[string]func(b *Batch){
		"MaxKeySize":           func(b *Batch) { b.Add(base.KindDelete, long, nil) },
		"(MaxKeySize)":         func(b *Batch) { b.DeleteRange(nil, long) },
		"must be positive":     func(b *Batch) { b.PutTTL(nil, nil, 0) },
		"copy of another":      func(b *Batch) { c := copyOf(mixed()); b.Append(&c) },
		"several goroutines":   func(b *Batch) { c := mixed(); c.Begin(); b.Append(c) },
		"key is 1048577 bytes": func(b *Batch) { c := new(Batch); c.Add(base.KindSet, long, nil); b.Append(c) },
	} {
		var b Batch
		b.Add(base.KindSet, []byte("before"), nil)
		write(&b)
		require.ErrorContains(t, b.Refused(), name)
		_, err := b.AppendBinary(nil)
		require.Equal(t, b.Refused(), err)
		first := b.Refused()
		b.Add(base.KindDelete, long, nil)
		require.Same(t, first, b.Refused(), "the first error stays")
	}
	require.ErrorIs(t, new(Batch).UnmarshalBinary(AppendRecord(nil, 0, base.KindSet, long, nil)), base.ErrTooLarge)
}

// Copies, and batches that several goroutines use, refuse every use until Reset.
func TestMisuseOfABatchIsRefused(t *testing.T) {
	original := mixed()
	copied := copyOf(original)
	require.False(t, copied.Begin())
	require.ErrorContains(t, copied.Misuse(), "copy of another Batch")
	copied.Add(base.KindSet, []byte("late"), nil)
	copied.DeleteRange(nil, nil)
	copied.Append(original)
	require.Equal(t, 5, copied.Len())
	require.ErrorContains(t, copied.UnmarshalBinary(nil), "copy of another Batch")
	require.ErrorContains(t, result.Err(copied.AppendBinary(nil)), "copy of another Batch")
	require.True(t, original.Begin(), "the original is as it was")
	require.True(t, original.End())
	copied.Reset()
	require.True(t, copied.Begin())

	require.False(t, copied.Begin(), "as another goroutine")
	require.False(t, copied.End())
	require.False(t, copied.Begin(), "it stays marked")
	require.ErrorContains(t, copied.Misuse(), "several goroutines")
	copied.Reset()
	require.True(t, copied.Begin())
	copied.Reset()
	require.False(t, copied.End(), "a Reset during a use is another use")
}

// copyOf copies values that go vet would not let a test copy.
func copyOf[T any](x *T) T { return *x }

// Sealed batches have envelopes around the values under a prefix.
func TestABatchIsSealed(t *testing.T) {
	clock := func() time.Time { return time.UnixMilli(1000) }
	p := expiry.New([][]byte{[]byte("b"), []byte("d")}, clock)
	b := mixed()
	b.Add(base.KindSet, []byte("d"), []byte("4"))
	require.True(t, b.NeedsSeal(nil), "it has a time to live")
	require.False(t, new(Batch).NeedsSeal(nil))
	require.True(t, new(Batch).NeedsSeal(p))
	var sealed Batch
	require.NoError(t, sealed.Seal(p, b))
	require.False(t, sealed.NeedsSeal(p))
	require.Equal(t, []string{
		"0 range  m 0s", "1 put a 1 0s", "2 put b " + string(expiry.Append(nil, 2000, []byte("2"))) + " 0s", "3 range x  0s", "4 delete c  0s",
		"5 put d " + string(expiry.Append(nil, expiry.Never, []byte("4"))) + " 0s",
	}, texts(&sealed))

	var refused Batch
	require.ErrorContains(t, refused.Seal(nil, b), "under none of Options.Expiry.Prefixes")
	refused.Reset()
	refused.MarkSealed()
	require.False(t, refused.NeedsSeal(p))
	require.False(t, strings.Contains(fmt.Sprint(CheckEntry(make([]byte, MaxKeySize+1), nil)), "\x00"), "no key is in an error")
}
