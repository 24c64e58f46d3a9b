package db_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: Close stopped the compaction that the opening had begun, so a program that was run for one write each time
// left a table with each run, and in the end had hundreds.
func TestProgramsThatRunForOneWriteLeaveFewFiles(t *testing.T) {
	for _, keys := range []int{1, 10, 1000} {
		o := &db.Options{FS: vfs.NewMem(), Changes: db.ChangeRetention{Bytes: 1}}
		for n := range 40 {
			d := openDir(t, "db", o)
			putAll(t, d, fmt.Sprint("key", n%keys), fmt.Sprint(n))
			require.NoError(t, d.Close())
		}
		names, err := o.FS.List("db")
		require.NoError(t, err)
		require.LessOrEqual(t, len(names), 13, "five tables, a log, MANIFEST, CURRENT, LOCK, CLOSED, changes: %q", names)
		d := openDir(t, "db", o)
		for n := 40 - min(keys, 40); n < 40; n++ {
			requireValue(t, d, []byte(fmt.Sprint("key", n%keys)), []byte(fmt.Sprint(n)))
		}
		require.LessOrEqual(t, d.Metrics().Total().Tables, 6, "%d keys", keys)
		require.NoError(t, d.Close())
	}
}
