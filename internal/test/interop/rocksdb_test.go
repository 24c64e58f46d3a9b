package interop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dumpTables returns the entries of every table of dir, through sst_dump, which wants tables to be called .sst. The
// database must be closed: a compaction in the background would take tables away as they are read.
func dumpTables(t *testing.T, r *RocksDB, dir string) ([]Entry, error) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	require.NoError(t, err)
	var all []Entry
	for _, table := range tables {
		data, err := os.ReadFile(table)
		require.NoError(t, err)
		renamed := filepath.Join(t.TempDir(), "table.sst")
		require.NoError(t, os.WriteFile(renamed, data, 0o600))
		entries, err := r.DumpTable(renamed)
		if err == nil {
			err = r.VerifyTable(renamed)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return all, nil
}

func TestRocksDBsToolsReadOurDatabases(t *testing.T) {
	r := rocksDB(t)
	for _, shape := range []struct {
		name string
		opts Options
	}{
		{"with filters", small},
		{"without filters", with(small, func(o *Options) { o.BloomBits = 0 })},
		{"uncompressed", with(small, func(o *Options) { o.Compression = None })},
		{"with filters of ranges", with(small, func(o *Options) { o.RangeFilters = true })},
		{"with both filter names", with(small, func(o *Options) { o.BothFilterNames = true })},
	} {
		t.Run(shape.name, func(t *testing.T) {
			s := newSession(t, SieveDB{}, shape.opts)
			fillLevels(s)
			s.compact()
			s.close()
			tables, err := dumpTables(t, r, s.dir)
			require.NoError(t, err)
			require.NoError(t, s.model.compare(tables), "sst_dump")
			s.openExisting(SieveDB{})
			s.change() // stays in the log
			s.close()
			entries, err := r.Scan(copyOf(t, s.dir))
			require.NoError(t, err)
			require.NoError(t, s.model.compare(entries), "ldb")
		})
	}
}

// ldb refuses LevelDB's own directories in the same state: RocksDB orders level
// 0 by sequence numbers that its MANIFEST carries and LevelDB's does not.
func TestRocksDBsToolsRefuseTwoTablesInLevel0(t *testing.T) {
	r := rocksDB(t)
	for _, e := range []Engine{levelDB(t), SieveDB{}} {
		t.Run(e.Name(), func(t *testing.T) {
			s := newSession(t, e, Options{BloomBits: 10})
			// LevelDB moves the first ones to levels below; four tables of ours in level 0 would be compacted.
			for s.tables()[0] < 2 {
				s.put("a", "1")
				s.put("z", "2")
				s.flush()
			}
			s.close()
			_, err := r.Scan(copyOf(t, s.dir))
			require.ErrorContains(t, err, "L0 file")

			s.openExisting(SieveDB{})
			s.compact()
			s.close()
			entries, err := r.Scan(copyOf(t, s.dir))
			require.NoError(t, err)
			require.NoError(t, s.model.compare(entries))
		})
	}
}

// goleveldb compresses the metaindex whether that makes it smaller or not, and
// RocksDB takes compressed bytes for the block.
func TestRocksDBsToolsCannotReadGoLevelDBsMetaindexUntilWeHaveRewrittenIt(t *testing.T) {
	r := rocksDB(t)
	s := newSession(t, GoLevelDB{}, with(small, func(o *Options) { o.WriteBufferSize = 1 << 20 }))
	fillLevels(s)
	s.flush()
	s.close()
	_, err := dumpTables(t, r, s.dir)
	require.Error(t, err)

	s.openExisting(SieveDB{})
	s.change()
	s.compact()
	s.close()
	tables, err := dumpTables(t, r, s.dir)
	require.NoError(t, err)
	require.NoError(t, s.model.compare(tables))
}
