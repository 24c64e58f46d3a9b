package db_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// BenchmarkChanges reads puts of 100 bytes from the feed, one change each. Its time is that of one change.
func BenchmarkChanges(b *testing.B) {
	for _, c := range []struct {
		name    string
		entries bool
		o       db.ChangeOptions
	}{
		{"changes", false, db.ChangeOptions{}},
		{"entries", true, db.ChangeOptions{}},
		{"prefix", true, db.ChangeOptions{Prefix: []byte("key0000")}},
	} {
		b.Run(c.name, func(b *testing.B) {
			d, err := db.Open(b.TempDir(), &db.Options{Changes: db.ChangeRetention{Bytes: 1 << 40}})
			require.NoError(b, err)
			defer d.Close()
			for i := range b.N {
				require.NoError(b, d.Put(testKey(i), testValue(i), db.Buffered))
			}
			require.NoError(b, d.SyncLog())
			b.ReportAllocs()
			b.ResetTimer()
			n := uint64(0)
			for c2, err := range d.Changes(b.Context(), 0, &c.o) {
				if err != nil {
					b.Fatal(err)
				}
				n = c2.Last
				if !c.entries {
					continue
				}
				for _, err := range c2.Entries() {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.StopTimer()
			require.Equal(b, uint64(b.N), n)
		})
	}
}
