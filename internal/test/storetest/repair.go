package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// MustRepair repairs the database in "db".
func MustRepair(t testing.TB, fsys vfs.FS) *db.RepairReport {
	t.Helper()
	rep, err := db.RepairWithReport("db", Options(fsys))
	require.NoError(t, err)
	require.NotRegexp(t, `(key|value)[0-9]`, rep.String(), "a report must not hold keys or values")
	return rep
}

// Repaired repairs the directory and checks what must hold after every repair. It returns the
// contents of the repaired database, the report, and the files.
func Repaired(t testing.TB, d fixture.Dir) (fixture.Contents, *db.RepairReport, fixture.Dir) {
	t.Helper()
	mem := d.FS(t)
	rep := MustRepair(t, mem)
	after := fixture.ReadDir(t, mem, "db")
	RequireNothingDeleted(t, d, rep, after)
	c := ContentsOf(t, mem)

	again := MustRepair(t, mem)
	require.True(t, again.Healthy, "a second repair must find nothing:\n%s", again)
	after.RequireSame(t, fixture.ReadDir(t, mem, "db"))

	writer := MustOpen(t, Options(mem))
	require.NoError(t, writer.Put([]byte("key"), []byte("written after"), nil))
	RequireValue(t, writer, []byte("key"), []byte("written after"))
	require.NoError(t, writer.Close())
	return c, rep, after
}

// RequireNothingDeleted requires that the bytes of every file of before are in their place or in lost/, as
// the report says.
func RequireNothingDeleted(t testing.TB, before fixture.Dir, rep *db.RepairReport, after fixture.Dir) {
	t.Helper()
	if rep.Healthy {
		before.RequireSame(t, after)
		return
	}
	for name, b := range before {
		if name == base.LockName || name == base.CurrentName && strings.HasPrefix(string(b), rep.Manifest+"\n") {
			continue
		}
		if name == base.CurrentName {
			require.Equal(t, b, after["lost/"+FateOf(t, rep, name).LostName])
			continue
		}
		kind, _, ok := base.ParseFileName(name)
		if !ok || kind == base.FileInfoLog {
			require.Equal(t, b, after[name], name)
			continue
		}
		i := slices.IndexFunc(rep.Files, func(f report.RepairedFile) bool { return f.Name == name })
		require.GreaterOrEqual(t, i, 0, "%s is not in the report", name)
		if lost := rep.Files[i].LostName; lost != "" {
			require.Equal(t, b, after["lost/"+lost], name)
			require.NotContains(t, after, name)
		} else {
			require.Equal(t, report.FileKept, rep.Files[i].Fate, name)
			require.Equal(t, b, after[name], name)
		}
	}
	require.Empty(t, after.Only(base.FileTemp))
}

// FateOf returns what the report says about a file.
func FateOf(t testing.TB, rep *db.RepairReport, name string) report.RepairedFile {
	t.Helper()
	for _, f := range rep.Files {
		if f.Name == name {
			return f
		}
	}
	require.Fail(t, "not in the report", name)
	return report.RepairedFile{}
}
