package sstable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// copied returns the table with filters of another policy.
func copied(r *Reader, o WriterOptions) (data []byte, err error) {
	var out bytes.Buffer
	w := NewWriter(&out, o)
	if err := w.CopyBlocks(r, nil); err != nil {
		return nil, err
	}
	_, err = w.Finish()
	return out.Bytes(), err
}

// A copy has the data blocks of the table byte for byte, and the filters, properties and
// bounds of a table that was originally written with the policy.
func TestACopyDiffersOnlyInItsFilters(t *testing.T) {
	rnd := newRand(t)
	policy := filter.NewDualBloomPolicy(12)
	for _, shape := range tableShapes {
		for _, n := range []int{0, 1, 300} {
			t.Run(fmt.Sprintf("%v/%d entries", shape, n), func(t *testing.T) {
				es := trickyEntries(rnd, shape.cmp, n)
				old := buildTable(t, shape.options(), es)
				r, _ := openTable(t, old, ReaderOptions{Comparer: shape.cmp, Policies: shape.policies()})
				data := result.Of(copied(r, WriterOptions{Comparer: shape.cmp, Filter: policy}))(t)

				o := shape.options()
				o.Filter = policy
				whole := buildTable(t, o, es)
				want, _ := openTable(t, whole, ReaderOptions{Comparer: shape.cmp, Policies: filter.Kinds(policy)})
				got, _ := openTable(t, data, ReaderOptions{Comparer: shape.cmp, Policies: filter.Kinds(policy), Cache: newCache()})
				wantProps, _ := want.Properties()
				gotProps, _ := got.Properties()
				require.Equal(t, wantProps, gotProps)
				require.Equal(t, old[:gotProps.DataBytes], data[:gotProps.DataBytes], "data blocks")
				wantFilters := result.Of(want.AllFilters())(t)
				gotFilters := result.Of(got.AllFilters())(t)
				require.Len(t, gotFilters.filters, len(wantFilters.filters))
				for i, f := range wantFilters.filters {
					require.Equal(t, f.filter, gotFilters.filters[i].filter, f.policy.Name())
				}
				require.Equal(t, want.marks, got.marks)
				itertest.Run(t, shape.cmp, es, rnd.Uint64(), iters(t, got, IterOptions{}))
				for range 300 {
					checkGet(t, got, shape.cmp, es, randomUser(rnd, es), randomSeq(rnd))
				}
			})
		}
	}
}

func TestDamagedTablesAreNotCopied(t *testing.T) {
	es, data := smallTable(t)
	r, _ := openTable(t, data, ReaderOptions{})
	props, _ := r.Properties()
	for at := range int(props.DataBytes) {
		bad := bytes.Clone(data)
		bad[at] ^= 1 << (at % 8)
		r, err := Open(&memFile{data: bad}, ReaderOptions{})
		if err != nil {
			continue
		}
		_, err = copied(r, WriterOptions{})
		require.ErrorIs(t, err, base.ErrCorruption, "byte %d of %d entries", at, len(es))
		require.NoError(t, r.Close())
	}
}

// Blocks with correct checksums but in the wrong order are rejected as well.
func TestBlocksOutOfOrderAreNotCopied(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second []string
		separators    []string
	}{
		"keys that descend between blocks":     {[]string{"b"}, []string{"a"}, []string{"b", "c"}},
		"a key after its separator":            {[]string{"a", "c"}, []string{"d"}, []string{"b", "d"}},
		"a key before the separator before it": {[]string{"a"}, []string{"b"}, []string{"b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			separators := versionsOf(tc.separators...)
			data := tableOf(t, []entries{versionsOf(tc.first...), versionsOf(tc.second...)}, [][]byte{separators[0].Key, separators[1].Key})
			r, _ := openTable(t, data, ReaderOptions{})
			require.ErrorIs(t, result.Err(copied(r, WriterOptions{})), base.ErrCorruption)
		})
	}
}

func TestACopyEndsWithItsCallersError(t *testing.T) {
	_, data := smallTable(t)
	r, _ := openTable(t, data, ReaderOptions{})
	enough, sum := errors.New("enough"), 0
	w := NewWriter(new(bytes.Buffer), WriterOptions{})
	require.ErrorIs(t, w.CopyBlocks(r, func(n int) error { sum += n; return enough }), enough)
	require.Positive(t, sum)
	require.ErrorIs(t, result.Err(w.Finish()), enough)

	w = NewWriter(new(bytes.Buffer), WriterOptions{})
	require.NoError(t, w.Add(ikey("a", 1, base.KindSet), nil))
	require.Error(t, w.CopyBlocks(r, nil), "a table that already has entries")
}

// sharingFile is a file in memory that shares bytes in whole units.
type sharingFile struct {
	bytes.Buffer
	unit, shared int64
}

func (f *sharingFile) ShareFrom(src vfs.File, n int64) (int64, error) {
	f.shared = n / f.unit * f.unit
	_, err := io.Copy(f, io.NewSectionReader(src, 0, f.shared))
	return f.shared, err
}

func TestACopyThatSharesBlocksIsTheSame(t *testing.T) {
	_, data := smallTable(t)
	r, _ := openTable(t, data, ReaderOptions{})
	props, _ := r.Properties()
	o := WriterOptions{Filter: filter.NewBloomPolicy(10)}
	want := result.Of(copied(r, o))(t)
	for _, unit := range []int64{1, 7, 100, int64(props.DataBytes), 1 << 20} {
		f := &sharingFile{unit: unit}
		w := NewWriter(f, o)
		require.NoError(t, w.CopyBlocks(r, nil))
		finish(t, w)
		require.Equal(t, want, f.Bytes(), "in units of %d bytes", unit)
		require.EqualValues(t, len(want), w.Size())
		require.Equal(t, int64(props.DataBytes)/unit*unit, f.shared)
	}
}

// Bytes between data blocks must not be copied.
func TestBlocksWithGapsAreNotShared(t *testing.T) {
	es := versionsOf("a", "b")
	data := tableByHand(t, WriterOptions{}, func(w *Writer) {
		for _, e := range es {
			listBlock(t, w, buildBlock(16, entries{e}), NoCompression, e.Key)
			result.Of(w.writeBlock([]byte("something else"), NoCompression))(t)
		}
	})
	r, _ := openTable(t, data, ReaderOptions{})
	f := &sharingFile{unit: 1}
	w := NewWriter(f, WriterOptions{})
	require.NoError(t, w.CopyBlocks(r, nil))
	finish(t, w)
	require.Zero(t, f.shared)
	got, _ := openTable(t, f.Bytes(), ReaderOptions{})
	itertest.Run(t, base.Bytewise, es, 1, iters(t, got, IterOptions{}))
}
