package db_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

func TestSearchingALevelByNumbersAgreesWithKeys(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	snapshot := d.NewSnapshot() // keeps the sequence numbers
	defer snapshot.Close()
	fill(t, d, 0, 4000)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	levels := d.State().Version.Levels[:]
	searched := 0
	for i := range levels[1:] {
		l := &levels[1+i]
		for _, hi := range []int{len(l.Files), len(l.Files) / 2} { // without and with an upper bound
			files := l.Files[:hi]
			numbers := tables.NewLevelIter(d.TableCache(), d.Opts().Comparer, files, sstable.IterOptions{})
			numbers.SetLevel(l)
			keys := tables.NewLevelIter(d.TableCache(), d.Opts().Comparer, files, sstable.IterOptions{})
			agree := func(user []byte, seq uint64) {
				ikey := base.AppendInternalKey(nil, user, seq, base.KindSeek)
				require.Equal(t, keys.Find(ikey), numbers.Find(ikey), "sequence number %d", seq)
			}
			for _, f := range l.Files {
				for _, bound := range [][]byte{f.Smallest, f.Largest} {
					user := base.UserKey(bound)
					seq, _ := base.SplitTrailer(base.Trailer(bound))
					for _, seq := range []uint64{0, max(seq, 1) - 1, seq, seq + 1, base.MaxSeq} {
						agree(user, seq)
						agree(append(user[:len(user):len(user)], 0), seq)
						agree(user[:len(user)-1], seq)
					}
				}
			}
			agree(nil, base.MaxSeq)
			agree([]byte{0xff}, base.MaxSeq)
			searched += hi
		}
	}
	require.Greater(t, searched, 4)
}
