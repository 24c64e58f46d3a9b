package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheMemoryOfClientsHasALeastDefault(t *testing.T) {
	o := Options{}
	require.GreaterOrEqual(t, o.clientBytes(), int64(minClientBytes))
	o.Limits.ClientBytes = 1 << 20
	require.EqualValues(t, 1<<20, o.clientBytes())
}
