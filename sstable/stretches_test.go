package sstable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

func TestStretchesDivideATableByKeys(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	es := trickyEntries(rnd, base.Bytewise, 500)
	r, _ := openTable(t, buildTable(t, WriterOptions{BlockSize: 256}, es), ReaderOptions{})
	ix, _, err := r.loadIndex()
	require.NoError(t, err)
	for _, step := range []uint64{0, 1, 1000, 5000, 1 << 40} {
		t.Run(fmt.Sprintf("step=%d", step), func(t *testing.T) {
			var begins [][]byte
			var total uint64
			require.NoError(t, r.Stretches(step, func(begin []byte, bytes uint64) {
				// A block exceeds its target size by at most one entry.
				require.True(t, bytes < step+4096 || total == 0)
				begins = append(begins, begin)
				total += bytes
			}))
			require.Equal(t, ix.End(), total)
			require.Nil(t, begins[0])
			for _, begin := range begins[1:] {
				offset, err := r.ApproximateOffset(base.AppendInternalKey(nil, begin, base.MaxSeq, base.KindSeek))
				require.NoError(t, err)
				require.Less(t, offset, ix.End())
			}
			switch step {
			case 0, 1:
				require.Len(t, begins, ix.Len())
			case 1 << 40:
				require.Len(t, begins, 1)
			}
		})
	}
}

// With a lower bound, First skips the blocks that are before it according to the index.
func TestFirstBeginsAtTheBlockOfTheLowerBound(t *testing.T) {
	es := plainEntries(1000, 20)
	r, f := openTable(t, buildTable(t, WriterOptions{BlockSize: 256}, es), ReaderOptions{})
	result.Of(r.LoadIndex())(t)
	for _, i := range []int{0, 1, 500, 999} {
		lower := base.UserKey(es[i].Key)
		it := newIter(t, r, IterOptions{Lower: lower})
		f.takeReads()
		require.True(t, it.First())
		for bytes.Compare(base.UserKey(it.Key()), lower) < 0 {
			require.True(t, it.Next())
		}
		require.Equal(t, string(es[i].Key), string(it.Key()))
		require.Len(t, f.takeReads(), 1, "blocks read for entry %d", i)
		require.NoError(t, it.Close())
	}
	it := newIter(t, r, IterOptions{Lower: []byte{0xff}})
	require.False(t, it.First())
	require.NoError(t, it.Close())
}

// CheckRemainder accepts a block only if its remaining keys are in order.
func TestTheRemainderOfABlockIsChecked(t *testing.T) {
	for name, tc := range map[string]struct {
		users []string
		ok    bool
	}{
		"in order":                     {[]string{"b", "c", "d"}, true},
		"nothing left":                 {[]string{"b"}, true},
		"a key that descends":          {[]string{"b", "d", "a"}, false},
		"a key twice":                  {[]string{"b", "d", "d"}, false},
		"a key after the separator":    {[]string{"b", "c", "f"}, false},
		"all keys after the separator": {[]string{"f"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			data := tableOf(t, []entries{versionsOf(tc.users...)}, [][]byte{ikey("e", 1, base.KindSet)})
			r, _ := openTable(t, data, ReaderOptions{})
			it := newIter(t, r, IterOptions{})
			defer it.Close()
			require.True(t, it.First())
			if err := it.CheckRemainder(); tc.ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, base.ErrCorruption)
			}
		})
	}
}
