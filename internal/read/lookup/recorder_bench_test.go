package lookup_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// BenchmarkRecording measures what the recording of slow lookups costs the lookups, half of them of absent keys.
func BenchmarkRecording(b *testing.B) {
	store, err := db.Open("dir", &db.Options{FS: vfs.NewMem()})
	require.NoError(b, err)
	defer func() { require.NoError(b, store.Close()) }()
	for i := range 100_000 {
		require.NoError(b, store.Put(fixture.Key(2*i), make([]byte, 100), db.NoSync))
	}
	require.NoError(b, store.Flush())
	look := func(b *testing.B) {
		var value []byte
		for i := 0; b.Loop(); i++ {
			value, _ = store.GetTo(value[:0], fixture.Key(i%2000))
		}
	}
	b.Run("off", look)
	store.SlowLookups(time.Hour)
	b.Run("on", look)
}
