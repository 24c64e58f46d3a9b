package version

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

// Level 0 was assumed to be in the order of its sequence numbers even if another program wrote it.
func TestLevel0OrderFollowsSequenceNumbers(t *testing.T) {
	known := func(smallest, largest uint64) *SeqRange { return &SeqRange{smallest, largest, true} }
	foreign := &SeqRange{}
	for name, c := range map[string]struct {
		older, newer *SeqRange
		apart        bool // the tables share no user key
		want         order
	}{
		"a flush above another":           {older: known(1, 9), newer: known(10, 20), want: inOrder},
		"an input that was brought back":  {older: known(10, 20), newer: known(1, 9), want: notInOrder},
		"ranges that overlap":             {older: known(1, 10), newer: known(10, 20), want: notInOrder},
		"the same range":                  {older: known(1, 9), newer: known(1, 9), want: notInOrder},
		"a load in two tables":            {older: known(9, 9), newer: known(9, 9), apart: true, want: inOrder},
		"tables of another program":       {older: foreign, newer: foreign, want: notInOrder},
		"a flush above a foreign table":   {older: foreign, newer: known(10, 20), want: notInOrder},
		"foreign tables that do not meet": {older: foreign, newer: foreign, apart: true, want: inOrder},
		"a table that was not opened":     {older: nil, newer: known(10, 20), want: orderUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			lo, hi := base.AppendInternalKey(nil, []byte("a"), 1, base.KindSet), base.AppendInternalKey(nil, []byte("c"), 1, base.KindSet)
			files := []*FileMeta{NewFileMeta(7, 1, lo, hi), NewFileMeta(5, 1, lo, hi)}
			if c.apart {
				files[0].Smallest, files[1].Largest = hi, lo
			}
			files[0].Seqs.Store(c.newer)
			files[1].Seqs.Store(c.older)
			require.Equal(t, c.want, orderOf(base.Bytewise, files))

			v, err := New(base.Bytewise, new(Owner)).Apply(Change{Added: []LevelFile{{0, files[0]}, {0, files[1]}}})
			require.NoError(t, err)
			require.Equal(t, c.want == inOrder, v.Level0InOrder())
			if c.want == orderUnknown {
				v.LearnOrder()
				require.False(t, v.Level0InOrder())
				files[1].Seqs.Store(known(1, 9))
				v.LearnOrder()
				require.True(t, v.Level0InOrder())
			}
		})
	}
}

// In a level 0 with more tables than are all compared with each other, opening them did not determine
// the order: every lookup consulted all of them until level 0 changed.
func TestOrderOfManyTablesIsLearned(t *testing.T) {
	lo, hi := base.AppendInternalKey(nil, []byte("a"), 1, base.KindSet), base.AppendInternalKey(nil, []byte("c"), 1, base.KindSet)
	var edit Change
	for num := range uint64(maxOrdered + 1) {
		edit.Added = append(edit.Added, LevelFile{0, NewFileMeta(num+1, 1, lo, hi)})
	}
	open := func(v *Version, num, smallest uint64) {
		edit.Added[num-1].File.Seqs.Store(&SeqRange{smallest, smallest + 1, true})
		v.LearnOrder()
	}
	version := func() *Version {
		v := result.Of(New(base.Bytewise, new(Owner)).Apply(edit))(t)
		return v
	}
	v := version()
	for num := uint64(1); num <= maxOrdered+1; num++ {
		require.False(t, v.Level0InOrder())
		open(v, num, 10*num)
	}
	require.True(t, v.Level0InOrder())

	open(v, 5, 1)
	require.False(t, version().Level0InOrder())
}
