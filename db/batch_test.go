package db

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/vfs"
)

func TestBatchBytesAreLevelDBs(t *testing.T) {
	var b Batch
	b.Put([]byte("k"), []byte("value"))
	b.Delete([]byte("gone"))
	b.Put(nil, nil)
	b.setSeq(258)
	text, err := os.ReadFile("testdata/batch.hex")
	require.NoError(t, err)
	var want []byte
	for line := range strings.Lines(string(text)) {
		hex, _, _ := strings.Cut(line, "#")
		for _, field := range strings.Fields(hex) {
			require.Len(t, field, 2)
			want = append(want, byte(strings.IndexByte("0123456789abcdef", field[0])<<4|strings.IndexByte("0123456789abcdef", field[1])))
		}
	}
	require.Equal(t, want, b.data)
	require.Equal(t, 3, b.Len())
}

func TestDamagedBatchesAreCorruption(t *testing.T) {
	var b Batch
	b.Put([]byte("key"), []byte("value"))
	b.setSeq(1)
	change := func(f func(data []byte) []byte) []byte { return f(bytes.Clone(b.data)) }
	cases := map[string][]byte{
		"shorter than a header":      b.data[:11],
		"more entries than bytes":    change(func(d []byte) []byte { d[8] = 200; return d }),
		"an entry missing":           change(func(d []byte) []byte { d[8] = 2; return d }),
		"bytes behind the last":      change(func(d []byte) []byte { return append(d, 0) }),
		"no entry but bytes":         change(func(d []byte) []byte { d[8] = 0; return d }),
		"an unknown kind":            change(func(d []byte) []byte { d[12] = 2; return d }),
		"a key that runs past":       change(func(d []byte) []byte { d[13] = 100; return d }),
		"a value that runs past":     change(func(d []byte) []byte { d[17] = 6; return d }),
		"a sequence above the limit": change(func(d []byte) []byte { d[7] = 1; return d }),
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := checkBatch(data)
			require.ErrorIs(t, err, ErrCorruption)
		})
	}
}

func FuzzCheckBatch(f *testing.F) {
	var b Batch
	b.Put([]byte("key"), []byte("value"))
	b.Delete([]byte("other"))
	b.setSeq(7)
	f.Add(b.data)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, record []byte) {
		next, memSize, err := checkBatch(record)
		if err != nil {
			require.ErrorIs(t, err, ErrCorruption)
			return
		}
		require.LessOrEqual(t, next-1, base.MaxSeq)
		if memSize > 1<<20 {
			return
		}
		mem := memtable.New(base.Bytewise, int(memSize)+memtableSlack)
		header, err := readBatchHeader(record)
		require.NoError(t, err)
		insertBatch(mem, new(memtable.Inserter), record)
		require.Equal(t, int(header.count), mem.Len())
	})
}

func TestABatchIsAppliedWholeOrNotAtAll(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	var b Batch
	b.Put([]byte("a"), []byte("1"))
	b.Put([]byte("a"), []byte("2"))
	b.Delete([]byte("b"))
	require.NoError(t, d.Apply(&b, nil))
	requireValue(t, d, []byte("a"), []byte("2"))
	require.NoError(t, d.Apply(&b, nil), "a batch may be applied again")

	b.Reset()
	require.Zero(t, b.Len())
	require.NoError(t, d.Apply(&b, nil), "an empty batch is fine")

	b.Put([]byte("c"), nil)
	b.Put(make([]byte, MaxKeySize+1), nil)
	require.ErrorIs(t, d.Apply(&b, nil), ErrTooLarge)
	_, err := d.Get([]byte("c"))
	require.Equal(t, ErrNotFound, err)
}

func TestABatchLargerThanTheWriteBufferFits(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	var b Batch
	for i := range 2000 {
		b.Put(testKey(i), testValue(i))
	}
	require.Greater(t, b.Size(), d.opts.WriteBufferSize)
	require.NoError(t, d.Apply(&b, NoSync))
	big := bytes.Repeat([]byte("x"), 1<<20)
	require.NoError(t, d.Put([]byte("big"), big, nil))
	settle(t, d)
	for i := range 2000 {
		requireValue(t, d, testKey(i), testValue(i))
	}
	requireValue(t, d, []byte("big"), big)
}
