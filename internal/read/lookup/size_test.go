package lookup_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// entryBytes is about what an entry of a memtable needs in addition to key and value.
const entryBytes = 30

// What is only in memory counts in EstimateSize, and moves to the tables with the flush.
func TestEstimatesIncludeMemtables(t *testing.T) {
	d := storetest.Open(t, &db.Options{FS: vfs.NewMem()})
	storetest.Fill(t, d, 0, 4000)
	all := result.Of(d.EstimateSize(nil, nil))(t)
	require.Zero(t, all.Tables)
	require.InEpsilon(t, 4000*(len(fixture.Key(0))+len(fixture.Value(0))+entryBytes), all.Memtables, 0.3)
	tenth := result.Of(d.EstimateSize(fixture.Key(1000), fixture.Key(1400)))(t)
	require.InEpsilon(t, float64(all.Memtables)/10, tenth.Memtables, 0.4)
	onDisk := result.Of(d.ApproximateSize(nil, nil))(t)
	require.Zero(t, onDisk)

	require.NoError(t, d.Flush())
	after := result.Of(d.EstimateSize(nil, nil))(t)
	require.Zero(t, after.Memtables)
	require.InEpsilon(t, d.Metrics().Total().Bytes, after.Tables, 0.1)
	require.NoError(t, d.Put(fixture.Key(5000), make([]byte, 5000), db.NoSync))
	one := result.Of(d.EstimateSize(fixture.Key(5000), nil))(t)
	require.Zero(t, one.Tables)
	require.InEpsilon(t, 5000, one.Memtables, 0.02)
	none := result.Of(d.EstimateSize(fixture.Key(9), fixture.Key(5)))(t)
	require.Zero(t, none)
}
