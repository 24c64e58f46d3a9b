package filterplan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
)

func TestEstimateSpendsItsMemoryAndSavesReads(t *testing.T) {
	o := Options{Filter: filter.NewBloomPolicy(10), L0CompactionTrigger: 4, WriteBufferSize: 4 << 20, MaxLevelBase: 10 << 20}
	e := o.Estimate(1e9, 100)
	d := e.At(1e9 * 10 / 8)
	require.InEpsilon(t, 10, d.BitsPerKey, 1e-9)
	var keys, uniform, solved float64
	for i, l := range e.Tree {
		keys += l.Keys
		uniform += l.Keys * d.Uniform[i] / 8
		solved += l.Keys * d.Solved[i] / 8
	}
	require.InEpsilon(t, 1e9, keys, 1e-9)
	require.InEpsilon(t, d.Bytes, uniform, 1e-9)
	require.InEpsilon(t, d.Bytes, solved, 1e-6)
	require.Less(t, e.Reads(d.Solved).Miss, e.Reads(d.Uniform).Miss/2)
	none := e.Reads(e.At(0).Solved)
	require.Greater(t, none.Miss, 4.0, "one block of each run")
	require.Greater(t, none.Hit, 1.0)
	require.InEpsilon(t, e.At(1e30).BitsPerKey, float64(len(e.Curve)-1), 1e-9, "more would gain nothing")
}
