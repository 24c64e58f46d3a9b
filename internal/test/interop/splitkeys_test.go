package interop

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// splitKey makes LevelDB write two tables of one level that hold versions of one deleted key, the tombstone in the
// first and the value in the second. It ends a table wherever the size is reached, between versions of a key too;
// SieveDB and goleveldb end theirs between keys.
func splitKey(t *testing.T) *session {
	s := newSession(t, levelDB(t), Options{Compression: None})
	old := s.bytes(10)
	s.write(Put([]byte("a"), old), Put([]byte("k"), old))
	first, err := s.db.Snapshot()
	require.NoError(t, err)
	s.flush()
	s.put("k", string(s.bytes(2<<20))) // more than a table is to have
	second, err := s.db.Snapshot()
	require.NoError(t, err)
	s.delete("k")
	s.flush()
	s.compact() // the snapshots keep all three versions
	require.NoError(t, first.Release())
	require.NoError(t, second.Release())
	s.close()
	return s
}

// mergeFirstTable writes a key of the first table and compacts that key down.
func mergeFirstTable(s *session) {
	s.put("a", "new")
	s.flush()
	require.NoError(s.t, s.db.Compact([]byte("a"), []byte("a")))
}

func TestADeletedKeyThatLevelDBSplitOverTablesStaysDeleted(t *testing.T) {
	s := splitKey(t)
	s.continueWith(SieveDB{})
	mergeFirstTable(s)
	s.verify()
	s.compact()
	s.verify()
	s.close()
}

// LevelDB up to 1.23 and goleveldb compact the tables of the next level that overlap the key range
// of a compaction, but not the following tables with older versions of the same key. So they drop
// the tombstone and the value comes back. Later revisions of LevelDB include these tables.
func TestTheOthersBringADeletedKeyBackThatLevelDBSplitOverTables(t *testing.T) {
	s := splitKey(t)
	for _, o := range others {
		t.Run(o.name, func(t *testing.T) {
			s := &session{t: t, dir: copyOf(t, s.dir), model: s.model.Clone(), rng: s.rng}
			s.continueWith(o.engine(t))
			mergeFirstTable(s)
			values, err := s.db.Get([][]byte{[]byte("k")})
			require.NoError(t, err)
			require.NotNil(t, values[0], "the deleted key is to be back; "+
				"if LevelDB keeps it deleted, TestRandomDatabases can let it hold snapshots again")
			s.close()
		})
	}
}
