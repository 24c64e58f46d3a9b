package repair_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// expiring are options of a database in which values under prefixes expire, at a time that stands still.
func expiring(fsys vfs.FS, prefixes ...string) *db.Options {
	o := smallOptions(fsys)
	o.Expiry.Clock = func() time.Time { return time.Unix(1e9, 0) }
	for _, p := range prefixes {
		o.Expiry.Prefixes = append(o.Expiry.Prefixes, []byte(p))
	}
	return o
}

// session opens a database, uses it, closes it and returns its files.
func session(t *testing.T, o *db.Options, use func(d *db.DB)) fixture.Dir {
	t.Helper()
	d := storetest.MustOpen(t, o)
	use(d)
	require.NoError(t, d.Close())
	return fixture.ReadDir(t, o.FS, "db")
}

func putAll(t *testing.T, d *db.DB, ttl time.Duration, keys ...string) {
	t.Helper()
	for _, k := range keys {
		if ttl > 0 {
			require.NoError(t, d.PutTTL([]byte(k), []byte(k), ttl, nil))
		} else {
			require.NoError(t, d.Put([]byte(k), []byte(k), nil))
		}
	}
}

// requireKeys opens the database without naming prefixes and compares its keys, which are their own values.
func requireKeys(t *testing.T, fsys vfs.FS, want ...string) {
	t.Helper()
	all := map[string]string{}
	for _, k := range want {
		all[k] = k
	}
	require.Equal(t, all, storetest.ContentsOf(t, fsys))
}

func TestRepairUsesThePrefixesOfTheNewerMANIFEST(t *testing.T) {
	mem := vfs.NewMem()
	old := session(t, expiring(mem, "s/"), func(d *db.DB) { putAll(t, d, 0, "a", "s/a") })
	later := session(t, expiring(mem, "t/"), func(d *db.DB) {
		putAll(t, d, time.Hour, "t/a", "s/b")
		require.NoError(t, d.Flush())
		putAll(t, d, 0, "t/b", "b")
	})
	mem = later.With(old).FS(t)
	report := repaired(t, mem)
	require.NotContains(t, old, report.Manifest)
	o := expiring(mem)
	session(t, o, func(d *db.DB) {
		value, ttl, err := d.GetTTL([]byte("t/a"))
		require.NoError(t, err)
		require.Equal(t, "t/a", string(value))
		require.Equal(t, time.Hour, ttl)
	})
	o.ReadOnly = true
	d := storetest.Open(t, o)
	for _, k := range []string{"a", "b", "s/a", "s/b", "t/a", "t/b"} {
		value, err := d.Get([]byte(k))
		require.NoError(t, err, k)
		require.Equal(t, k, string(value))
	}
}

// A MANIFEST that another program began may record nothing. The values have their envelopes all the same.
func TestRepairUsesThePrefixesOfAnOlderMANIFESTIfTheNewerRecordsNone(t *testing.T) {
	mem := vfs.NewMem()
	files := session(t, expiring(mem, "t/"), func(d *db.DB) {
		putAll(t, d, 0, "a", "t/a")
		require.NoError(t, d.Flush())
	})
	mem = files.FS(t)
	set, state, err := manifest.Load(manifest.SetOptions{FS: mem, Dir: "db", Cmp: base.Bytewise})
	require.NoError(t, err)
	e := &manifest.Edit{Comparer: base.Bytewise.Name, LogNum: manifest.Num(state.LogNum), NextFileNum: manifest.Num(902),
		LastSeq: manifest.Num(state.LastSeq)}
	set.Current().Files(func(level int, f *manifest.FileMeta) {
		e.Added = append(e.Added, manifest.LevelFile{Level: level, File: f})
	})
	require.NoError(t, manifest.WriteFile(mem, "db", 900, e))
	require.NoError(t, mem.Remove("db/CURRENT"))
	report := repaired(t, mem)
	require.Equal(t, "MANIFEST-000900", report.Manifest)
	requireKeys(t, mem, "a", "t/a")
}

// The bug: with the MANIFEST gone that recorded the prefixes, its tables were used with an older one, and their values
// shown with their envelopes.
func TestRepairSaysThatPrefixesAreUnknownIfOnlyUnnamedTablesShowThem(t *testing.T) {
	for _, first := range [][]string{nil, {"s/"}} {
		mem := vfs.NewMem()
		old := session(t, expiring(mem, first...), func(d *db.DB) { putAll(t, d, 0, "a") })
		later := session(t, expiring(mem, "t/"), func(d *db.DB) {
			putAll(t, d, time.Hour, "t/a")
			require.NoError(t, d.Flush())
			putAll(t, d, 0, "b")
		})
		mem = later.Without(base.FileManifest).With(old).FS(t)
		repaired(t, mem)
		_, err := db.Open("db", expiring(mem))
		require.ErrorContains(t, err, "does not say under which prefixes")
		session(t, expiring(mem, append(first, "t/")...), func(d *db.DB) {
			value, err := d.Get([]byte("t/a"))
			require.NoError(t, err)
			require.Equal(t, "t/a", string(value))
		})
	}
}

// Values that were deleted before their prefix was added have no envelope. If replaced tables or logs give them back, a
// scan must not end with an error.
func TestRepairGivesValuesThatReturnAnEnvelope(t *testing.T) {
	mem := vfs.NewMem()
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprintf("t/%02d", i))
	}
	first := session(t, smallOptions(mem), func(d *db.DB) {
		putAll(t, d, 0, keys...)
		require.NoError(t, d.Flush())
	})
	session(t, smallOptions(mem), func(d *db.DB) {
		require.NoError(t, d.DeleteRange(t.Context(), []byte("t/"), []byte("t0"), nil))
		require.NoError(t, d.Compact(t.Context(), nil, nil))
	})
	last := session(t, expiring(mem, "t/"), func(d *db.DB) {
		putAll(t, d, 0, "t/", "t/99")
		require.NoError(t, d.Flush())
	})
	delete(last, last.Tables()[0])
	for _, name := range first.Tables() { // a copy that has them, because they were copied first
		last[name] = first[name]
	}
	mem = last.FS(t)
	report := repaired(t, mem)
	require.EqualValues(t, len(keys), report.EntriesFilled, "%s", report)
	requireKeys(t, mem, keys...)
}
