package node

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenTablesAreAQuarterOfTheDescriptors(t *testing.T) {
	require.Equal(t, 256, openFiles(0, 10, 1024))
	require.Equal(t, 10_000, openFiles(0, 10, 1<<20))
	require.Equal(t, 1300, openFiles(0, 130, 1024), "each database needs some")
	require.Equal(t, 2000, openFiles(2000, 10, 1024))
	require.Zero(t, openFiles(0, 10, 0), "unknown: the default of the resources")
}
