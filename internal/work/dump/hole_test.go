package dump_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/work/dump"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: 3 MB of zeros in the middle of a log were called a torn end, as a crash leaves it, although records follow.
func TestAHoleBeforeReadableRecordsIsAFault(t *testing.T) {
	mem := vfs.NewMem()
	d, err := db.Open("db", &db.Options{FS: mem})
	require.NoError(t, err)
	for i := range 200 {
		require.NoError(t, d.Put([]byte{byte(i)}, make([]byte, 1000), nil))
	}
	killed := mem.Kill()
	require.NoError(t, d.Close())
	path := "db/" + fixture.Names(t, killed, base.FileLog)[0]
	log := fixture.ReadFile(t, killed, path)
	clear(log[50<<10 : 120<<10])
	fixture.WriteFile(t, killed, path, log)

	fault := ""
	sum, err := dump.File(killed, path, dump.Options{}, func(i *dump.Item) error {
		if i.Fault != "" {
			fault = i.Fault
		}
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 1, sum.Faults)
	require.False(t, sum.Torn)
	require.Contains(t, fault, "records follow")
}
