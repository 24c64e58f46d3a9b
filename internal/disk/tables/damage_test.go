package tables_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
)

// Another program truncates a table, or a disk loses its bytes, while the database is open. With mmap this would be a
// signal that no Go program survives. Here every lookup returns the right value or ErrCorruption.
func TestATableThatChangesUnderAnOpenDatabaseIsAnError(t *testing.T) {
	const keys = 500
	for _, c := range []struct {
		name string
		harm func(f *os.File, size int64) error
	}{
		{"cut to nothing", func(f *os.File, size int64) error { return f.Truncate(0) }},
		{"cut in the middle", func(f *os.File, size int64) error { return f.Truncate(size / 2) }},
		{"zeroed", func(f *os.File, size int64) error {
			_, err := f.WriteAt(make([]byte, size), 0)
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			d, err := db.Open(dir, &db.Options{
				Tables: db.TableOptions{BlockSize: 512, Compression: db.NoCompression}, Cache: db.CacheOptions{Size: 8 << 10},
			})
			require.NoError(t, err)
			defer d.Close()
			storetest.Fill(t, d, 0, keys)
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			storetest.RequireValue(t, d, fixture.Key(0), fixture.Value(0)) // the table is open now

			files, err := d.Tables()
			require.NoError(t, err)
			require.Len(t, files, 1)
			f, err := os.OpenFile(filepath.Join(dir, base.FileName(base.FileTable, files[0].FileNum)), os.O_RDWR, 0)
			require.NoError(t, err)
			require.NoError(t, c.harm(f, int64(files[0].Bytes)))
			require.NoError(t, f.Close())

			errs := 0
			for i := range keys {
				got, err := d.Get(fixture.Key(i))
				if err == nil {
					require.Equal(t, string(fixture.Value(i)), string(got))
					continue
				}
				require.ErrorIs(t, err, db.ErrCorruption)
				errs++
			}
			require.Greater(t, errs, keys/3)
			it := storetest.Iter(t, d, nil)
			n := 0
			for k := range it.All() {
				require.Equal(t, string(fixture.Key(n)), string(k))
				n++
			}
			require.Less(t, n, keys)
			require.ErrorIs(t, it.Close(), db.ErrCorruption)
		})
	}
}
