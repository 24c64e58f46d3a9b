package interop

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// markOf returns what is in dir's CLOSED, nil where there is none.
func markOf(t *testing.T, dir string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "CLOSED"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return b
}

// reopened opens the session with SieveDB and reports whether it believes in a clean close.
func (s *session) reopened() bool {
	s.t.Helper()
	s.openExisting(SieveDB{})
	return s.db.(*sieveDB).d.OpenReport().ClosedCleanly
}

// tearLog cuts the last record of the newest log that holds anything.
func (s *session) tearLog() {
	s.t.Helper()
	log := newest(s.t, s.dir, "*.log")
	require.NoError(s.t, os.Truncate(log, recordsOf(s.t, log)-2))
}

// forEachOther runs a test with each other engine, and with LevelDB once more as
// it appends to the log and MANIFEST that it finds.
func forEachOther(t *testing.T, test func(t *testing.T, other Engine, reuse bool)) {
	for _, o := range others {
		t.Run(o.name, func(t *testing.T) { test(t, o.engine(t), false) })
	}
	t.Run("leveldb, reusing logs", func(t *testing.T) { test(t, levelDB(t), true) })
}

// SieveDB's CLOSED vouches for the end of a log. Another engine ignores the file and continues to write; from then on
// it vouches for nothing, and a torn end of that engine's log is treated as usual.
func TestAnotherEnginesWritesMakeTheMarkOfACloseMeanNothing(t *testing.T) {
	ends := map[string]func(*session){
		"closed": func(s *session) { s.close() },
		"killed": func(s *session) { s.kill() },
		"killed, its log torn": func(s *session) {
			model := s.model.Clone()
			s.write(Put([]byte("torn off"), s.bytes(300)))
			s.kill()
			s.tearLog()
			s.model = model
		},
	}
	forEachOther(t, func(t *testing.T, other Engine, reuse bool) {
		for end, leave := range ends {
			t.Run(end, func(t *testing.T) {
				s := newSession(t, SieveDB{}, Options{})
				s.change()
				s.flush()
				s.change()
				s.close()
				mark := markOf(t, s.dir)
				require.NotNil(t, mark)
				require.True(t, s.reopened())
				require.Nil(t, markOf(t, s.dir), "while it is open")
				s.change()
				s.close()
				mark = markOf(t, s.dir)

				s.opts.ReuseLogs = reuse
				s.continueWith(other)
				s.change()
				leave(s)
				require.Equal(t, mark, markOf(t, s.dir), "%s leaves CLOSED alone", other.Name())

				require.False(t, s.reopened())
				s.verify()
				s.change()
				s.close()
				require.NotEqual(t, mark, markOf(t, s.dir))
				require.True(t, s.reopened())
				s.verify()
				s.close()
			})
		}
	})
}

// What destroys a database by the names that it knows leaves CLOSED. Another
// engine's new database in that directory begins with the same numbers.
func TestTheMarkOfADestroyedDatabaseDoesNotHurtAnotherEngines(t *testing.T) {
	forEachOther(t, func(t *testing.T, other Engine, reuse bool) {
		for n := range 12 {
			s := newSession(t, SieveDB{}, Options{})
			for range 6 {
				s.write(Put(s.bytes(10), s.bytes(100)))
			}
			s.close()
			mark := markOf(t, s.dir)
			require.NoError(t, os.RemoveAll(s.dir))
			require.NoError(t, os.Mkdir(s.dir, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(s.dir, "CLOSED"), mark, 0o600))

			s.model = NewModel()
			s.open(other, Options{ReuseLogs: reuse})
			for range n {
				s.write(Put(s.bytes(10), s.bytes(100)))
			}
			model := s.model.Clone()
			s.write(Put(s.bytes(10), s.bytes(100)))
			s.kill()
			s.tearLog()
			s.model = model
			require.False(t, s.reopened())
			s.verify()
			s.close()
		}
	})
}
