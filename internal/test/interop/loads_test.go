package interop

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// load commits a load of keys [from, to), every third one a deletion, while other keys are written.
func (s *session) load(from, to int) {
	s.t.Helper()
	l, err := s.db.(*sieveDB).d.NewLoader()
	require.NoError(s.t, err)
	var ops []Op
	for i := from; i < to; i++ {
		op := Put(fmt.Appendf(nil, "key%05d", i), s.bytes(100))
		if i%3 == 0 {
			op = Delete(op.Key)
			err = l.Delete(op.Key)
		} else {
			err = l.Put(op.Key, op.Value)
		}
		require.NoError(s.t, err)
		ops = append(ops, op)
		if i%50 == 0 {
			s.put(fmt.Sprintf("key%05d", i+25), "written during the load")
		}
	}
	require.NoError(s.t, l.Commit())
	s.model.Apply(ops)
}

// A load has a sequence number far above all earlier ones. The other engines continue from it,
// whether or not writes in the log followed it, and they drop no later record of the log.
func TestTheOthersGoOnFromALoad(t *testing.T) {
	exchangeAfter(t, func(s *session) {
		for i := range 1000 {
			s.put(fmt.Sprintf("key%05d", i*2), string(s.bytes(60)))
		}
		s.load(3000, 4000) // meets nothing
		s.load(500, 2500)  // meets much
	})
}

// exchangeAfter lets each other engine continue from what was done, after a Close, a kill, and a kill with more in the
// log.
func exchangeAfter(t *testing.T, do func(s *session)) {
	for name, end := range map[string]func(*session){
		"closed":                      func(s *session) { s.close() },
		"killed":                      func(s *session) { s.kill() },
		"killed, with a log after it": func(s *session) { s.put("key00100", "written after it"); s.put("z", ""); s.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			forEachOther(t, func(t *testing.T, other Engine, reuse bool) {
				s := newSession(t, SieveDB{}, tiny(reuse))
				do(s)
				s.verify()
				end(s)
				s.exchange(SieveDB{}, other)
			})
		})
	}
}

// deleteRange deletes keys [from, to) and puts one of them again, in one batch.
func (s *session) deleteRange(from, to int) {
	s.t.Helper()
	var b db.Batch
	b.DeleteRange(fmt.Appendf(nil, "key%05d", from), fmt.Appendf(nil, "key%05d", to))
	kept := Put(fmt.Appendf(nil, "key%05d", (from+to)/2), []byte("put again"))
	b.Put(kept.Key, kept.Value)
	require.NoError(s.t, s.db.(*sieveDB).d.Apply(&b, nil))
	var ops []Op
	for i := from; i < to; i++ {
		ops = append(ops, Delete(fmt.Appendf(nil, "key%05d", i)))
	}
	s.model.Apply(append(ops, kept))
}

// A deleted range is removed tables and tombstones in tables. The other engines continue from it like
// from a load, with and without a snapshot that keeps the tables of the range.
func TestTheOthersGoOnFromADeletedRange(t *testing.T) {
	exchangeAfter(t, func(s *session) {
		for i := range 4000 {
			s.put(fmt.Sprintf("key%05d", i), string(s.bytes(60)))
		}
		s.deleteRange(100, 1900) // tables lie in it
		s.put("key00500", "written again")
		s.deleteRange(450, 510) // none does
		snapshot := s.db.(*sieveDB).d.NewSnapshot()
		s.deleteRange(2000, 3900)
		require.NoError(t, snapshot.Close())
	})
}
