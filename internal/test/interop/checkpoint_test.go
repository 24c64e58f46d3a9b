package interop

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// The other engines open a checkpoint with its tables and logs, write to it, and leave the database
// that it shares files with as it was.
func TestTheOthersContinueFromACheckpoint(t *testing.T) {
	forEachOther(t, func(t *testing.T, other Engine, reuse bool) {
		s := newSession(t, SieveDB{}, Options{WriteBufferSize: 32 << 10, TableSize: 16 << 10, ReuseLogs: reuse})
		s.close()
		d, err := db.Open(s.dir, &db.Options{
			Memtables: db.MemtableOptions{Size: 32 << 10}, Tables: db.TableOptions{Size: 16 << 10},
		})
		require.NoError(t, err)
		for i := range 2000 {
			op := Put(fmt.Appendf(nil, "key%05d", i*7%1500), s.bytes(60))
			require.NoError(t, d.Put(op.Key, op.Value, db.Buffered))
			s.model.Apply([]Op{op})
			if i%5 == 0 {
				op := Delete(fmt.Appendf(nil, "key%05d", i))
				require.NoError(t, d.Delete(op.Key, db.NoSync))
				s.model.Apply([]Op{op})
			}
		}
		original := s.dir
		s.dir = filepath.Join(t.TempDir(), "copy")
		info, err := d.Checkpoint(t.Context(), s.dir, nil)
		require.NoError(t, err)
		require.Positive(t, info.BytesLinked)
		require.NoError(t, d.Put([]byte("key"), []byte("only in the original"), nil))

		s.continueWith(other)
		s.put("copy", "only in the copy")
		s.delete("key00700")
		s.compact()
		s.verify()
		s.close()

		report, err := d.Check(t.Context())
		require.NoError(t, err)
		require.Empty(t, report.Faults)
		_, err = d.Get([]byte("copy"))
		require.ErrorIs(t, err, db.ErrNotFound)
		value, err := d.Get([]byte("key"))
		require.NoError(t, err)
		require.Equal(t, "only in the original", string(value))
		require.NoError(t, d.Close())
		s.check(SieveDB{})
		s.dir = original
	})
}
