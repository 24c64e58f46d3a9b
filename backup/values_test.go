package backup_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/storetest"
)

// Value tables are backed up like others. One that was not rewritten is in the repository once.
func TestSeparatedValuesAreBackedUpOnce(t *testing.T) {
	storage, r, d := newRepo(t)
	plain := create(t, r, d, nil)
	o := d.Options()
	o.Tables.SeparateValues = 100
	require.NoError(t, d.SetOptions(&o))
	for i := range 50 {
		put(t, d, fmt.Sprintf("key%03d", i), strings.Repeat(fmt.Sprint(i), 200))
	}
	require.NoError(t, d.Flush())
	storetest.Settle(t, d)
	require.NotZero(t, d.Metrics().Tables.ValueTables)
	first := create(t, r, d, nil)
	require.Contains(t, string(storage.Objects()["backups/"+plain.ID]), "sievedb backup 1\n")
	require.Contains(t, string(storage.Objects()["backups/"+first.ID]), "sievedb backup 3\n", "which older versions refuse")
	want := contents(t, d)
	put(t, d, "key000", "small")
	second := create(t, r, d, nil)
	require.Less(t, second.BytesStored, first.BytesStored/2, "the value tables are there")
	verifyClean(t, r)
	require.Equal(t, want, restored(t, r, first.ID))
	require.Equal(t, contents(t, d), restored(t, r, second.ID))
}
