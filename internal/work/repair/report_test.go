package repair_test

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
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
	plan := result.Of(db.PlanRepair("db", o))(t)
	require.True(t, plan.Healthy)
	require.ErrorIs(t, db.Repair("db", smallOptions(mem)), db.ErrLocked)
	require.NoError(t, reader.Close())
	require.ErrorIs(t, db.Repair("db", o), db.ErrReadOnly)
	writer := result.Of(db.Open("db", smallOptions(mem)))(t)
	require.ErrorIs(t, result.Err(db.PlanRepair("db", o)), db.ErrLocked)
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
				require.ErrorContains(t, result.Err(db.PlanRepair("db", &db.Options{FS: mem})), "Options.Comparer")
			}
			mem = plain.FS(t)
			require.NoError(t, db.Repair("db", &db.Options{FS: mem, Comparer: other}))
			d = result.Of(db.Open("db", &db.Options{FS: mem, Comparer: other}))(t)
			for i := range 3000 {
				require.NoError(t, result.Err(d.Get([]byte(c.key(i)))))
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

// The plan said that tables would stay which the repair merges, and did not list CURRENT.
func TestThePlanOfARepairHasTheFatesOfTheRepair(t *testing.T) {
	fates := func(rep *db.RepairReport) map[string]string {
		m := map[string]string{}
		for _, f := range rep.Files {
			f.LostName = ""
			m[f.Name] = f.String()
		}
		return m
	}
	for name, d := range brokenStores(t) {
		t.Run(name, func(t *testing.T) {
			plan := result.Of(db.PlanRepair("db", storetest.Options(d.FS(t))))(t)
			_, rep, _ := storetest.Repaired(t, d)
			require.Equal(t, fates(rep), fates(plan))
			require.Equal(t, rep.Incomplete, plan.Incomplete)
		})
	}
}

// A table whose bounds an edit has in the wrong order hid the other gaps: every table went to lost/.
func TestRepairFillsGapsBesideATableThatBeginsAfterItsEnd(t *testing.T) {
	d, _ := storetest.Sample(t)
	for _, name := range d.Only(base.FileLog) {
		d[name] = []byte{}
	}
	key := func(k string) []byte { return base.AppendInternalKey(nil, []byte(k), 1, base.KindSet) }
	added := func(level int, num uint64, smallest, largest string) version.LevelFile {
		return version.LevelFile{Level: level, File: version.NewFileMeta(num, 10, key(smallest), key(largest))}
	}
	begin, replaced := d.Edit(t, 1000, 1000, nil), &manifest.Edit{}
	for name, level := range d.Live(t) {
		_, num, _ := base.ParseFileName(name)
		begin.Added = append(begin.Added, added(level, num, "a", "z"))
		replaced.Deleted = append(replaced.Deleted, version.DeletedFile{Level: level, Num: num})
	}
	replaced.Added = []version.LevelFile{added(6, 500, "a", "z"), added(5, 501, "zz", "b")}
	for _, name := range d.Only(base.FileManifest) {
		delete(d, name)
	}
	want := d.Versions(t).Newest()
	d.AddManifest(t, 900, begin, replaced)
	got, _, _ := storetest.Repaired(t, d)
	require.NotEmpty(t, want)
	require.Equal(t, want, got)
}

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
	set.Current().Files(func(level int, f *version.FileMeta) {
		e.Added = append(e.Added, version.LevelFile{Level: level, File: f})
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
		require.ErrorContains(t, result.Err(db.Open("db", expiring(mem))), "does not say under which prefixes")
		session(t, expiring(mem, append(first, "t/")...), func(d *db.DB) {
			require.Equal(t, "t/a", string(result.Of(d.Get([]byte("t/a")))(t)))
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
