package repair_test

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	reports "github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// flushedStore returns the files of a closed database with 2000 keys in a table.
func flushedStore(t *testing.T, o *db.Options) fixture.Dir {
	t.Helper()
	mem := vfs.NewMem()
	o.FS = mem
	d := storetest.MustOpen(t, o)
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
		require.Equal(t, []reports.RepairedRange{{First: []byte("k0"), Last: []byte("k999")}}, report.Ranges)
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
	reader := storetest.MustOpen(t, o)
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

// The bug: without its MANIFEST, a database with another order was rewritten in the order of bytes. Of 3,000 keys in an
// order that compares lengths first, 1,939 were left.
func TestRepairStopsAtTablesInAnotherOrder(t *testing.T) {
	number := func(k []byte) (int, []byte) {
		head := bytes.TrimRight(k, "0123456789")
		n, _ := strconv.Atoi(string(k[len(head):]))
		return n, head
	}
	for name, c := range map[string]struct {
		compare func(a, b []byte) int
		key     func(i int) string
	}{
		"reverse": {func(a, b []byte) int { return bytes.Compare(b, a) },
			func(i int) string { return fmt.Sprint("k", i) }},
		"length first": {func(a, b []byte) int { return cmp.Or(len(a)-len(b), bytes.Compare(a, b)) },
			func(i int) string { return strconv.Itoa(i) }},
		"groups": {func(a, b []byte) int { return cmp.Or(bytes.Compare(b[:1], a[:1]), bytes.Compare(a, b)) },
			func(i int) string { return fmt.Sprintf("%c%04d", 'a'+i%3, i) }},
		"small groups": {func(a, b []byte) int { return cmp.Or(bytes.Compare(b[:3], a[:3]), bytes.Compare(a, b)) },
			func(i int) string { return fmt.Sprintf("%03d%04d", i%300, i) }},
		"without case": {func(a, b []byte) int {
			return cmp.Or(bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)), bytes.Compare(a, b))
		},
			func(i int) string { return fmt.Sprintf("%c%d", "aBcDeFgH"[i%8], i) }},
		"numbers at the end": {func(a, b []byte) int {
			n, x := number(a)
			m, y := number(b)
			return cmp.Or(bytes.Compare(x, y), cmp.Compare(n, m))
		}, func(i int) string { return fmt.Sprintf("%c%d", 'a'+i%26, i/26) }},
	} {
		t.Run(name, func(t *testing.T) {
			other := &db.Comparer{Name: "test.other", Compare: c.compare}
			mem := vfs.NewMem()
			o := &db.Options{FS: mem, Comparer: other, Tables: db.TableOptions{Size: 32 << 10}}
			d, err := db.Open("db", o)
			require.NoError(t, err)
			for i := range 3000 {
				require.NoError(t, d.Put([]byte(c.key(i)), make([]byte, 20), db.NoSync))
			}
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			require.NoError(t, d.Close())
			plain := fixture.ReadDir(t, mem, "db").Without(base.FileManifest, base.FileCurrent)
			damaged, named := plain.Clone(), plain.Clone()
			for _, name := range plain.Tables() {
				damaged[name][len(plain[name])/3] ^= 1
			}
			named.AddManifest(t, 900, named.Edit(t, 901, 3000, nil)) // by another program's repair
			for _, files := range []fixture.Dir{plain, damaged, named} {
				mem := files.FS(t)
				err = db.Repair("db", &db.Options{FS: mem})
				require.ErrorContains(t, err, "Options.Comparer")
				require.ErrorContains(t, err, "has another comparer")
				files.RequireSame(t, fixture.ReadDir(t, mem, "db"))
				_, err = db.PlanRepair("db", &db.Options{FS: mem})
				require.ErrorContains(t, err, "Options.Comparer")
			}
			mem = plain.FS(t)
			require.NoError(t, db.Repair("db", &db.Options{FS: mem, Comparer: other}))
			d, err = db.Open("db", &db.Options{FS: mem, Comparer: other})
			require.NoError(t, err)
			for i := range 3000 {
				_, err := d.Get([]byte(c.key(i)))
				require.NoError(t, err)
			}
			require.NoError(t, d.Close())
		})
	}
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
