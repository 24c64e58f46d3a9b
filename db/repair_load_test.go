package db

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// crashesInACommit returns the directory as a crash would leave it before and after the renames
// that give a load's tables their names, one by one, and the acknowledged contents. Every entry of
// the load would hide or add one.
func crashesInACommit(t *testing.T, valueSize int) (states []repairDir, model contents) {
	t.Helper()
	mem := vfs.NewMem()
	o := testOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		switch op.Kind {
		case wrap.OpRename: // only the goroutine of the test renames tables
			if kind, _, _ := base.ParseFileName(filepath.Base(op.NewName)); kind == base.FileTable {
				states = append(states, readDir(t, mem, "db"))
			}
		case wrap.OpSyncDir: // after the last rename
			if n := len(states); n > 0 && len(states[n-1].only(base.FileTemp)) == 1 {
				states = append(states, readDir(t, mem, "db"))
			}
		}
		return nil
	}))
	o.Tables.Compression, o.Compaction.L0Trigger = NoCompression, 100
	d := openTest(t, o)
	model = contents{}
	write := func(i int, value string) {
		require.NoError(t, d.Put(testKey(i), []byte(value), NoSync))
		model[string(testKey(i))] = value
	}
	for i := range 100 {
		write(2*i, "flushed")
	}
	require.NoError(t, d.Flush())
	l := newLoader(t, d)
	for i := range 60_000 / valueSize {
		require.NoError(t, l.Put(testKey(i), fmt.Appendf(nil, "loaded %0*d", valueSize, i)))
	}
	for i := range 10 {
		write(3*i, "written during the load")
	}
	require.NoError(t, l.Commit())
	require.Greater(t, len(states), 3)
	require.Empty(t, states[len(states)-1].only(base.FileTemp))
	return states, model
}

// The bug: if a Commit was interrupted, a repair used the tables of the load that already had their
// names, because they have the latest entries of all. But a load must be there as a whole or not at
// all.
func TestRepairRestoresNoPartOfAnUncommittedLoad(t *testing.T) {
	damages := map[string]func(t *testing.T, d repairDir){
		"a crash alone":  func(*testing.T, repairDir) {},
		"CURRENT lost":   func(_ *testing.T, d repairDir) { delete(d, base.CurrentName) },
		"a table broken": func(t *testing.T, d repairDir) { breakIndex(t, d) },
	}
	for _, valueSize := range []int{100, 10 << 10} { // many entries per table, and one
		states, model := crashesInACommit(t, valueSize)
		for name, damage := range damages {
			t.Run(fmt.Sprintf("%s, values of %d bytes", name, valueSize), func(t *testing.T) {
				for named, state := range states {
					d := state.clone()
					damage(t, d)
					c, rep, _ := d.repaired(t)
					require.Equal(t, model, c, "%d tables have their names:\n%s", named, rep)
					require.False(t, rep.MayResurrect, "%s", rep)
				}
			})
		}
	}
}

// breakIndex damages the index of each live table. The data blocks can still be read.
func breakIndex(t *testing.T, d repairDir) {
	t.Helper()
	for name := range d.live(t) {
		d[name][len(d[name])-60] ^= 1
	}
}

// If the MANIFEST has lost its end, a lost edit may have committed a load.
func TestRepairRestoresALoadThatALostEditMayHaveCommitted(t *testing.T) {
	table := craftTable(t, put("a", 1<<32, "loaded"), put("b", 1<<32, "loaded"))
	for name, damage := range map[string]func(d repairDir){
		"the last edit cut off": func(d repairDir) { d["MANIFEST-000002"] = append(d["MANIFEST-000002"], 1, 2, 3) },
		"the log missing":       func(d repairDir) { delete(d, "000006.log") },
		"the MANIFEST missing":  func(d repairDir) { delete(d, "MANIFEST-000002") },
	} {
		t.Run(name, func(t *testing.T) {
			d := repairDir{"000005.ldb": craftTable(t, put("a", 3, "old")), "000008.ldb": table}
			d.addManifest(t, 2, d.edit(t, 6, 3, map[uint64]int{5: 2}))
			damage(d)
			got, rep, _ := d.repaired(t)
			require.Equal(t, contents{"a": "loaded", "b": "loaded"}, got, "%s", rep)
		})
	}
}
