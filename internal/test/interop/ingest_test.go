package interop

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	pebbletable "github.com/cockroachdb/pebble/v2/sstable"
	pebblefs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// Tables of another engine are ingested, over entries of the store and over each other. The other engine
// then opens the store and continues.
func TestTheOthersReadIngestedTables(t *testing.T) {
	forEachOther(t, func(t *testing.T, other Engine, reuse bool) {
		options := Options{WriteBufferSize: 32 << 10, TableSize: 16 << 10, BloomBits: 10, ReuseLogs: reuse}
		s := newSession(t, SieveDB{}, options)
		for i := range 500 {
			s.put(fmt.Sprintf("key%05d", 3*i), "of the store")
		}
		s.close()

		var paths []string
		var says [][]Op
		for n, from := range []int{1000, 1400, 5000} { // the first two overlap each other and the store
			dir := filepath.Join(t.TempDir(), "from")
			from := s.fillElsewhere(t, other, dir, options, n, from)
			found, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
			require.NoError(t, err)
			require.NotEmpty(t, found)
			paths, says = append(paths, found...), append(says, from)
		}
		d, err := db.Open(s.dir, &db.Options{Tables: db.TableOptions{Size: 16 << 10}})
		require.NoError(t, err)
		info, err := d.Ingest(t.Context(), paths, nil)
		require.NoError(t, err)
		require.Positive(t, info.Linked)
		require.Positive(t, info.Rewritten)
		s.model.Apply(slices.Concat(says...))
		report, err := d.Check(t.Context())
		require.NoError(t, err)
		require.Empty(t, report.Faults)
		require.NoError(t, d.Put([]byte("key01000"), []byte("later"), nil))
		s.model.Apply([]Op{Put([]byte("key01000"), []byte("later"))})
		require.NoError(t, d.Close())

		s.continueWith(other)
		s.put("key05001", "of the other")
		s.delete("key01001")
		s.verify()
		s.compact()
		s.verify()
		s.close()
		s.check(SieveDB{})
	})
}

// The bug: deletions of ranges were ignored, and the comparer that the table records.
func TestPebblesTablesAreIngestedOnlyIfTheyMeanTheSame(t *testing.T) {
	dir := t.TempDir()
	other := *pebble.DefaultComparer
	other.Name = "another"
	write := func(name string, comparer *pebble.Comparer, fill func(w *pebbletable.Writer) error) string {
		path := filepath.Join(dir, name)
		file, err := pebblefs.Default.Create(path, pebblefs.WriteCategoryUnspecified)
		require.NoError(t, err)
		w := pebbletable.NewWriter(objstorageprovider.NewFileWritable(file), pebbletable.WriterOptions{
			TableFormat: pebbletable.TableFormatLevelDB, Comparer: comparer,
		})
		require.NoError(t, fill(w))
		require.NoError(t, w.Close())
		return path
	}
	set := func(w *pebbletable.Writer) error { return w.Set([]byte("a"), []byte("by Pebble")) }
	d, err := db.Open(filepath.Join(dir, "db"), nil)
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, d.Put([]byte("m"), []byte("of the store"), nil))
	for want, path := range map[string]string{
		"deletions of ranges": write("deletions", pebble.DefaultComparer, func(w *pebbletable.Writer) error {
			require.NoError(t, set(w))
			return w.DeleteRange([]byte("k"), []byte("n"))
		}),
		`comparer "another"`: write("order", &other, set),
		"unknown kind 2; Pebble and RocksDB use it for merges": write("merge", pebble.DefaultComparer, func(w *pebbletable.Writer) error {
			return w.Merge([]byte("a"), []byte("more"))
		}),
	} {
		_, err := d.Ingest(t.Context(), []string{path}, nil)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
	}
	_, err = d.Ingest(t.Context(), []string{write("points", pebble.DefaultComparer, set)}, nil)
	require.NoError(t, err)
	value, err := d.Get([]byte("a"))
	require.NoError(t, err)
	require.Equal(t, "by Pebble", string(value))
}

// fillElsewhere makes a database of another engine whose tables do not overlap, and returns its entries.
func (s *session) fillElsewhere(t *testing.T, e Engine, dir string, o Options, n, from int) (ops []Op) {
	d, err := e.Open(dir, o)
	require.NoError(t, err)
	for i := from; i < from+600; i++ {
		ops = append(ops, Put(fmt.Appendf(nil, "key%05d", i), fmt.Appendf(nil, "of database %d: %x", n, s.bytes(60))))
	}
	require.NoError(t, d.Write(ops, true))
	require.NoError(t, d.Flush())
	require.NoError(t, d.Compact(nil, nil))
	require.NoError(t, d.Close())
	return ops
}
