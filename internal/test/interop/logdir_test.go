package interop

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// Without its logs a database would be older than it was. The other engines refuse it while the logs
// are in another directory, leave it as it is, and continue when they are back.
func TestTheOthersRefuseADatabaseWhoseLogsAreElsewhere(t *testing.T) {
	forEachOther(t, func(t *testing.T, other Engine, reuse bool) {
		s := newSession(t, other, Options{ReuseLogs: reuse})
		s.put("a", "by the other engine, in the log")
		s.close()
		logs := filepath.Join(t.TempDir(), "logs")
		open := func(logDir string) *db.DB {
			d, err := db.Open(s.dir, &db.Options{LogDir: logDir})
			require.NoError(t, err)
			return d
		}
		d := open(logs)
		require.NoError(t, d.Put([]byte("b"), []byte("in a log elsewhere"), nil))
		require.NoError(t, d.Close())
		s.model.Apply([]Op{Put([]byte("b"), []byte("in a log elsewhere"))})

		o := s.opts
		o.MustExist = true
		_, err := other.Open(s.dir, o)
		require.ErrorContains(t, err, "sievedb.LogDir:leveldb.BytewiseComparator")

		d = open("")
		value, err := d.Get([]byte("b"))
		require.NoError(t, err)
		require.Equal(t, "in a log elsewhere", string(value))
		require.NoError(t, d.Put([]byte("c"), []byte("in a later log"), nil))
		require.NoError(t, d.Close())
		require.NoError(t, open(s.dir).Close())
		s.model.Apply([]Op{Put([]byte("c"), []byte("in a later log"))})
		s.continueWith(other)
		s.put("d", "by the other engine again")
		s.close()
		s.continueWith(SieveDB{})
	})
}
