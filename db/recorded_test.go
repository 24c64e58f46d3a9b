package db_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// everyOption returns options with another value than the default for everything that a database records.
func everyOption(fsys vfs.FS) *db.Options {
	o := testOptions(fsys)
	o.FileMode = 0o640
	o.Filters = db.FilterOptions{
		Policy: filter.Several(filter.NewCacheLineBloomPolicy(12), filter.NewBloomPolicy(12)), Budget: 1 << 20, ForGoleveldb: true,
		RangePolicies: []rangefilter.Policy{
			rangefilter.NewPrefix(rangefilter.FixedPrefix(2), 9), rangefilter.NewGrafite(rangefilter.FixedPrefix(2), rangefilter.BigEndian(4), 16),
		},
	}
	o.Tables = db.TableOptions{
		Size: 64 << 10, BlockSize: 1 << 10, RestartInterval: 8, Compression: db.ZstdCompression,
		LevelCompression: []db.Compression{db.NoCompression, db.DefaultCompression, db.SnappyCompression}, SeparateValues: 30,
	}
	o.Changes = db.ChangeRetention{Bytes: 1 << 20, Age: time.Hour}
	o.Limits.DiskReserve = -1
	return o
}

// manifestsOf returns the paths of the MANIFESTs.
func manifestsOf(t *testing.T, fsys vfs.FS) (paths []string) {
	t.Helper()
	names, err := fsys.List("db")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST") {
			paths = append(paths, filepath.Join("db", name))
		}
	}
	require.NotEmpty(t, paths)
	return paths
}

// recordedIn returns the recorded options of a database.
func recordedIn(t *testing.T, fsys vfs.FS, dir string) *db.Recorded {
	t.Helper()
	r, err := db.RecordedOptions(dir, &db.Options{FS: fsys})
	require.NoError(t, err)
	return r
}

func TestADatabaseRecordsTheOptionsOfItsOpening(t *testing.T) {
	mem := vfs.NewMem()
	o := everyOption(mem)
	d := mustOpen(t, o)
	fill(t, d, 0, 500)
	r := recordedIn(t, mem.Crash(), "db")
	require.Equal(t, o.ToRecord(), r.Options.ToRecord())
	require.Empty(t, r.Missing)
	require.Equal(t, db.BytewiseComparer.Name, r.Comparer)
	require.Equal(t, report.RecordedOption{Option: "Changes.Bytes", Value: "1048576"}, r.List[0])
	require.NoError(t, d.Flush())
	checkpointTo(t, d, "copy")
	f := mustFollow(t, &db.Options{FS: mem})
	checkpointTo(t, f, "copy of a follower")
	require.NoError(t, f.Close())
	require.NoError(t, d.Close())

	again, err := db.Open("db", &r.Options)
	require.NoError(t, err)
	require.Empty(t, again.OpenReport().OptionsChanged, "they open the database as it was")
	requireNoFaults(t, again)
	require.NoError(t, again.Close())
	for _, dir := range []string{"db", "copy", "copy of a follower"} {
		require.Equal(t, o.ToRecord(), recordedIn(t, mem, dir).Options.ToRecord(), dir)
	}
}

// The record of a fuse filter has the bits of its slots, and an opening with other bits says so.
func TestTheBitsOfASlotAreRecorded(t *testing.T) {
	for slotBits, value := range map[int]string{7: "sievedb.BinaryFuse8:7", 8: "sievedb.BinaryFuse8", 16: "sievedb.BinaryFuse8:16"} {
		mem := vfs.NewMem()
		o := testOptions(mem)
		o.Filters.Policy = filter.NewFusePolicy(slotBits)
		d := mustOpen(t, o)
		fill(t, d, 0, 500)
		require.NoError(t, d.Close())
		r := recordedIn(t, mem, "db")
		require.Contains(t, r.List, report.RecordedOption{Option: "Filters.Policy", Value: value})
		require.Equal(t, o.Filters.Policy, r.Options.Filters.Policy)

		d = mustOpen(t, &r.Options)
		require.Empty(t, d.OpenReport().OptionsChanged)
		requireNoFaults(t, d)
		require.NoError(t, d.Close())
		o.Filters.Policy = filter.NewFusePolicy(5)
		d = mustOpen(t, o)
		require.Equal(t, []report.OptionChange{{Option: "Filters.Policy", Recorded: value, Opened: "sievedb.BinaryFuse8:5"}}, d.OpenReport().OptionsChanged)
		require.NoError(t, d.Close())
	}
}

// Repair keeps the record as long as a MANIFEST has it, and the record itself is no reason to repair.
func TestARepairKeepsTheRecordedOptions(t *testing.T) {
	mem := vfs.NewMem()
	o := everyOption(mem)
	d := mustOpen(t, o)
	fill(t, d, 0, 500)
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
	require.NoError(t, mem.Remove("db/CURRENT"))
	report, err := db.RepairWithReport("db", &db.Options{FS: mem})
	require.NoError(t, err)
	require.False(t, report.Healthy)
	require.Equal(t, o.ToRecord(), recordedIn(t, mem, "db").Options.ToRecord())
}

func TestDefaultsAreNotRecorded(t *testing.T) {
	mem := vfs.NewMem()
	d := mustOpen(t, &db.Options{FS: mem})
	putAll(t, d, "k", "v")
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
	for _, path := range manifestsOf(t, mem) {
		require.NotContains(t, string(readFile(t, mem, path)), "sievedb.state")
	}
	r := recordedIn(t, mem, "db")
	require.Empty(t, r.List)
	require.Equal(t, db.Options{FS: mem, KeepRecord: true}, r.Options)
}

// The record is in edits that are written anyway.
func TestRecordingOptionsCostsNoFileAccess(t *testing.T) {
	accesses := func(o *db.Options) (counts map[wrap.OpKind]int) {
		fsys := fixture.NewFailing()
		counts = map[wrap.OpKind]int{}
		var mu sync.Mutex
		fsys.On(func(op wrap.Op) *wrap.Fault {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind == wrap.OpSync || op.Kind == wrap.OpSyncDir || op.Kind == wrap.OpCreate || op.Kind == wrap.OpRename {
				counts[op.Kind]++
			}
			return nil
		})
		for range 2 {
			o.FS = fsys
			d := mustOpen(t, o)
			putAll(t, d, "k", "v")
			require.NoError(t, d.Flush())
			require.NoError(t, d.Close())
		}
		return counts
	}
	o := everyOption(nil)
	o.Changes, o.Limits, o.FileMode = db.ChangeRetention{}, db.LimitOptions{}, 0
	plain := accesses(&db.Options{Memtables: o.Memtables})
	require.Positive(t, plain[wrap.OpSync])
	require.Equal(t, plain, accesses(o))
}

func TestAnOpeningSaysWhichOptionsWereOtherwise(t *testing.T) {
	mem := vfs.NewMem()
	o := everyOption(mem)
	d := mustOpen(t, o)
	require.Empty(t, d.OpenReport().OptionsChanged, "a new database")
	require.NoError(t, d.Close())

	d = mustOpen(t, &db.Options{FS: mem, KeepRecord: true, Tables: o.Tables, Filters: o.Filters})
	require.Equal(t, []report.OptionChange{
		{Option: "FileMode", Recorded: "0640", Opened: ""}, {Option: "Limits.DiskReserve", Recorded: "-1", Opened: ""},
	}, d.OpenReport().OptionsChanged)
	require.NoError(t, d.Close())
	require.Equal(t, o.ToRecord(), recordedIn(t, mem, "db").Options.ToRecord(), "KeepRecord")

	readOnly := mustOpen(t, &db.Options{FS: mem, ReadOnly: true, Tables: o.Tables, FileMode: o.FileMode, Limits: o.Limits})
	require.Len(t, readOnly.OpenReport().OptionsChanged, 4, "the filters")
	require.NoError(t, readOnly.Close())

	d = mustOpen(t, &db.Options{FS: mem})
	changed := d.OpenReport().OptionsChanged
	require.Contains(t, changed, report.OptionChange{Option: "Tables.Compression", Recorded: "zstd", Opened: ""})
	require.Len(t, changed, 12, "all but the retention of changes, which holds")
	require.NoError(t, d.Close())
	require.Equal(t, []report.RecordedOption{{Option: "Changes.Bytes", Value: "1048576"}, {Option: "Changes.Age", Value: "1h0m0s"}}, recordedIn(t, mem, "db").List)

	d = mustOpen(t, &db.Options{FS: mem, Tables: db.TableOptions{Compression: db.NoCompression}})
	require.Equal(t, []report.OptionChange{{Option: "Tables.Compression", Recorded: "", Opened: "none"}}, d.OpenReport().OptionsChanged)
	require.NoError(t, d.Close())
}

// The bug: one opening without Options.Changes, as of a tool for one key, ended the history.
func TestAnOpeningWithoutTheOptionKeepsTheHistoryOfChanges(t *testing.T) {
	mem := vfs.NewMem()
	keep := db.ChangeRetention{Bytes: 1 << 20, Age: time.Hour}
	d := mustOpen(t, &db.Options{FS: mem, Changes: keep})
	putAll(t, d, "a", "1", "b", "2")
	require.NoError(t, d.SetCursor("reader", 1))
	require.NoError(t, d.Close())
	for range 2 {
		d = mustOpen(t, &db.Options{FS: mem})
		require.Equal(t, keep, d.Options().Changes)
		o := d.Options()
		require.NoError(t, d.SetOptions(&o), "what Options returned is no change")
		putAll(t, d, "c", "3")
		require.NoError(t, d.Flush())
		require.NoError(t, d.Close())
	}
	require.NoError(t, mustOpen(t, &db.Options{FS: mem, KeepRecord: true}).Close())
	d = mustOpen(t, &db.Options{FS: mem})
	oldest, last, err := d.ChangePositions()
	require.NoError(t, err)
	require.Equal(t, [2]uint64{0, 4}, [2]uint64{oldest, last})
	cursors, err := d.Cursors()
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"reader": 1}, cursors)
	require.NoError(t, d.Close())
	require.Equal(t, keep, recordedIn(t, mem.Crash(), "db").Options.Changes)
}

func TestANegativeRetentionEndsTheHistory(t *testing.T) {
	mem := vfs.NewMem()
	d := mustOpen(t, &db.Options{FS: mem, Changes: db.ChangeRetention{Bytes: 1 << 20}})
	putAll(t, d, "a", "1")
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())

	d = mustOpen(t, &db.Options{FS: mem, KeepRecord: true, Changes: db.ChangeRetention{Bytes: -1}})
	require.ErrorContains(t, second(d.Cursors()), "the database keeps no changes")
	require.NoError(t, d.Close())
	require.EqualValues(t, 1<<20, recordedIn(t, mem, "db").Options.Changes.Bytes, "only this opening keeps none")
	require.NotEmpty(t, second2(mem.List("db/changes")))

	d = mustOpen(t, &db.Options{FS: mem, Changes: db.ChangeRetention{Bytes: -1}})
	require.Equal(t, []report.OptionChange{{Option: "Changes.Bytes", Recorded: "1048576", Opened: ""}}, d.OpenReport().OptionsChanged)
	require.Equal(t, db.ChangeRetention{}, d.Options().Changes)
	require.NoError(t, d.Close())
	require.Empty(t, recordedIn(t, mem, "db").List)
	_, err := mem.Stat("db/changes")
	require.Error(t, err)
	d = mustOpen(t, &db.Options{FS: mem})
	require.ErrorContains(t, second(d.Cursors()), "the database keeps no changes")
	require.NoError(t, d.Close())
}

// second2 returns the first result of a call whose error does not matter.
func second2[T any](v T, _ error) T { return v }

func TestSetOptionsIsRecordedWithTheNextTable(t *testing.T) {
	mem := vfs.NewMem()
	d := mustOpen(t, &db.Options{FS: mem})
	o := d.Options()
	o.Tables.Compression = db.ZstdCompression
	require.NoError(t, d.SetOptions(&o))
	require.Empty(t, recordedIn(t, mem.Crash(), "db").List, "no table has it")
	putAll(t, d, "k", "v")
	require.NoError(t, d.Flush())
	require.Equal(t, []report.RecordedOption{{Option: "Tables.Compression", Value: "zstd"}}, recordedIn(t, mem.Crash(), "db").List)
	require.NoError(t, d.Close())
}

// The bug: an edit without a record left that of an edit before it in the same MANIFEST, so options that were set back
// to the defaults stayed recorded.
func TestOptionsThatAreSetBackToTheDefaultsAreNotRecordedAnyMore(t *testing.T) {
	mem := vfs.NewMem()
	d := mustOpen(t, &db.Options{FS: mem, Tables: db.TableOptions{Compression: db.ZstdCompression}})
	require.Len(t, recordedIn(t, mem.Crash(), "db").List, 1)
	o := d.Options()
	o.Tables.Compression = db.DefaultCompression
	require.NoError(t, d.SetOptions(&o))
	for _, key := range []string{"k", "l"} {
		putAll(t, d, key, "v")
		require.NoError(t, d.Flush())
		require.Empty(t, recordedIn(t, mem.Crash(), "db").List)
	}
	f := mustFollow(t, &db.Options{FS: mem})
	require.Empty(t, f.OpenReport().OptionsChanged)
	require.NoError(t, f.Close())
	requireNoFaults(t, d)
	require.NoError(t, d.Close())

	d = mustOpen(t, &db.Options{FS: mem, KeepRecord: true})
	require.Empty(t, d.OpenReport().OptionsChanged)
	require.NoError(t, d.Close())
	for _, path := range manifestsOf(t, mem) {
		require.NotContains(t, string(readFile(t, mem, path)), "sievedb.state", "a new MANIFEST needs none")
	}
}

// rangePolicyOfTheProgram is one that RecordedOptions cannot make.
type rangePolicyOfTheProgram struct{ rangefilter.Prefix }

func (rangePolicyOfTheProgram) Name() string { return "test.ranges" }

func TestWhatOnlyTheProgramHasIsMissing(t *testing.T) {
	mem := vfs.NewMem()
	own := renamed{BloomPolicy: filter.NewBloomPolicy(10), As: "test.policy"}
	ranges := rangePolicyOfTheProgram{rangefilter.NewPrefix(rangefilter.FixedPrefix(1), 10)}
	filters := db.FilterOptions{Policy: filter.Several(own, filter.FusePolicy{}), RangePolicies: []rangefilter.Policy{ranges}}
	require.NoError(t, mustOpen(t, &db.Options{FS: mem, Filters: filters}).Close())
	r := recordedIn(t, mem, "db")
	require.Equal(t, []report.RecordedOption{{Option: "Filters.Policy", Value: "test.policy"}, {Option: "Filters.RangePolicies", Value: "test.ranges"}}, r.Missing)
	require.Equal(t, filter.Policy(filter.FusePolicy{}), r.Options.Filters.Policy)

	r, err := db.RecordedOptions("db", &db.Options{FS: mem, Filters: filters})
	require.NoError(t, err)
	require.Empty(t, r.Missing)
	require.Equal(t, (&db.Options{Filters: filters}).ToRecord(), r.Options.ToRecord())

	require.NoError(t, openDir(t, "other", &db.Options{FS: mem, Comparer: reversedOrder, Filters: db.FilterOptions{Policy: filter.None}}).Close())
	r = recordedIn(t, mem, "other")
	require.Equal(t, []report.RecordedOption{{Option: "Comparer", Value: reversedOrder.Name}}, r.Missing)
	require.Equal(t, filter.None, r.Options.Filters.Policy)
}

func TestTheRecordSaysWhereTheLogsAre(t *testing.T) {
	mem := vfs.NewMem()
	d := mustOpen(t, &db.Options{FS: mem, LogDir: "logs"})
	want := d.Options().LogDir
	require.NoError(t, d.Close())
	r := recordedIn(t, mem, "db")
	require.Equal(t, want, r.LogDir)
	require.Equal(t, db.BytewiseComparer.Name, r.Comparer)
	require.Empty(t, r.Options.LogDir, "Open finds it")
}

// An option whose value a later version wrote is neither dropped nor mistaken for the default.
func TestARecordedValueThatIsUnknownIsReported(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, mustOpen(t, &db.Options{FS: mem}).Close())
	set, _, err := manifest.Load(manifest.SetOptions{FS: mem, Dir: "db", Cmp: db.BytewiseComparer})
	require.NoError(t, err)
	set.RecordOptions(&manifest.Options{LevelCompression: []manifest.Compression{3}, MaxWastedReads: 7})
	require.NoError(t, set.Begin(&manifest.Edit{}, nil))
	require.NoError(t, set.Close())
	r := recordedIn(t, mem, "db")
	require.Equal(t, []report.RecordedOption{{Option: "Filters.MaxWastedReads", Value: "a value that a later version wrote"}}, r.Missing)
	d := mustOpen(t, &db.Options{FS: mem, ReadOnly: true})
	report, err := d.Check(background)
	require.NoError(t, err)
	require.Len(t, report.Faults, 1)
	require.Contains(t, report.Faults[0], "has recorded Options.Filters.MaxWastedReads in a form that this version does not know")
	require.NoError(t, d.Close())
	d = mustOpen(t, &db.Options{FS: mem})
	requireNoFaults(t, d)
	require.NoError(t, d.Close())
}

// Options that this version does not accept, under a right checksum, do not keep a tool from reading.
func TestRecordedOptionsThatAreOutOfRangeAreMissing(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, mustOpen(t, &db.Options{FS: mem}).Close())
	set, _, err := manifest.Load(manifest.SetOptions{FS: mem, Dir: "db", Cmp: db.BytewiseComparer})
	require.NoError(t, err)
	set.RecordOptions(&manifest.Options{TableSize: 1, ChangeBytes: -5, Compression: 3})
	require.NoError(t, set.Begin(&manifest.Edit{}, nil))
	require.NoError(t, set.Close())
	r := recordedIn(t, mem, "db")
	require.Equal(t, db.Options{FS: mem, KeepRecord: true}, r.Options)
	require.Len(t, r.Missing, 1)
	require.Contains(t, r.Missing[0].Value, "Options.Tables.Size is 1")
	d := mustOpen(t, &db.Options{FS: mem})
	require.Equal(t, db.ChangeRetention{}, d.Options().Changes)
	require.NoError(t, d.Close())
}

func TestRecordedOptionsNeedADatabase(t *testing.T) {
	mem := vfs.NewMem()
	_, err := db.RecordedOptions("db", &db.Options{FS: mem})
	require.ErrorContains(t, err, "there is no database")
	require.NoError(t, mustOpen(t, everyOption(mem)).Close())
	for _, path := range manifestsOf(t, mem) {
		writeFile(t, mem, path, append(readFile(t, mem, path), "damage that no crash leaves"...))
	}
	r, err := db.RecordedOptions("db", &db.Options{FS: mem})
	require.ErrorIs(t, err, db.ErrCorruption)
	require.Equal(t, db.ZstdCompression, r.Options.Tables.Compression, "what was recorded before the damage")
}
