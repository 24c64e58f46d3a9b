package replay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/memtable"
)

// strayTable writes a table that the MANIFEST does not name. It has one entry, with sequence number seq.
func (r *database) strayTable(t *testing.T, seq uint64) string {
	t.Helper()
	mem := memtable.New(base.Bytewise, 4096)
	require.True(t, mem.Add(seq, base.KindSet, keyOf(seq), nil))
	files, err := r.writeTable(mem, new(manifest.Edit))
	require.NoError(t, err)
	r.entries = nil
	return base.FileName(base.FileTable, files[0].Num)
}

func TestStrayTables(t *testing.T) {
	for name, c := range map[string]struct {
		seq         uint64 // of the table; the log ends with number 2
		withoutALog bool   // this casts doubt on the MANIFEST
		lost        bool
	}{
		"a table without newer entries is garbage":                       {seq: 2},
		"a table with newer entries is kept":                             {seq: 3, lost: true},
		"a table is kept if the MANIFEST is in doubt and Salvage is set": {seq: 2, withoutALog: true, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			if !c.withoutALog {
				d.log(t, 10, puts(1, 2))
			}
			stray := d.strayTable(t, c.seq)
			before := d.names(t)
			r := d.open(t)
			if c.withoutALog {
				require.ErrorContains(t, r.Run(), stray)
				r = d.open(t)
				r.opts.Salvage = SalvageAll
			}
			require.NoError(t, r.Run())
			_, err := r.Finish()
			require.NoError(t, err)
			if !c.lost {
				require.Empty(t, r.Report().TablesSetAside)
				r.RemoveOld(d.set.NewFileNum(), d.set.ManifestNum())
				require.NotContains(t, d.names(t), stray)
				return
			}
			require.Equal(t, []string{"lost/" + stray}, r.Report().TablesSetAside)
			require.Contains(t, d.names(t), "lost/"+stray)
			require.NotContains(t, d.names(t), stray)
			r.Abandon()
			require.Equal(t, before, d.names(t), "Abandon moves it back")
		})
	}
}
