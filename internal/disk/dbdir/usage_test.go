package dbdir

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// directory has one file of each kind; the sizes are powers of two.
func directory(t *testing.T) *vfs.Mem {
	mem := vfs.NewMem()
	require.NoError(t, vfs.MkdirAllSynced(mem, filepath.Join("db", base.LostDir, "deep")))
	require.NoError(t, vfs.MkdirAllSynced(mem, filepath.Join("db", base.ChangesDir)))
	for i, name := range []string{
		"000001.ldb", "000002.ldb", "000003.sst", "000004.log", "MANIFEST-000005", "CURRENT", "LOCK", "CLOSED", "LOG",
		"000006.dbtmp", "unknown", filepath.Join(base.LostDir, "000007.ldb"), filepath.Join(base.LostDir, "000008.log"),
		filepath.Join(base.ChangesDir, "1-2.log"),
	} {
		fixture.WriteFile(t, mem, filepath.Join("db", name), make([]byte, 1<<i))
	}
	return mem
}

func listed(num uint64) bool { return num != 2 }

func TestMeasureSortsFilesByWhatTheyAreFor(t *testing.T) {
	u, err := Measure(directory(t), "db", listed)
	require.NoError(t, err)
	require.Equal(t, report.DiskUsage{
		Tables: 1<<0 + 1<<2, UnlistedTables: 1<<1 + 1<<9, Logs: 1 << 3, Manifest: 1 << 4, Lost: 1<<11 + 1<<12, Changes: 1 << 13,
		Other: 1<<5 + 1<<6 + 1<<7 + 1<<8 + 1<<10, Total: 1<<14 - 1,
	}, u)
}

// An open database reserves space behind the records of its log. A few zeros are the end of a record.
func TestMeasureTellsReservedSpaceFromRecords(t *testing.T) {
	mem := directory(t)
	for zeros, reserved := range map[int]uint64{10: 0, 64 << 10: 64 << 10} {
		fixture.WriteFile(t, mem, filepath.Join("db", "000004.log"), append([]byte("records"), make([]byte, zeros)...))
		u, err := Measure(mem, "db", listed)
		require.NoError(t, err)
		require.EqualValues(t, 7+zeros, u.Logs)
		require.Equal(t, reserved, u.LogsReserved)
		require.EqualValues(t, 1<<14-1-8+7+zeros, u.Total)
	}
}

// A file that goes between the listing and the question for its size does not count; any other error is
// returned with the path.
func TestAnErrorAtEveryOperationOfMeasure(t *testing.T) {
	mem := directory(t)
	counted := wrap.NewFaulty(mem, nil)
	_, err := Measure(counted, "db", listed)
	require.NoError(t, err)
	require.Greater(t, counted.Ops(), uint64(13))
	for n := range counted.Ops() {
		_, err := Measure(wrap.NewFaulty(mem, wrap.FailNth(n, nil)), "db", listed)
		require.ErrorIs(t, err, wrap.ErrInjected)
		require.ErrorContains(t, err, "db")
	}
	removed := 0
	racing := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpStat && filepath.Base(op.Name) == "000004.log" {
			removed++
			require.NoError(t, mem.Remove(filepath.Join("db", "000004.log")))
		}
		return nil
	})
	u, err := Measure(racing, "db", listed)
	require.NoError(t, err)
	require.Equal(t, 1, removed)
	require.Zero(t, u.Logs)
	_, err = Measure(mem, "nowhere", listed)
	require.ErrorContains(t, err, "listing nowhere")
}
