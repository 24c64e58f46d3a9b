package batch

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
)

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

	data, err := b.AppendBinary([]byte("before"))
	require.NoError(t, err)
	var read Batch
	require.NoError(t, read.UnmarshalBinary(data[len("before"):]))
	require.Equal(t, texts(b), texts(&read))
	require.Equal(t, b.MemSize(), read.MemSize())
	none, err := new(Batch).AppendBinary(nil)
	require.NoError(t, err)
	require.Equal(t, AppendEmpty(nil), none)
	require.NoError(t, read.UnmarshalBinary(none))
	require.Zero(t, read.Len()+read.Size())
	for n := range data[len("before"):] {
		require.ErrorIs(t, read.UnmarshalBinary(data[len("before"):][:n]), base.ErrCorruption)
	}
	_, err = mixed().AppendBinary(nil)
	require.ErrorContains(t, err, "DeleteRange has no binary form")
	b.PutTTL([]byte("a"), nil, time.Second)
	_, err = b.AppendBinary(nil)
	require.ErrorContains(t, err, "PutTTL")
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
	_, err = b.AppendBinary(nil)
	require.ErrorIs(t, err, base.ErrTooLarge)

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
	_, err := copied.AppendBinary(nil)
	require.ErrorContains(t, err, "copy of another Batch")
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
