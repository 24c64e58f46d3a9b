package dump

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: 3 MB of zeros in the middle of a log were called a torn end, as a crash leaves it, although records
// follow.
func TestAHoleBeforeReadableRecordsIsAFault(t *testing.T) {
	mem := vfs.NewMem()
	d, err := db.Open("db", &db.Options{FS: mem})
	require.NoError(t, err)
	for i := range 200 {
		require.NoError(t, d.Put([]byte{byte(i)}, make([]byte, 1000), nil))
	}
	killed := mem.Kill()
	require.NoError(t, d.Close())
	names, err := killed.List("db")
	require.NoError(t, err)
	path := "db/" + names[slices.IndexFunc(names, func(name string) bool { return KindOf(name) == Log })]
	f, err := killed.Open(path)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	log := make([]byte, size)
	_, err = vfs.ReadFull(f, log, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	clear(log[50<<10 : 120<<10])
	w, err := vfs.Replace(killed, path)
	require.NoError(t, err)
	_, err = w.Write(log)
	require.NoError(t, err)
	require.NoError(t, w.Close())

	fault := ""
	sum, err := File(killed, path, Options{}, func(i *Item) error {
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
