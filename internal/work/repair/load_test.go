package repair_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// crashesInACommit returns the directory as a crash would leave it before and after the renames that give a load's
// tables their names, one by one, and the acknowledged contents. Every entry of the load would hide or add one.
func crashesInACommit(t *testing.T, valueSize int) (states []fixture.Dir, model fixture.Contents) {
	t.Helper()
	mem := vfs.NewMem()
	o := storetest.Options(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		switch op.Kind {
		case wrap.OpRename: // only the goroutine of the test renames tables
			if kind, _, _ := base.ParseFileName(filepath.Base(op.NewName)); kind == base.FileTable {
				states = append(states, fixture.ReadDir(t, mem, "db"))
			}
		case wrap.OpSyncDir: // after the last rename
			if n := len(states); n > 0 && len(states[n-1].Only(base.FileTemp)) == 1 {
				states = append(states, fixture.ReadDir(t, mem, "db"))
			}
		}
		return nil
	}))
	o.Tables.Compression, o.Compaction.L0Trigger = db.NoCompression, 100
	d := storetest.Open(t, o)
	model = fixture.Contents{}
	write := func(i int, value string) {
		require.NoError(t, d.Put(fixture.Key(i), []byte(value), db.NoSync))
		model[string(fixture.Key(i))] = value
	}
	for i := range 100 {
		write(2*i, "flushed")
	}
	require.NoError(t, d.Flush())
	l := storetest.NewLoader(t, d)
	for i := range 60_000 / valueSize {
		require.NoError(t, l.Put(fixture.Key(i), fmt.Appendf(nil, "loaded %0*d", valueSize, i)))
	}
	for i := range 10 {
		write(3*i, "written during the load")
	}
	require.NoError(t, l.Commit())
	require.Greater(t, len(states), 3)
	require.Empty(t, states[len(states)-1].Only(base.FileTemp))
	return states, model
}

// The bug: if a Commit was interrupted, a repair used the tables of the load that already had their names, because they
// have the latest entries of all. But a load must be there as a whole or not at all.
func TestRepairRestoresNoPartOfAnUncommittedLoad(t *testing.T) {
	damages := map[string]func(t *testing.T, d fixture.Dir){
		"a crash alone":  func(*testing.T, fixture.Dir) {},
		"CURRENT lost":   func(_ *testing.T, d fixture.Dir) { delete(d, base.CurrentName) },
		"a table broken": func(t *testing.T, d fixture.Dir) { breakIndex(t, d) },
	}
	for _, valueSize := range []int{100, 10 << 10} { // many entries per table, and one
		states, model := crashesInACommit(t, valueSize)
		for name, damage := range damages {
			t.Run(fmt.Sprintf("%s, values of %d bytes", name, valueSize), func(t *testing.T) {
				for named, state := range states {
					d := state.Clone()
					damage(t, d)
					c, rep, _ := storetest.Repaired(t, d)
					require.Equal(t, model, c, "%d tables have their names:\n%s", named, rep)
					require.False(t, rep.MayResurrect, "%s", rep)
				}
			})
		}
	}
}

// breakIndex damages the index of each live table. The data blocks can still be read.
func breakIndex(t *testing.T, d fixture.Dir) {
	t.Helper()
	for name := range d.Live(t) {
		d[name][len(d[name])-60] ^= 1
	}
}

// If the MANIFEST has lost its end, a lost edit may have committed a load.
func TestRepairRestoresALoadThatALostEditMayHaveCommitted(t *testing.T) {
	table := fixture.Table(t, fixture.Put("a", 1<<32, "loaded"), fixture.Put("b", 1<<32, "loaded"))
	for name, damage := range map[string]func(d fixture.Dir){
		"the last edit cut off": func(d fixture.Dir) { d["MANIFEST-000002"] = append(d["MANIFEST-000002"], 1, 2, 3) },
		"the log missing":       func(d fixture.Dir) { delete(d, "000006.log") },
		"the MANIFEST missing":  func(d fixture.Dir) { delete(d, "MANIFEST-000002") },
	} {
		t.Run(name, func(t *testing.T) {
			d := fixture.Dir{"000005.ldb": fixture.Table(t, fixture.Put("a", 3, "old")), "000008.ldb": table}
			d.AddManifest(t, 2, d.Edit(t, 6, 3, map[uint64]int{5: 2}))
			damage(d)
			got, rep, _ := storetest.Repaired(t, d)
			require.Equal(t, fixture.Contents{"a": "loaded", "b": "loaded"}, got, "%s", rep)
		})
	}
}
