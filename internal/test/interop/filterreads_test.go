package interop

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The whole-table filter is not for SieveDB alone: it lies in LevelDB's filter
// block, so LevelDB and goleveldb ask it too. These tests count what that saves
// them: reads of table files for keys that are absent, with every table open and
// no block cache, so that a lookup which no filter stops reads one block.

const (
	filteredKeys  = 20_000
	absentLookups = 5_000
)

// absentReads lets e read the database of a writer and returns the reads of its
// tables for each hundred lookups of absent keys.
func absentReads(t *testing.T, s *session, e Engine, o Options) float64 {
	t.Helper()
	o.MustExist, o.NoBlockCache = true, true
	d, err := e.Open(s.dir, o)
	require.NoError(t, err)
	require.NoError(t, s.model.Check(d), "%s reads; this also opens every table", e.Name())
	absent := make([][]byte, absentLookups)
	for i := range absent {
		absent[i] = s.bytes(16)
	}
	_, err = d.TableReads()
	require.NoError(t, err)
	values, err := d.Get(absent)
	require.NoError(t, err)
	for _, v := range values {
		require.Nil(t, v)
	}
	reads, err := d.TableReads()
	require.NoError(t, err)
	require.NoError(t, d.Close())
	return float64(reads) * 100 / absentLookups
}

// filterSession is a database of random keys, compacted, so that each absent key
// falls into the range of one table.
func filterSession(t *testing.T, writer Engine, o Options) *session {
	s := newSession(t, writer, o)
	for range filteredKeys / 100 {
		ops := make([]Op, 100)
		for i := range ops {
			ops[i] = Put(s.bytes(16), s.bytes(50))
		}
		s.write(ops...)
	}
	s.compact()
	s.close()
	return s
}

func TestOurFiltersSpareTheOthersReadsOfAbsentKeys(t *testing.T) {
	with10Bits := Options{BloomBits: 10, TableSize: 256 << 10}
	without := Options{TableSize: 256 << 10}
	readers := []struct {
		name   string
		engine func(testing.TB) Engine
		opts   Options
	}{
		{"leveldb", func(t testing.TB) Engine { return levelDB(t) }, Options{BloomBits: 10}},
		// goleveldb uses SieveDB's filter only if its policy has LevelDB's name.
		{"goleveldb", func(testing.TB) Engine { return GoLevelDB{} }, Options{BloomBits: 10, StandardFilterName: true}},
	}
	for _, r := range readers {
		t.Run(r.name, func(t *testing.T) {
			e := r.engine(t)
			bare := absentReads(t, filterSession(t, SieveDB{}, without), e, r.opts)
			ours := absentReads(t, filterSession(t, SieveDB{}, with10Bits), e, r.opts)
			theirs := absentReads(t, filterSession(t, e, with(r.opts, func(o *Options) { o.TableSize = with10Bits.TableSize })), e, r.opts)
			t.Logf("%s, reads for 100 lookups of absent keys: %.2f of our tables without a filter, %.2f with our filter, "+
				"%.2f of its own tables with its own", r.name, bare, ours, theirs)
			require.Greater(t, bare, 95.0, "without a filter nearly every lookup reads a block")
			require.Less(t, ours, 2.0, "a 10-bit filter passes about 1 %%")
		})
	}
}

// The others ignore a filter under a name of SieveDB, but find all keys (absentReads checks them).
// If LevelDB's filter exists as well, they use that.
func TestTheOthersPassOverOurFilters(t *testing.T) {
	readers := []struct {
		name   string
		engine func(testing.TB) Engine
		opts   Options
	}{
		{"leveldb", func(t testing.TB) Engine { return levelDB(t) }, Options{BloomBits: 10, Paranoid: true}},
		{"goleveldb", func(testing.TB) Engine { return GoLevelDB{} }, Options{BloomBits: 10, Paranoid: true, StandardFilterName: true}},
		{"sievedb", func(testing.TB) Engine { return SieveDB{} }, Options{BloomBits: 10}},
	}
	kinds := []struct {
		name string
		kind FilterKind
	}{
		{"cache lines alone", CacheLineFilter}, {"LevelDB's alone", LevelDBFilter}, {"both", BothFilters},
		{"binary fuse alone", FuseFilter}, {"binary fuse and LevelDB's", FuseAndLevelDBFilters},
	}
	for _, k := range kinds {
		for _, r := range readers {
			t.Run(k.name+", read by "+r.name, func(t *testing.T) {
				o := Options{BloomBits: 10, TableSize: 256 << 10, FilterKind: k.kind}
				reads := absentReads(t, filterSession(t, SieveDB{}, o), r.engine(t), r.opts)
				t.Logf("%.2f reads for 100 lookups of absent keys", reads)
				if (k.kind == CacheLineFilter || k.kind == FuseFilter) && r.name != "sievedb" {
					require.Greater(t, reads, 95.0, "it is ignored")
				} else {
					require.Less(t, reads, 2.0)
				}
			})
		}
	}
}

func TestGoLevelDBPassesOverOurFilterUnderItsStandardName(t *testing.T) {
	s := filterSession(t, SieveDB{}, Options{BloomBits: 10})
	reads := absentReads(t, s, GoLevelDB{}, Options{BloomBits: 10})
	require.Greater(t, reads, 95.0, "goleveldb looks for leveldb.BuiltinBloomFilter, without the 2")
}

// With Options.Filters.ForGoleveldb the same filter is listed under both names:
// goleveldb uses it without changes, LevelDB still does, and neither loses a key.
func TestAFilterUnderBothNamesServesBoth(t *testing.T) {
	o := Options{BloomBits: 10, BothFilterNames: true}
	readers := map[string]func(testing.TB) Engine{
		"goleveldb": func(testing.TB) Engine { return GoLevelDB{} },
		"leveldb":   func(t testing.TB) Engine { return levelDB(t) },
	}
	for name, engine := range readers {
		t.Run(name, func(t *testing.T) {
			reads := absentReads(t, filterSession(t, SieveDB{}, o), engine(t), Options{BloomBits: 10})
			t.Logf("%.2f reads for 100 lookups of absent keys", reads)
			require.Less(t, reads, 2.0)
		})
	}
}

func TestLevelDBAsksOurFilterBeforeItReads(t *testing.T) {
	s := filterSession(t, SieveDB{}, Options{BloomBits: 10})
	d, err := levelDB(t).OpenDriver(s.dir, Options{BloomBits: 10, MustExist: true, Paranoid: true})
	require.NoError(t, err)
	_, _, err = d.Counters()
	require.NoError(t, err)
	absent := make([][]byte, absentLookups)
	for i := range absent {
		absent[i] = s.bytes(16)
	}
	_, err = d.Get(absent)
	require.NoError(t, err)
	_, probes, err := d.Counters()
	require.NoError(t, err)
	require.GreaterOrEqual(t, probes, uint64(absentLookups*95/100))
	require.NoError(t, d.Close())
}
