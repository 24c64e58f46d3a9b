package db_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

func TestShortReadsChangeNoAnswer(t *testing.T) {
	testSeeds(t, func(t *testing.T, seed uint64) {
		mem := vfs.NewMem()
		r := newFaultRun(seed, 1)
		r.readsMustWork = true
		require.NoError(t, r.workload(shortened(mem)))
		require.Zero(t, r.failures)

		d, err := db.Open("db", crashOptions(shortened(mem), seed&^3)) // with the same Expiry as 0
		require.NoError(t, err)
		require.NoError(t, d.Compact(t.Context(), nil, nil))
		require.NoError(t, r.readAll(d))
		report, err := d.Check(t.Context())
		require.NoError(t, err)
		require.NotZero(t, report)
		require.NoError(t, d.Close())
		require.NoError(t, r.workload(mem), "the files are complete")
	})
}
