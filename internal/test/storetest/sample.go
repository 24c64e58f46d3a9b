package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// Sample makes a database with three levels, overwritten and deleted keys, and entries that
// are only in the log. Its tables do not depend on timing.
func Sample(t testing.TB) (fixture.Dir, fixture.Contents) {
	t.Helper()
	mem := vfs.NewMem()
	o := Options(mem)
	o.Compaction.MaxLevelBase, o.Tables.Compression, o.Compaction.MaxConcurrent = 4<<10, db.NoCompression, 1
	d := MustOpen(t, o)
	model := fixture.Contents{}
	puts := 0
	put := func(i, generation int) {
		if puts++; puts%100 == 0 { // before the memtable is full, so that compactions do not depend on timing
			Settle(t, d)
		}
		value := fmt.Sprintf("value%d.%0100d", generation, i)
		require.NoError(t, d.Put(fixture.Key(i), []byte(value), db.NoSync))
		model[string(fixture.Key(i))] = value
	}
	for generation := range 4 {
		for i := generation; i < 700; i += 1 + generation {
			put(i, generation)
		}
		for i := 5 * generation; i < 700; i += 11 {
			require.NoError(t, d.Delete(fixture.Key(i), db.NoSync))
			delete(model, string(fixture.Key(i)))
		}
		Settle(t, d)
	}
	for i := 0; i < 60; i += 3 { // for level 0, and then for the log
		put(i, 8)
	}
	require.NoError(t, d.Flush())
	for i := 1; i < 60; i += 3 {
		put(i, 9)
	}
	require.NoError(t, d.Delete(fixture.Key(3), nil))
	delete(model, string(fixture.Key(3)))
	require.NoError(t, d.Close())
	files := fixture.ReadDir(t, mem, "db")
	levels := map[int]bool{}
	for _, level := range files.Live(t) {
		levels[level] = true
	}
	require.Len(t, levels, 3)
	require.Equal(t, model, ContentsOf(t, files.FS(t)))
	return files, model
}
