package version

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTablesGrowWithTheLastLevel(t *testing.T) {
	const mib = 1 << 20
	for lastLevel, want := range map[uint64]uint64{
		0: 2 * mib, 4096 * mib: 2 * mib, 8192 * mib: 4 * mib, 65536 * mib: 32 * mib, 1 << 40: 64 * mib, 1 << 62: 64 * mib,
	} {
		require.Equal(t, want, GrownTableSize(lastLevel, MaxTableSize), lastLevel)
	}
	require.EqualValues(t, 8*mib, GrownTableSize(1<<40, 8*mib))
	require.EqualValues(t, 2*mib, GrownTableSize(1<<40, 0))
	require.EqualValues(t, 4*mib, LoadTableSize(2048*mib, MaxTableSize))
}
