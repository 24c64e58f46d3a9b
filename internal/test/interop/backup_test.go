package interop

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
)

// A follower makes backups of a database that another engine has open and continues to write. Each restored
// one opens in the other engine, with what the database had at that moment.
func TestBackupsOfAnotherEnginesDatabase(t *testing.T) {
	forEachOther(t, func(t *testing.T, other Engine, reuse bool) {
		s := newSession(t, other, Options{WriteBufferSize: 32 << 10, TableSize: 16 << 10, ReuseLogs: reuse})
		storage, err := backup.NewDir(nil, filepath.Join(t.TempDir(), "repo"))
		require.NoError(t, err)
		repo := backup.Open(storage)
		original := s.dir
		for round := range 3 {
			for range 10 {
				s.change()
			}
			follower, err := db.OpenFollower(original, nil)
			require.NoError(t, err)
			info, err := repo.Create(t.Context(), follower, nil)
			require.NoError(t, err)
			require.NoError(t, follower.Close())
			if round == 1 {
				s.compact()
			}
			s.verify()

			r := newSession(t, other, s.opts)
			r.close()
			r.dir, r.model = filepath.Join(t.TempDir(), "restored"), s.model
			_, err = repo.Restore(t.Context(), info.ID, r.dir, nil)
			require.NoError(t, err)
			r.continueWith(other)
			r.compact()
			r.verify()
			r.close()
		}
		report, err := repo.Verify(t.Context())
		require.NoError(t, err)
		require.Empty(t, report.Faults)
	})
}
