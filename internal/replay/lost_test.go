package replay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/memtable"
)

// strayTable writes a table that the MANIFEST does not name, with one entry of that
// sequence number.
func (r *room) strayTable(t *testing.T, seq uint64) string {
	t.Helper()
	mem := memtable.New(base.Bytewise, 4096)
	require.True(t, mem.Add(seq, base.KindSet, keyOf(seq), nil))
	file, err := r.writeTable(mem)
	require.NoError(t, err)
	r.entries = nil
	return base.FileName(base.FileTable, file.Num)
}

func TestStrayTables(t *testing.T) {
	for name, c := range map[string]struct {
		seq         uint64 // of the table; the log ends with number 2
		withoutALog bool   // casts doubt on the MANIFEST
		lost        bool
	}{
		"older than what was recovered is garbage": {seq: 2},
		"newer than what was recovered is kept":    {seq: 3, lost: true},
		"is kept while the MANIFEST is in doubt":   {seq: 2, withoutALog: true, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			room := newRoom(t)
			if !c.withoutALog {
				room.log(t, 10, puts(1, 2))
			}
			stray := room.strayTable(t, c.seq)
			before := room.names(t)
			r := room.open(t)
			require.NoError(t, r.Run())
			_, err := r.Finish()
			require.NoError(t, err)
			if !c.lost {
				require.Empty(t, r.Report().TablesSetAside)
				r.RemoveOld(room.set.NewFileNum(), room.set.ManifestNum())
				require.NotContains(t, room.names(t), stray)
				return
			}
			require.Equal(t, []string{"lost/" + stray}, r.Report().TablesSetAside)
			require.Contains(t, room.names(t), "lost/"+stray)
			require.NotContains(t, room.names(t), stray)
			r.Abandon()
			require.Equal(t, before, room.names(t), "Abandon moves it back")
		})
	}
}
