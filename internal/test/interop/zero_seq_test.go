package interop

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A compaction of ours leaves sequence number 0 with what everybody sees. The others read
// it, through snapshots too, write over it, compact it, and hand it back.
func TestTheOthersGoOnFromSequenceNumberZero(t *testing.T) {
	forEachOther(t, func(t *testing.T, other Engine, reuse bool) {
		s := newSession(t, SieveDB{}, tiny(reuse))
		for i := range 3000 {
			s.put(fmt.Sprintf("key%05d", i*7%3000), string(s.bytes(60)))
		}
		s.compact()
		s.verify()
		s.close()

		s.continueWith(other)
		snapshot, err := s.db.Snapshot()
		require.NoError(t, err)
		before := s.model.Clone()
		s.change()
		s.compact()
		s.verify()
		require.NoError(t, before.Check(snapshot))
		require.NoError(t, snapshot.Release())
		s.compact()
		s.verify()
		s.close()

		s.openExisting(SieveDB{})
		s.compact()
		s.change()
		s.kill()
		s.exchange(SieveDB{}, other)
	})
}
