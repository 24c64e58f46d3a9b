package base

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALogIsReservedInStepsThatDouble(t *testing.T) {
	var lengths []int64
	for length, end := int64(0), int64(1); end < 4<<20; end = length + 1 {
		length = LogReserve(length, end)
		require.GreaterOrEqual(t, length, end)
		require.Equal(t, length, LogReserve(length, length), "it suffices")
		lengths = append(lengths, length>>10)
	}
	require.Equal(t, []int64{64, 128, 256, 512, 1024, 2048, 3072, 4096}, lengths)
	require.EqualValues(t, 1024<<10, LogReserve(64<<10, 1000<<10+1), "a large record needs more than a step")
	require.EqualValues(t, 64<<10, LeastLogReserve(32<<10+1))
	require.EqualValues(t, 32<<10, LeastLogReserve(32<<10))
}
