package interop

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The whole-table filter is not for SieveDB alone: it lies in LevelDB's filter block, so LevelDB and goleveldb ask it
// too. These tests count what that saves them: reads of table files for keys that are absent, with every table open and
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

// filterSession is a database of random keys, compacted, so that each absent key falls into the range of one table.
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

// The others use SieveDB's filters under LevelDB's name and ignore those under its own, but find all keys (absentReads
// checks them).
func TestOurFiltersSpareTheOthersReadsOfAbsentKeys(t *testing.T) {
	const few, many = "one in fifty lookups reads a block, or fewer", "nearly every lookup reads a block"
	type answers struct{ leveldb, goleveldb, standardName, sievedb string } // "": not looked at
	only := func(kind FilterKind) Options { return Options{BloomBits: 10, FilterKind: kind} }
	for _, c := range []struct {
		name string
		opts Options
		want answers
	}{
		{"no filter", Options{}, answers{leveldb: many, standardName: many}},
		{"cache lines alone", only(CacheLineFilter), answers{leveldb: many, standardName: many, sievedb: few}},
		{"LevelDB's alone", only(LevelDBFilter), answers{leveldb: few, standardName: few, sievedb: few}},
		// goleveldb looks for leveldb.BuiltinBloomFilter, without the 2.
		{"both", only(BothFilters), answers{leveldb: few, goleveldb: many, standardName: few, sievedb: few}},
		{"both under both names", Options{BloomBits: 10, BothFilterNames: true}, answers{leveldb: few, goleveldb: few}},
		{"binary fuse alone", only(FuseFilter), answers{leveldb: many, standardName: many, sievedb: few}},
		{"binary fuse and LevelDB's", only(FuseAndLevelDBFilters), answers{leveldb: few, standardName: few, sievedb: few}},
	} {
		c.opts.TableSize = 256 << 10
		read := func(reader, want string, engine func(testing.TB) Engine, o Options) {
			if want == "" {
				return
			}
			t.Run(c.name+", read by "+reader, func(t *testing.T) {
				o.BloomBits, o.Paranoid = 10, true
				reads := absentReads(t, filterSession(t, SieveDB{}, c.opts), engine(t), o)
				t.Logf("%.2f reads for 100 lookups of absent keys", reads)
				if want == many {
					require.Greater(t, reads, 95.0, want)
				} else {
					require.Less(t, reads, 2.0, want)
				}
			})
		}
		goleveldb := func(testing.TB) Engine { return GoLevelDB{} }
		read("leveldb", c.want.leveldb, func(t testing.TB) Engine { return levelDB(t) }, Options{})
		read("goleveldb", c.want.goleveldb, goleveldb, Options{})
		read("goleveldb with LevelDB's name", c.want.standardName, goleveldb, Options{StandardFilterName: true})
		read("sievedb", c.want.sievedb, func(testing.TB) Engine { return SieveDB{} }, Options{})
	}
}
