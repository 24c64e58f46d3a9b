package manifest

import (
	"path/filepath"
	"testing"

	"github.com/sievedb/sievedb/internal/vfs"
	"github.com/stretchr/testify/require"
)

func TestCurrentVectorDecodesAndEncodesBack(t *testing.T) {
	want := hexVector(t, "testdata/current.hex")
	name, err := parseCurrent(want)
	require.NoError(t, err)
	require.Equal(t, "MANIFEST-000011", name)

	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("db"))
	require.NoError(t, writeCurrent(mem, "db", 11))
	f, err := mem.Open(filepath.Join("db", "CURRENT"))
	require.NoError(t, err)
	defer f.Close()
	size, err := f.Size()
	require.NoError(t, err)
	require.EqualValues(t, len(want), size)
	got := make([]byte, size)
	_, err = f.ReadAt(got, 0)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))

	again, err := readCurrent(mem, "db")
	require.NoError(t, err)
	require.Equal(t, name, again)
}
