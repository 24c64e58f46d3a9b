package bulk_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// BenchmarkDeleteRangeWithAnOpenSnapshot deletes a range of 1,000 keys, which has tables of its own, while a snapshot
// is open.
func BenchmarkDeleteRangeWithAnOpenSnapshot(b *testing.B) {
	d, err := db.Open("db", &db.Options{FS: vfs.NewMem()})
	require.NoError(b, err)
	defer d.Close()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		l, err := d.NewLoader()
		require.NoError(b, err)
		for n := range 1_000 {
			require.NoError(b, l.Put(fmt.Appendf(nil, "%08d/%04d", i, n), []byte("value")))
		}
		require.NoError(b, l.Commit())
		s := d.NewSnapshot()
		b.StartTimer()
		require.NoError(b, d.DeleteRange(b.Context(), fmt.Appendf(nil, "%08d/", i), fmt.Appendf(nil, "%08d0", i), nil))
		b.StopTimer()
		require.NoError(b, s.Close())
		b.StartTimer()
	}
}
