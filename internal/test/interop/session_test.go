package interop

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// session is a database in the hands of one engine after another, with the model of what it should hold.
type session struct {
	t      *testing.T
	dir    string
	opts   Options
	engine Engine
	db     DB   // nil: closed
	killed bool // SieveDB was killed, and no engine has opened the database since
	model  *Model
	rng    *rand.Rand
}

// newSession opens a new database.
func newSession(t *testing.T, e Engine, o Options) *session {
	s := &session{
		t: t, dir: filepath.Join(t.TempDir(), "db"), model: NewModel(),
		rng: rand.New(rand.NewPCG(1, 2)),
	}
	s.open(e, o)
	t.Cleanup(func() {
		if s.db != nil {
			_ = s.db.Close()
		}
	})
	return s
}

func (s *session) open(e Engine, o Options) {
	s.t.Helper()
	d, err := e.Open(s.dir, o)
	require.NoError(s.t, err, "%s opens", e.Name())
	o.ReservedLogs = false
	s.db, s.engine, s.opts, s.killed = d, e, o, false
}

// openExisting opens the database with another engine, or again, with every check on.
func (s *session) openExisting(e Engine) {
	s.t.Helper()
	o := s.opts
	o.MustExist, o.Paranoid, o.ReservedLogs = true, true, s.killed
	s.open(e, o)
}

func (s *session) close() {
	s.t.Helper()
	d := s.db
	s.db = nil
	require.NoError(s.t, d.Close(), "%s closes", s.engine.Name())
}

// kill ends the engine without closing and continues with the remaining files.
func (s *session) kill() {
	s.t.Helper()
	left := filepath.Join(s.t.TempDir(), "db")
	d := s.db
	s.db = nil
	require.NoError(s.t, d.Kill(left))
	s.dir, s.killed = left, s.engine.Name() == SieveDB{}.Name()
}

func (s *session) write(ops ...Op) {
	s.t.Helper()
	require.NoError(s.t, s.db.Write(ops, false), "%s writes", s.engine.Name())
	s.model.Apply(ops)
}

func (s *session) put(key, value string) {
	s.t.Helper()
	s.write(Put([]byte(key), []byte(value)))
}

func (s *session) delete(key string) {
	s.t.Helper()
	s.write(Delete([]byte(key)))
}

func (s *session) flush() {
	s.t.Helper()
	require.NoError(s.t, s.db.Flush(), "%s flushes", s.engine.Name())
}

func (s *session) compact() {
	s.t.Helper()
	require.NoError(s.t, s.db.Compact(nil, nil), "%s compacts", s.engine.Name())
}

func (s *session) tables() []int {
	s.t.Helper()
	counts, err := s.db.Tables()
	require.NoError(s.t, err)
	return counts
}

func (s *session) verify() {
	s.t.Helper()
	require.NoError(s.t, s.model.Check(s.db), "%s reads", s.engine.Name())
}

// continueWith opens the database with an engine and verifies what it reads.
func (s *session) continueWith(e Engine) {
	s.t.Helper()
	s.openExisting(e)
	s.verify()
}

// check opens the database with an engine, verifies what it reads, and closes it.
func (s *session) check(e Engine) {
	s.t.Helper()
	s.continueWith(e)
	s.close()
}

// bytes returns n random bytes.
func (s *session) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.rng.Uint32())
	}
	return b
}

// change does a little of everything to what the database holds.
func (s *session) change() {
	s.t.Helper()
	keys := s.model.Keys()
	step := max(1, len(keys)/200)
	for i := 0; i < len(keys); i += step {
		switch s.rng.IntN(3) {
		case 0:
			s.delete(keys[i])
		case 1:
			s.write(Put([]byte(keys[i]), s.bytes(s.rng.IntN(100))))
		case 2:
			s.write(Delete([]byte(keys[i])), Put([]byte(keys[i]+"'"), s.bytes(20)))
		}
	}
	for range 50 {
		s.write(Put(s.bytes(1+s.rng.IntN(20)), s.bytes(s.rng.IntN(200))))
	}
}

// exchange hands what the writer made, closed or killed, to the reader, which
// checks, changes, compacts and closes it, and back again.
func (s *session) exchange(writer, reader Engine) {
	s.t.Helper()
	s.continueWith(reader)
	s.change()
	s.verify()
	s.compact()
	s.verify()
	s.close()

	s.continueWith(writer)
	s.change()
	s.verify()
	s.kill()

	s.check(reader)
	s.check(writer)
}
