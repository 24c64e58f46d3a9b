package repair_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// vanishing lists a table that another goroutine removes before Repair examines it.
type vanishing struct{ vfs.FS }

func (v vanishing) List(dir string) ([]string, error) {
	names, err := v.FS.List(dir)
	return append(names, "000099.ldb"), err
}

// The bug: Repair listed the directory of an open store, whose compactions remove tables, and failed
// with "file does not exist" for a table that was removed by then, instead of with ErrLocked.
func TestRepairOfAnOpenStoreReturnsErrLockedWhileTablesVanish(t *testing.T) {
	mem := vfs.NewMem()
	storetest.Open(t, storetest.Options(mem))
	require.ErrorIs(t, db.Repair("db", storetest.Options(vanishing{mem})), db.ErrLocked)
}
