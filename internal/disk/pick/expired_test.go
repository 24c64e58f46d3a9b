package pick

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
)

// expiring is file with a time at which its values expire, and the sequence number of its entries.
func expiring(num uint64, smallest, largest string, expiry uint64) *manifest.FileMeta {
	f := file(num, smallest, largest, 1000)
	f.SetCounts(&manifest.TableCounts{Entries: 10, Expiry: expiry})
	f.Seqs.Store(&manifest.SeqRange{Smallest: num, Largest: num, Known: true})
	return f
}

func TestPickRemovesExpiredTables(t *testing.T) {
	o := Options{L0Trigger: 4, MaxLevelBase: 1 << 30, TableSize: 8000, Expired: func(f *manifest.FileMeta) bool {
		c := f.Counts()
		return c != nil && c.Expiry > 0 && c.Expiry <= 100
	}}
	busy, doubtful := expiring(1, "a", "c", 5), expiring(3, "a", "c", 5)
	busy.Compacting = true
	doubtful.Seqs.Store(&manifest.SeqRange{Smallest: 0, Largest: 9, Known: true})
	cases := []struct {
		name   string
		levels map[int][]*manifest.FileMeta
		want   []uint64 // nil if nothing is picked
		level  int
	}{
		{"all of a level that have expired, and no others",
			map[int][]*manifest.FileMeta{6: {expiring(1, "a", "c", 100), expiring(2, "d", "f", 101), expiring(3, "g", "h", 7)}}, []uint64{3, 1}, 6},
		{"nothing that does not expire, or was not counted",
			map[int][]*manifest.FileMeta{6: {expiring(1, "a", "c", 0), file(2, "d", "f", 1000)}}, nil, 0},
		{"the deepest level first",
			map[int][]*manifest.FileMeta{5: {expiring(2, "a", "c", 5)}, 6: {expiring(1, "b", "d", 5)}}, []uint64{1}, 6},
		{"not above older entries that have not expired",
			map[int][]*manifest.FileMeta{5: {expiring(2, "a", "c", 5)}, 6: {expiring(1, "c", "d", 500)}}, nil, 0},
		{"above tables of other keys",
			map[int][]*manifest.FileMeta{5: {expiring(2, "a", "c", 5)}, 6: {expiring(1, "d", "e", 500)}}, []uint64{2}, 5},
		{"below newer entries",
			map[int][]*manifest.FileMeta{0: {expiring(3, "a", "c", 500)}, 6: {expiring(1, "a", "c", 5)}}, []uint64{1}, 6},
		{"not while it is compacted",
			map[int][]*manifest.FileMeta{5: {expiring(2, "a", "c", 5)}, 6: {busy}}, nil, 0},
		{"level 0: the oldest with all that follow",
			map[int][]*manifest.FileMeta{0: {expiring(1, "a", "c", 5), expiring(2, "a", "c", 5), expiring(3, "a", "c", 500), expiring(4, "a", "c", 5)}}, []uint64{1, 2}, 0},
		{"level 0: above other keys",
			map[int][]*manifest.FileMeta{0: {expiring(1, "a", "c", 500), expiring(2, "d", "e", 5)}}, []uint64{2}, 0},
		{"level 0 out of order: only if all that overlap have expired before",
			map[int][]*manifest.FileMeta{0: {doubtful, expiring(2, "a", "c", 500), expiring(4, "x", "y", 5)}}, []uint64{4}, 0},
		{"not next to a neighbor that may have older versions of the last key",
			map[int][]*manifest.FileMeta{6: {expiring(1, "a", "c", 5), neighbor(2, "c", "f")}}, nil, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			picked := newPicker(t, c.levels).Next(o)
			if c.want == nil {
				require.False(t, picked != nil && picked.Drop)
				return
			}
			require.NotNil(t, picked)
			require.True(t, picked.Drop)
			require.False(t, picked.TrivialMove())
			require.Equal(t, c.want, numsOf(picked.AllInputs()))
			require.Equal(t, c.level, picked.OutputLevel)
		})
	}
}

// neighbor begins with an older version of the key that ends the table before it.
func neighbor(num uint64, smallest, largest string) *manifest.FileMeta {
	f := expiring(num, smallest, largest, 500)
	f.Smallest = base.AppendInternalKey(nil, []byte(smallest), 0, base.KindSet)
	return f
}
