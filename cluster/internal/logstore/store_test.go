package logstore

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// open opens a store with small memtables, so that tests reach tables. It is closed at the end of the test, unless the
// test has closed it.
func open(t testing.TB, fsys vfs.FS) *Store {
	t.Helper()
	s, err := Open("logs", Options{FS: fsys, DB: func(o *db.Options) { o.Memtables.Size = 16 << 10 }})
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := s.Close(); !errors.Is(err, db.ErrClosed) {
			require.NoError(t, err)
		}
	})
	return s
}

func entries(first, last, term uint64) (logs []*raft.Log) {
	for i := first; i <= last; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: term, Data: fmt.Appendf(nil, "%d/%d", term, i), AppendedAt: time.Unix(int64(i), 5).UTC()})
	}
	return logs
}

// requireRange checks where a log begins and ends.
func requireRange(t testing.TB, g *Group, first, last uint64) {
	t.Helper()
	gotFirst, err := g.FirstIndex()
	require.NoError(t, err)
	gotLast, err := g.LastIndex()
	require.NoError(t, err)
	require.Equal(t, [2]uint64{first, last}, [2]uint64{gotFirst, gotLast})
	for _, index := range []uint64{0, first - 1, last + 1} {
		if index < first || index > last || index == 0 {
			require.Equal(t, raft.ErrLogNotFound, g.GetLog(index, new(raft.Log)))
		}
	}
}

func TestGapsAreRefused(t *testing.T) {
	s := open(t, vfs.NewMem())
	g := s.Group(0)
	require.True(t, g.IsMonotonic())
	require.NoError(t, g.StoreLogs(entries(5, 10, 1)))
	require.ErrorIs(t, g.StoreLogs(entries(12, 12, 1)), ErrGap)
	require.ErrorIs(t, g.StoreLogs(entries(10, 11, 1)), ErrGap)
	require.ErrorIs(t, g.StoreLogs(append(entries(11, 11, 1), entries(13, 13, 1)...)), ErrGap)
	require.ErrorIs(t, g.DeleteRange(6, 9), ErrGap)
	require.Error(t, s.Group(1).StoreLogs(entries(0, 1, 1)))
	requireRange(t, g, 5, 10)
	require.NoError(t, s.Err())
	require.NoError(t, g.StoreLog(entries(11, 11, 1)[0]))
}

func TestTheLogIsCutAtBothEnds(t *testing.T) {
	for name, c := range map[string]struct{ low, high, first, last uint64 }{
		"front":                  {5, 7, 8, 20},
		"before the front":       {1, 7, 8, 20},
		"back":                   {15, 20, 5, 14},
		"after the back":         {15, 99, 5, 14},
		"all":                    {5, 20, 0, 0},
		"more than all":          {1, 99, 0, 0},
		"nothing before it":      {1, 4, 5, 20},
		"nothing after it":       {21, 30, 5, 20},
		"nothing, in that order": {9, 8, 5, 20},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			s := open(t, mem)
			other := s.Group(2)
			require.NoError(t, other.StoreLogs(entries(1, 30, 1)))
			require.NoError(t, s.Group(1).StoreLogs(entries(5, 20, 1)))
			require.NoError(t, s.Group(1).DeleteRange(c.low, c.high))
			requireRange(t, s.Group(1), c.first, c.last)
			requireRange(t, other, 1, 30)
			require.NoError(t, s.Close())
			s = open(t, mem)
			requireRange(t, s.Group(1), c.first, c.last)
			requireRange(t, s.Group(2), 1, 30)
			require.NoError(t, s.Close())
		})
	}
}

func TestStableValues(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem)
	g := s.Group(4)
	v, err := g.Get([]byte("CurrentTerm"))
	require.NoError(t, err)
	require.Nil(t, v)
	n, err := g.GetUint64([]byte("CurrentTerm"))
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, g.SetUint64([]byte("CurrentTerm"), 1<<63))
	require.NoError(t, g.Set([]byte("LastVoteCand"), []byte("n1")))
	s = open(t, mem.Crash())
	g = s.Group(4)
	n, err = g.GetUint64([]byte("CurrentTerm"))
	require.NoError(t, err)
	require.Equal(t, uint64(1<<63), n)
	v, err = g.Get([]byte("LastVoteCand"))
	require.NoError(t, err)
	require.Equal(t, []byte("n1"), v)
	_, err = g.GetUint64([]byte("LastVoteCand"))
	require.Error(t, err)
	_, err = s.Group(5).Get([]byte("LastVoteCand"))
	require.NoError(t, err)
	requireRange(t, g, 0, 0)
}

func TestGroupsAreFoundAgain(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem)
	for _, id := range []kv.GroupID{0, 7, 1<<32 - 1} {
		require.NoError(t, s.Group(id).StoreLogs(entries(1, 3, 1)))
		require.NoError(t, s.Group(id).Set([]byte("a"), nil))
	}
	require.NoError(t, s.Group(8).Set([]byte("a"), nil))
	s = open(t, mem.Crash())
	ids, err := s.Groups()
	require.NoError(t, err)
	require.Equal(t, []kv.GroupID{0, 7, 8, 1<<32 - 1}, ids)
	requireRange(t, s.Group(0), 1, 3)
	requireRange(t, s.Group(8), 0, 0)
}

func TestTheFirstFailedWriteIsFinalAndReportedOnce(t *testing.T) {
	var broken atomic.Bool
	fsys := wrap.NewFaulty(vfs.NewMem(), wrap.FailIf(nil, func(op wrap.Op) bool {
		return broken.Load() && (op.Kind == wrap.OpWrite || op.Kind == wrap.OpSync)
	}))
	failed := make(chan error, 10)
	s, err := Open("logs", Options{FS: fsys, Failed: func(err error) { failed <- err }})
	require.NoError(t, err)
	g := s.Group(0)
	require.NoError(t, g.StoreLogs(entries(1, 5, 1)))
	broken.Store(true)
	require.ErrorIs(t, g.StoreLogs(entries(6, 6, 1)), wrap.ErrInjected)
	broken.Store(false)
	require.ErrorIs(t, g.StoreLogs(entries(6, 6, 1)), wrap.ErrInjected)
	require.ErrorIs(t, g.DeleteRange(5, 5), wrap.ErrInjected)
	require.ErrorIs(t, s.Group(1).SetUint64([]byte("a"), 1), wrap.ErrInjected)
	require.ErrorIs(t, <-failed, wrap.ErrInjected)
	requireRange(t, g, 1, 5)
	require.NoError(t, g.GetLog(5, new(raft.Log)))
	_ = s.Close()
	require.Empty(t, failed)
}

// model is what the logs should have.
type model map[kv.GroupID]*modelLog

type modelLog struct {
	first, last uint64
	term        map[uint64]uint64
}

func (m model) group(id kv.GroupID) *modelLog {
	if m[id] == nil {
		m[id] = &modelLog{term: make(map[uint64]uint64)}
	}
	return m[id]
}

func (m model) check(t *testing.T, s *Store) {
	for id, want := range m {
		g := s.Group(id)
		requireRange(t, g, want.first, want.last)
		for i := want.first; i <= want.last && i > 0; i++ {
			var l raft.Log
			require.NoError(t, g.GetLog(i, &l))
			require.Equal(t, entries(i, i, want.term[i])[0], &l)
		}
	}
}

// step does one random operation on the store and on the model.
func (m model) step(t *testing.T, r *rand.Rand, s *Store, term uint64) {
	id := kv.GroupID(r.IntN(4))
	g, want := s.Group(id), m.group(id)
	switch op := r.IntN(10); {
	case op < 7 || want.last == 0:
		from := want.last + 1
		if want.last == 0 {
			from = 1 + r.Uint64N(50)
			want.first = from
		}
		want.last = from + r.Uint64N(40)
		for i := from; i <= want.last; i++ {
			want.term[i] = term
		}
		store := g.StoreLogs
		if r.IntN(2) == 0 {
			store = g.StoreLogsSoon
		}
		require.NoError(t, store(entries(from, want.last, term)))
	case op == 7: // a conflict
		from := want.first + r.Uint64N(want.last-want.first+1)
		require.NoError(t, g.DeleteRange(from, want.last))
		if want.last = from - 1; from == want.first {
			want.first, want.last = 0, 0
		}
	default: // a snapshot
		to := want.first + r.Uint64N(want.last-want.first+1)
		require.NoError(t, g.DeleteRange(want.first, to))
		if want.first = to + 1; to == want.last {
			want.first, want.last = 0, 0
		}
	}
}

func TestRandomOperationsMatchAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	mem := vfs.NewMem()
	s, m := open(t, mem), model{}
	for round := range 5 {
		for i := range 60 {
			m.step(t, r, s, uint64(round*100+i))
		}
		m.check(t, s)
		for id := range m {
			require.NoError(t, s.Group(id).WaitDurable(t.Context(), math.MaxUint64))
		}
		require.NoError(t, s.Close())
		s = open(t, mem)
		m.check(t, s)
	}
}

// Entries are there after a power cut as soon as StoreLogs has returned, and what was deleted before them is gone.
func TestAcknowledgedEntriesSurviveAPowerCut(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem)
	g := s.Group(1)
	require.NoError(t, g.StoreLogs(entries(1, 40, 1)))
	for i := uint64(41); i < 60; i++ {
		require.NoError(t, g.DeleteRange(i-4, i-1))
		require.NoError(t, g.DeleteRange(1, i/2))
		require.NoError(t, g.StoreLogs(entries(i-4, i, i)))
		for name, left := range map[string]*vfs.Mem{"cut": mem.Crash(), "kill": mem.Kill()} {
			after := open(t, left)
			requireRange(t, after.Group(1), i/2+1, i)
			var l raft.Log
			require.NoError(t, after.Group(1).GetLog(i, &l), name)
			require.Equal(t, i, l.Term)
			require.NoError(t, after.Close())
		}
	}
}

// A reader sees an entry as it was or not at all while others are stored and deleted.
func TestReadersMeetNoDamageWhileTheLogMoves(t *testing.T) {
	s := open(t, vfs.NewMem())
	g := s.Group(1)
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				first, _ := g.FirstIndex()
				last, _ := g.LastIndex()
				for i := first; i <= last; i++ {
					if err := g.GetLog(i, new(raft.Log)); err != nil && !errors.Is(err, raft.ErrLogNotFound) {
						t.Errorf("entry %d: %v", i, err)
						return
					}
				}
			}
		})
	}
	for i := uint64(1); i < 150; i++ {
		require.NoError(t, g.StoreLogsSoon(entries(i*10, i*10+9, i)))
		if i > 20 {
			require.NoError(t, g.DeleteRange(1, (i-20)*10+5))
		}
		require.NoError(t, g.DeleteRange(i*10+5, i*10+9))
		require.NoError(t, g.StoreLogs(entries(i*10+5, i*10+9, i)))
	}
	close(done)
	wg.Wait()
	require.NoError(t, s.Err())
}

// The bug: an entry that a reader looked for during a deletion, and that was stored again before the reader looked
// where the log is now, was taken for a missing one, and the store refused everything from then on.
func TestAnEntryThatIsStoredAgainIsNotMissing(t *testing.T) {
	s := open(t, vfs.NewMem())
	g := s.Group(1)
	require.NoError(t, g.StoreLogs(entries(10, 19, 1)))
	before := g.find(18)
	require.True(t, before.staysUntil(g.find(18)))
	start, limit, err := g.beginDeletion(15, 19)
	require.NoError(t, err)
	during := g.find(18)
	require.False(t, before.staysUntil(during))
	require.NoError(t, g.endDeletion(15, 19, s.deleteRange(start, limit)))
	require.NoError(t, g.StoreLogs(entries(15, 19, 2)))
	after := g.find(18)
	require.False(t, during.staysUntil(after))
	require.False(t, before.staysUntil(after))
	require.True(t, after.staysUntil(g.find(18)))
}

// BenchmarkStoreLogs stores entries of 116 bytes in 64 groups at once, each durable.
func BenchmarkStoreLogs(b *testing.B) {
	for _, groups := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			s, err := Open(b.TempDir(), Options{})
			require.NoError(b, err)
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for id := range groups {
				wg.Go(func() { storeSome(b, s.Group(kv.GroupID(id)), &next) })
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
			b.StopTimer()
			require.NoError(b, s.Close())
		})
	}
}

// storeSome stores entries in a group until all of the benchmark's are stored.
func storeSome(b *testing.B, g *Group, next *atomic.Int64) {
	data := make([]byte, 116)
	for i := uint64(1); next.Add(1) <= int64(b.N); i++ {
		if err := g.StoreLog(&raft.Log{Index: i, Term: 1, Data: data}); err != nil {
			b.Error(err)
			return
		}
	}
}
