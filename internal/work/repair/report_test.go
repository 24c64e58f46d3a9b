package repair_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// flushedStore returns the files of a closed database with 2000 keys in a table.
func flushedStore(t *testing.T, o *db.Options) fixture.Dir {
	t.Helper()
	mem := vfs.NewMem()
	o.FS = mem
	d, err := db.Open("db", o)
	require.NoError(t, err)
	for i := range 2000 {
		require.NoError(t, d.Put(fmt.Appendf(nil, "k%d", i), make([]byte, 50), db.NoSync))
	}
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
	return fixture.ReadDir(t, mem, "db")
}

func TestRepairReportSaysWhatIsLost(t *testing.T) {
	files := flushedStore(t, &db.Options{})
	t.Run("nothing", func(t *testing.T) {
		mem := files.Without(base.FileCurrent).FS(t)
		report := repaired(t, mem)
		require.False(t, report.Incomplete, "%s", report)
		require.Contains(t, report.String(), "\nnothing was lost\n")
	})
	t.Run("a block", func(t *testing.T) {
		damaged := files.Clone()
		table := damaged[damaged.Tables()[0]]
		table[len(table)/2] ^= 1
		mem := damaged.FS(t)
		report := repaired(t, mem)
		require.True(t, report.Incomplete)
		require.EqualValues(t, 2000-len(storetest.ContentsOf(t, mem)), report.EntriesLost)
		require.Len(t, report.Ranges, 1)
		require.Negative(t, bytes.Compare(report.Ranges[0].First, report.Ranges[0].Last))
		require.Contains(t, report.String(), fmt.Sprintf("\n%d entries are lost; keys in 1 range may be missing or old\n", report.EntriesLost))
	})
	t.Run("a table", func(t *testing.T) {
		report := repaired(t, files.Without(base.FileTable).FS(t))
		require.True(t, report.Incomplete)
		require.EqualValues(t, len(files[files.Tables()[0]]), report.BytesLost)
		require.Equal(t, []db.RepairedRange{{First: []byte("k0"), Last: []byte("k999")}}, report.Ranges)
	})
}

func TestPlanRepairWritesNothing(t *testing.T) {
	files := flushedStore(t, &db.Options{})
	name := files.Tables()[0]
	files[name][len(files[name])/2] ^= 1
	mem := files.FS(t)
	plan, err := db.PlanRepair("db", smallOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		require.False(t, mutates(op.Kind) && op.Kind != wrap.OpLock, "%v of %s", op.Kind, op.Name)
		return nil
	})))
	require.NoError(t, err)
	require.True(t, plan.DryRun)
	files.RequireSame(t, fixture.ReadDir(t, mem, "db"))
	report := repaired(t, mem)
	require.Equal(t, report.EntriesLost, plan.EntriesLost)
	require.Equal(t, report.Ranges, plan.Ranges)
}

// A plan took the lock of a writer, so a disk that cannot be written had none.
func TestAPlanLocksLikeAReader(t *testing.T) {
	mem := flushedStore(t, &db.Options{}).FS(t)
	o := smallOptions(mem)
	o.ReadOnly = true
	reader, err := db.Open("db", o)
	require.NoError(t, err)
	plan, err := db.PlanRepair("db", o)
	require.NoError(t, err)
	require.True(t, plan.Healthy)
	require.ErrorIs(t, db.Repair("db", smallOptions(mem)), db.ErrLocked)
	require.NoError(t, reader.Close())
	require.ErrorIs(t, db.Repair("db", o), db.ErrReadOnly)
	writer, err := db.Open("db", smallOptions(mem))
	require.NoError(t, err)
	_, err = db.PlanRepair("db", o)
	require.ErrorIs(t, err, db.ErrLocked)
	require.NoError(t, writer.Close())
}

// The bug: without its MANIFEST, a database with another order was rewritten in the order of bytes, and lost a third
// of its keys.
func TestRepairStopsAtTablesInAnotherOrder(t *testing.T) {
	reverse := &db.Comparer{Name: "test.reverse", Compare: func(a, b []byte) int { return bytes.Compare(b, a) }}
	files := flushedStore(t, &db.Options{Comparer: reverse}).Without(base.FileManifest, base.FileCurrent)
	mem := files.FS(t)
	err := db.Repair("db", &db.Options{FS: mem})
	require.ErrorContains(t, err, "Options.Comparer")
	files.RequireSame(t, fixture.ReadDir(t, mem, "db"))
	_, err = db.PlanRepair("db", &db.Options{FS: mem})
	require.ErrorContains(t, err, "Options.Comparer")
	require.NoError(t, db.Repair("db", &db.Options{FS: mem, Comparer: reverse}))
	d, err := db.Open("db", &db.Options{FS: mem, Comparer: reverse})
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

// An error of the memory changes a key before a table is written. One block in another order does not show another
// comparer, so the rest is not held back.
func TestRepairGoesOnAfterOneBlockInAnotherOrder(t *testing.T) {
	moved := func(k []byte) []byte {
		if string(k) == "k1500" {
			return []byte("k1501+")
		}
		return k
	}
	other := &db.Comparer{Name: db.BytewiseComparer.Name, Compare: func(a, b []byte) int { return bytes.Compare(moved(a), moved(b)) }}
	mem := flushedStore(t, &db.Options{Comparer: other}).Without(base.FileManifest, base.FileCurrent).FS(t)
	report := repaired(t, mem)
	require.True(t, report.Incomplete)
	require.Greater(t, len(storetest.ContentsOf(t, mem)), 1800)
}
