package interop

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// Files that are copied by name while a program writes them are of different moments. Repair finds all keys
// that goleveldb's RecoverFile finds, which ignores the MANIFEST, except for keys that the program had deleted.
// Those come back with RecoverFile more often.
func TestRepairOfALiveCopyFindsNoFewerKeysThanGoLevelDB(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	runs := 30
	if testing.Short() {
		runs = 2
	}
	for _, writer := range []Engine{SieveDB{}, GoLevelDB{}} {
		t.Run(writer.Name(), func(t *testing.T) {
			theirs, ours := 0, 0
			for run := range runs {
				c := newLiveCopy(t, writer, rand.New(rand.NewPCG(seed, uint64(run))))
				recovered, repaired := c.recover(t)
				for key := range recovered {
					if !c.deleted[key] {
						require.Contains(t, repaired, key, "run %d", run)
					}
				}
				for key := range c.deleted {
					theirs, ours = theirs+len(recovered[key]), ours+len(repaired[key])
				}
			}
			t.Logf("values of keys that had been deleted at some time: goleveldb %d bytes, SieveDB %d", theirs, ours)
		})
	}
}

// liveCopy is a copy of a database that was written meanwhile.
type liveCopy struct {
	dir     string
	deleted map[string]bool // keys that were deleted at any time
}

func newLiveCopy(t *testing.T, writer Engine, rnd *rand.Rand) *liveCopy {
	c := &liveCopy{dir: t.TempDir(), deleted: map[string]bool{}}
	from := t.TempDir()
	d, err := writer.Open(from, Options{WriteBufferSize: 4 << 10, TableSize: 4 << 10, LevelBase: 16 << 10, BlockSize: 512})
	require.NoError(t, err)
	step := func(n int) {
		for range n {
			key := fmt.Appendf(nil, "k%04d", rnd.IntN(400))
			if rnd.IntN(8) == 0 && key[len(key)-1] < '4' {
				c.deleted[string(key)] = true
				require.NoError(t, d.Write([]Op{Delete(key)}, false))
				continue
			}
			require.NoError(t, d.Write([]Op{Put(key, fmt.Appendf(nil, "%050d", rnd.Uint32()))}, false))
		}
		switch rnd.IntN(12) {
		case 0:
			require.NoError(t, d.Flush())
		case 1:
			require.NoError(t, d.Compact(nil, nil))
		}
	}
	for range 10 + rnd.IntN(20) {
		step(60)
	}
	names, err := os.ReadDir(from)
	require.NoError(t, err)
	pace := 1 + rnd.IntN(60)
	for _, f := range names {
		step(rnd.IntN(pace))
		data, err := os.ReadFile(filepath.Join(from, f.Name()))
		if f.Name() == "LOCK" || f.IsDir() || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(c.dir, f.Name()), data, 0o600))
	}
	require.NoError(t, d.Close())
	return c
}

// recover returns what RecoverFile and Repair make of the copy.
func (c *liveCopy) recover(t *testing.T) (recovered, repaired map[string]string) {
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, CopyDir(other, c.dir))
	require.NoError(t, GoLevelDB{}.Repair(other, Options{}))
	_, err := db.RepairWithReport(c.dir, nil)
	require.NoError(t, err)
	return everything(t, GoLevelDB{}, other), everything(t, SieveDB{}, c.dir)
}

// everything returns the content of a database.
func everything(t *testing.T, engine Engine, dir string) map[string]string {
	d, err := engine.Open(dir, Options{MustExist: true})
	require.NoError(t, err)
	entries, err := d.Scan(false)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	all := map[string]string{}
	for _, e := range entries {
		all[string(e.Key)] = string(e.Value)
	}
	return all
}
