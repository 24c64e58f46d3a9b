package db

import (
	"testing"

	"github.com/stretchr/testify/require"

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
	openTest(t, testOptions(mem))
	require.ErrorIs(t, Repair("db", testOptions(vanishing{mem})), ErrLocked)
}
