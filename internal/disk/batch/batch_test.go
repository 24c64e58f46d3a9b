package batch

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
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
		header, err := NewReader(record)
		require.NoError(t, err)
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
