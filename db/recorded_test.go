package db_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// recordedIn returns the recorded options of a database.
func recordedIn(t *testing.T, fsys vfs.FS, dir string) *db.Recorded {
	t.Helper()
	r, err := db.RecordedOptions(dir, &db.Options{FS: fsys})
	require.NoError(t, err)
	return r
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
	plain := accesses(&db.Options{})
	require.Positive(t, plain[wrap.OpSync])
	require.Equal(t, plain, accesses(&db.Options{
		Filters: db.FilterOptions{Policy: filter.NewBloomPolicy(12), Budget: 1 << 20, RangePolicies: []rangefilter.Policy{prefixOfTen}},
		Tables:  db.TableOptions{Size: 64 << 10, BlockSize: 1 << 10, RestartInterval: 8, Compression: db.ZstdCompression, SeparateValues: 30},
	}))
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

	require.NoError(t, openDir(t, "other", &db.Options{FS: mem, Comparer: fixture.ReversedOrder, Filters: db.FilterOptions{Policy: filter.None}}).Close())
	r = recordedIn(t, mem, "other")
	require.Equal(t, []report.RecordedOption{{Option: "Comparer", Value: fixture.ReversedOrder.Name}}, r.Missing)
	require.Equal(t, filter.None, r.Options.Filters.Policy)
}

// withRecord returns an empty database with this record.
func withRecord(t *testing.T, o *manifest.Options) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	require.NoError(t, mustOpen(t, &db.Options{FS: mem}).Close())
	set, _, err := manifest.Load(manifest.SetOptions{FS: mem, Dir: "db", Cmp: db.BytewiseComparer})
	require.NoError(t, err)
	set.RecordOptions(o)
	require.NoError(t, set.Begin(&manifest.Edit{}, nil))
	require.NoError(t, set.Close())
	return mem
}

// An option whose value a later version wrote is neither dropped nor mistaken for the default.
func TestARecordedValueThatIsUnknownIsReported(t *testing.T) {
	mem := withRecord(t, &manifest.Options{LevelCompression: []manifest.Compression{3}, MaxWastedReads: 7})
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
	mem := withRecord(t, &manifest.Options{TableSize: 1, ChangeBytes: -5, Compression: 3})
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
	require.NoError(t, mustOpen(t, &db.Options{FS: mem, Tables: db.TableOptions{Compression: db.ZstdCompression}}).Close())
	for _, name := range namesOf(t, mem, base.FileManifest) {
		path := filepath.Join("db", name)
		writeFile(t, mem, path, append(readFile(t, mem, path), "damage that no crash leaves"...))
	}
	r, err := db.RecordedOptions("db", &db.Options{FS: mem})
	require.ErrorIs(t, err, db.ErrCorruption)
	require.Equal(t, db.ZstdCompression, r.Options.Tables.Compression, "what was recorded before the damage")
}
