package checkpoint

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// A database of the user's in the directory for backups, next to a file with the name of its lock, was emptied when the
// database around it was opened.
func TestOnlyWhatABackupLeftIsRemoved(t *testing.T) {
	const id = "20250101T000000.000000000Z-0123456789abcdef"
	for name, left := range map[string]bool{
		id: true, "mine": false, id + "0": false, "x" + id: false, "20251301T000000.000000000Z-0123456789abcdef": false,
		"20250101T000000.000000000Z-0123456789abcdeg": false,
	} {
		t.Run(name, func(t *testing.T) {
			for _, remove := range []func(vfs.FS, string) error{RemoveOwn, RemoveUnused} {
				mem := vfs.NewMem()
				dir := "db/backup/" + name
				require.NoError(t, mem.MkdirAll(dir))
				fixture.WriteFile(t, mem, dir+"/CURRENT", nil)
				fixture.WriteFile(t, mem, dir+LockSuffix, nil)
				require.NoError(t, remove(mem, "db"))
				_, err := mem.Stat(dir + "/CURRENT")
				require.Equal(t, left, err != nil)
			}
		})
	}
}
