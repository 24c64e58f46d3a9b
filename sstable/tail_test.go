package sstable

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
)

func TestASimilarTableIsOpenedWithOneRead(t *testing.T) {
	for _, c := range []struct {
		name      string
		n, size   int
		policy    filter.Policy
		firstRead int // reads of the first opening
	}{
		{"an empty table", 0, 0, bloom, 1},
		{"one entry", 1, 100, bloom, 1},
		{"many entries", 20000, 100, bloom, 1},
		{"two filters", 20000, 100, dual, 1},
		{"no filter", 20000, 100, filter.None, 1},
		{"small entries", 20000, 4, dual, 2},
		{"large entries", 500, 4000, bloom, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			es := benchEntriesOf(c.n, c.size)
			data := buildTable(t, WriterOptions{Filter: c.policy}, es)
			start, indexEnd := indexRange(t, data)
			o := ReaderOptions{Policies: ourKind, Cache: newCache(), Tail: new(TailGuess)}
			r, f := openTable(t, data, o)
			require.Len(t, f.takeReads(), c.firstRead)
			require.EqualValues(t, c.firstRead, r.OpenCost().Reads)

			r, f = openTable(t, data, o)
			reads := f.takeReads()
			require.Len(t, reads, 1)
			require.Equal(t, OpenCost{Reads: 1, Bytes: reads[0].size}, r.OpenCost())
			needed := r.FilterSize() + indexEnd - start
			require.LessOrEqual(t, reads[0].size, max(4<<10, 9*(2*needed+1<<10)/8+uint64(len(data))/1024+1<<10))

			for i := 0; i < c.n; i += c.n/3 + 1 {
				res, err := get(r, string(base.UserKey(es[i].Key)), base.MaxSeq)
				require.NoError(t, err)
				require.Equal(t, es[i].Value, res.Value)
				require.False(t, res.IndexRead, "Open read the index")
				reads := f.takeReads()
				require.Len(t, reads, 1, "one data block")
				require.EqualValues(t, res.BytesRead, reads[0].size)
			}
			p, ok := r.Properties()
			require.True(t, ok)
			require.EqualValues(t, c.n, p.Entries)
			require.Empty(t, f.takeReads(), "the properties need no read either")
		})
	}
}

// benchEntriesOf returns n entries whose values do not compress.
func benchEntriesOf(n, size int) entries {
	es := plainEntries(n, size)
	for i := range es {
		for j := range es[i].Value {
			es[i].Value[j] = byte(i*40503>>(j%24)) + byte(j*j*(i+3))
		}
	}
	return es
}

func TestOpenWithAndWithoutTheTailAgree(t *testing.T) {
	es := plainEntries(60, 30)
	sound := buildTable(t, WriterOptions{Filter: dual, BlockSize: 256}, es)
	for at := range sound {
		for _, bit := range []byte{0x01, 0x80} {
			data := bytes.Clone(sound)
			data[at] ^= bit
			whole, wholeErr := Open(&memFile{data: data}, ReaderOptions{Policies: ourKind, Name: "x"})
			pieces, piecesErr := Open(&memFile{data: data, inPieces: true}, ReaderOptions{Policies: ourKind, Name: "x"})
			require.Equal(t, fmt.Sprint(piecesErr), fmt.Sprint(wholeErr), "byte %d", at)
			if wholeErr != nil {
				continue
			}
			a, b := whole.FilterStatus(), pieces.FilterStatus()
			require.Equal(t, fmt.Sprint(b), fmt.Sprint(a), "byte %d", at)
			for i := range 2 { // the fault of an index is reported each time
				_, _, wholeErr = whole.loadIndex()
				_, _, piecesErr = pieces.loadIndex()
				require.Equal(t, fmt.Sprint(piecesErr), fmt.Sprint(wholeErr), "byte %d, time %d", at, i)
			}
			require.Equal(t, wholeErr != nil, whole.IndexSize() == 0)
			require.NoError(t, whole.Close())
			require.NoError(t, pieces.Close())
		}
	}
}

// A filter far from the end, or before the filters of unknown policies, is better read
// separately than with all bytes after it.
func TestAFilterFarFromTheEndIsNotReadWithTheTail(t *testing.T) {
	es := benchEntriesOf(20000, 100)
	many := filter.Several(lines, bloom, filter.FusePolicy{}, renamedPolicy{bloom, "a"}, renamedPolicy{bloom, "b"}, renamedPolicy{bloom, "c"})
	data := buildTable(t, WriterOptions{Filter: many}, es)
	o := ReaderOptions{Policies: ourKind, Tail: new(TailGuess)}
	for range 3 {
		r, f := openTable(t, data, o)
		reads := f.takeReads()
		require.Len(t, reads, 2)
		require.EqualValues(t, 2, r.OpenCost().Reads)
		require.Equal(t, FilterWholeTable, r.FilterStatus().State)
		require.NotZero(t, r.IndexSize())
	}
}

// renamedPolicy is a policy under another name.
type renamedPolicy struct {
	filter.Policy
	name string
}

func (p renamedPolicy) Name() string { return p.name }

func TestAStoredIndexIsChargedAndThenTheDecodedOne(t *testing.T) {
	data := buildTable(t, WriterOptions{Filter: bloom}, plainEntries(2000, 100))
	start, end := indexRange(t, data)
	c := newCache()
	r, _ := openTable(t, data, ReaderOptions{Policies: []filter.Policy{bloom}, Cache: c, Memory: chargedTo(c, true)})
	require.GreaterOrEqual(t, r.IndexSize(), end-start)
	require.Less(t, r.IndexSize(), 5*(end-start)/4, "only the index is charged, not the tail")
	require.EqualValues(t, r.FilterSize()+r.IndexSize(), c.Metrics().Charged)
	before := r.IndexSize()
	_, read, err := r.loadIndex()
	require.NoError(t, err)
	require.Zero(t, read)
	require.Greater(t, r.IndexSize(), before)
	require.EqualValues(t, r.FilterSize()+r.IndexSize(), c.Metrics().Charged)
}
