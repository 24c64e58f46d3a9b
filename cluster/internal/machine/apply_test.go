package machine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

func TestAnEntryOfAnOldTermIsSkipped(t *testing.T) {
	m := open(t, vfs.NewMem())
	responses := m.ApplyBatch([]*raft.Log{
		command(t, 1, 2, 2, 10, put("a", "1")),
		command(t, 2, 3, 2, 99, put("a", "2")),
		command(t, 3, 3, 3, 5, put("b", "3")),
	})
	require.Equal(t, []any{nil, ErrSuperseded, nil}, responses)
	index, term := m.Applied()
	require.Equal(t, [2]uint64{3, 3}, [2]uint64{index, term})
	require.Equal(t, int64(10), m.Clock(), "the time of a skipped entry does not count, and time does not go back")
	require.NoError(t, m.View(func(r kv.Reader) error {
		v, ok, err := r.Get([]byte("a"))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "1", string(v.Data))
		return nil
	}))
}

func TestAnEntryThatDoesNotFollowTheLastOneIsSkipped(t *testing.T) {
	mem := vfs.NewMem()
	m := open(t, mem)
	responses := m.ApplyBatch([]*raft.Log{
		chained(t, 1, 7, layout.Chain{Term: 7, Epoch: 1}, 1, put("a", "1")),
		chained(t, 2, 7, layout.Chain{Term: 7, Epoch: 1, Number: 2}, 1, put("a", "2")),
	})
	require.Equal(t, []any{nil, ErrSuperseded}, responses)
	closeMachine(t, m)
	m = open(t, mem) // it knows the place of the last entry that counted
	require.Equal(t, layout.Chain{Term: 7, Epoch: 1}, m.Chain())
	responses = m.ApplyBatch([]*raft.Log{
		chained(t, 3, 7, layout.Chain{Term: 7, Epoch: 1, Number: 3}, 1, put("a", "3")),
		chained(t, 4, 7, layout.Chain{Term: 7, Epoch: 1, Number: 1}, 1, put("a", "4")),
		chained(t, 5, 7, layout.Chain{Term: 7, Epoch: 1, Number: 2}, 1, put("b", "5")),
	})
	require.Equal(t, []any{ErrSuperseded, nil, nil}, responses)
	require.Equal(t, layout.Chain{Term: 7, Epoch: 1, Number: 2}, m.Chain())
}

func TestDeleteAllMayWriteKeysAfterwards(t *testing.T) {
	m := open(t, vfs.NewMem())
	fill(t, m, 1, 20)
	payload := command(t, 21, 1, 1, 1, put("new", "1")).Data
	payload[1] = byte(layout.EntryDeleteAll)
	require.Equal(t, []any{nil}, m.ApplyBatch([]*raft.Log{{Index: 21, Term: 1, Data: payload}}))
	require.Len(t, content(t, m), 1)
	require.Nil(t, m.Apply(deleteAll(22, 1)))
	require.Empty(t, content(t, m))
}

func TestAReplayedEntryIsSkipped(t *testing.T) {
	m := open(t, vfs.NewMem())
	m.ApplyBatch([]*raft.Log{command(t, 1, 1, 1, 1, put("a", "1")), command(t, 2, 1, 1, 2, put("a", "2"))})
	require.Equal(t, []any{nil}, m.ApplyBatch([]*raft.Log{command(t, 1, 1, 1, 1, put("a", "1"))}))
	require.Len(t, content(t, m), 1)
	for _, v := range content(t, m) {
		require.Equal(t, "\x002", v)
	}
}

func TestAMachineWithABadEntryHasFailed(t *testing.T) {
	for name, bad := range map[string]*raft.Log{
		"no entry":        {Index: 3, Term: 1, Data: []byte("x")},
		"a bad batch":     {Index: 3, Term: 1, Data: append(command(t, 3, 1, 1, 1).Data, 1)},
		"a configuration": {Index: 3, Term: 1, Type: raft.LogConfiguration, Data: []byte{0xff}},
		"a newer kind":    {Index: 3, Term: 1, Data: append([]byte{1, 99}, make([]byte, 28)...)},
		"no bytes":        {Index: 3, Term: 1},
	} {
		t.Run(name, func(t *testing.T) {
			failed := make(chan error, 9)
			o := smallOptions(vfs.NewMem())
			o.Failed = func(err error) { failed <- err }
			m, err := Open(o)
			require.NoError(t, err)
			waiting := make(chan error, 1)
			go func() { waiting <- m.WaitApplied(context.Background(), 4) }()
			responses := m.ApplyBatch([]*raft.Log{simple(t, 1), simple(t, 2), bad, simple(t, 4)})
			require.Equal(t, []any{nil, nil}, responses[:2])
			require.Error(t, responses[2].(error))
			require.Equal(t, responses[2], responses[3])
			require.Equal(t, responses[2], m.Apply(simple(t, 5)))
			require.ErrorIs(t, <-failed, m.Err())
			require.ErrorIs(t, <-waiting, m.Err())
			_, err = m.Snapshot()
			require.ErrorIs(t, err, m.Err())
			require.ErrorIs(t, m.View(func(kv.Reader) error { return nil }), m.Err())
			require.ErrorIs(t, m.HintsBefore(layout.ExpiryPrefix, 9, 9, nil), m.Err())
			_, err = m.Meta("map")
			require.ErrorIs(t, err, m.Err())
			index, _ := m.Applied()
			require.Equal(t, uint64(2), index)
			closeMachine(t, m)
			require.Empty(t, failed)
		})
	}
}

func TestAMachineWhoseDiskFailsHasFailed(t *testing.T) {
	var broken atomic.Bool
	fsys := wrap.NewFaulty(vfs.NewMem(), wrap.FailIf(nil, func(op wrap.Op) bool {
		return broken.Load() && (op.Kind == wrap.OpWrite || op.Kind == wrap.OpSync)
	}))
	failed := make(chan error, 1)
	o := smallOptions(fsys)
	o.Failed = func(err error) { failed <- err }
	m, err := Open(o)
	require.NoError(t, err)
	fill(t, m, 1, 3)
	s, err := m.Snapshot()
	require.NoError(t, err)
	to, err := m.Snapshots().Create(1, 3, 1, raft.Configuration{}, 0, nil)
	require.NoError(t, err)
	broken.Store(true)
	require.ErrorIs(t, s.Persist(to), wrap.ErrInjected)
	require.ErrorIs(t, <-failed, wrap.ErrInjected)
	require.NoError(t, to.Cancel())
	require.ErrorIs(t, m.Apply(simple(t, 4)).(error), wrap.ErrInjected)
	_ = m.Close()
}

// Barriers have indexes that the machine does not see. raft counts them when it takes a snapshot and cuts the log.
func TestASnapshotAtABarrierIsDurable(t *testing.T) {
	mem := vfs.NewMem()
	m := open(t, mem)
	fill(t, m, 1, 3)
	s, err := m.Snapshot()
	require.NoError(t, err)
	defer s.Release()
	to, err := m.Snapshots().Create(1, 20, 2, raft.Configuration{}, 0, nil)
	require.NoError(t, err)
	require.NoError(t, s.Persist(to))
	require.NoError(t, to.Close())
	m = open(t, mem.Crash())
	list, err := m.Snapshots().List()
	require.NoError(t, err)
	require.Equal(t, to.ID(), list[0].ID)
	require.Equal(t, []uint64{20, 2}, []uint64{list[0].Index, list[0].Term})
	require.NoError(t, m.WaitApplied(t.Context(), 20))
	require.Nil(t, m.Apply(simple(t, 19)), "it is skipped")
}

// The state equals a model after each kill and power cut, and the log is replayed from there.
func TestRandomEntriesWithKillsMatchAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	logs := randomLog(t, r, 600)
	mem := vfs.NewMem()
	m := open(t, mem)
	lost := 0
	for at := 0; at < len(logs); {
		n := min(1+r.IntN(64), len(logs)-at)
		for _, response := range m.ApplyBatch(logs[at : at+n]) {
			require.True(t, response == nil || errors.Is(response.(error), ErrSuperseded), "%v", response)
		}
		at += n
		if r.IntN(4) > 0 {
			continue
		}
		if mem = mem.Kill(); r.IntN(2) == 0 {
			mem = mem.Crash()
		}
		_ = m.Close() // on the file system that is gone
		m = open(t, mem)
		applied, _ := m.Applied()
		want, clock := replay(t, logs, applied)
		require.Equal(t, want, content(t, m), "after entry %d", applied)
		require.Equal(t, clock, m.Clock())
		back := at
		for back > 0 && logs[back-1].Index > applied {
			back--
		}
		lost += at - back
		at = max(0, back-r.IntN(5)) // entries that were applied are shown again
	}
	t.Logf("%d entries were lost and replayed", lost)
	last := logs[len(logs)-1].Index
	want, _ := replay(t, logs, last)
	require.Equal(t, want, content(t, m))
	closeMachine(t, m)
	m = open(t, mem)
	require.Equal(t, want, content(t, m))
}

func TestWaitersAreWokenByTheirIndex(t *testing.T) {
	m := open(t, vfs.NewMem())
	ctx := context.Background()
	results := make(chan error, 100)
	for i := range uint64(50) {
		go func() { results <- m.WaitApplied(ctx, 1+i%5) }()
	}
	fill(t, m, 1, 5)
	for range 50 {
		require.NoError(t, <-results)
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	require.ErrorIs(t, m.WaitApplied(short, 7), context.DeadlineExceeded)
	require.Empty(t, m.waiters.queue)
	go func() { results <- m.WaitApplied(ctx, 100) }()
	closeMachine(t, m)
	require.ErrorIs(t, <-results, kv.ErrClosed)
	require.ErrorIs(t, m.Close(), kv.ErrClosed)
}

// DeleteAll removes tables as a whole, in one step with its entry's index.
func TestDeleteAllOfTablesIsAtomicWithItsIndex(t *testing.T) {
	var logs []*raft.Log
	for i := uint64(1); i <= 900; i++ {
		logs = append(logs, command(t, i, 1, 1, 1, put(fmt.Sprintf("key-%d", i), string(make([]byte, 100)))))
	}
	logs = append(logs, command(t, 901, 1, 1, 1, put("before", "1")), deleteAll(902, 1), command(t, 903, 1, 1, 1, put("after", "1")))
	mem := vfs.NewMem()
	var mu sync.Mutex // guards what the hook shares
	var after []*vfs.Mem
	var watching bool
	fsys := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		mu.Lock()
		defer mu.Unlock()
		if watching && op.Kind != wrap.OpRead && len(after) < 150 {
			after = append(after, mem.Crash(), mem.Kill())
		}
		return nil
	})
	m := open(t, fsys)
	m.ApplyBatch(logs[:900])
	require.NoError(t, m.WithDB(func(d *db.DB) error { return d.Compact(context.Background(), nil, nil) }))
	mu.Lock()
	watching = true
	mu.Unlock()
	require.Equal(t, []any{nil, nil, nil}, m.ApplyBatch(logs[900:]))
	mu.Lock()
	watching = false
	mu.Unlock()
	after = append(after, mem.Crash(), mem.Kill())
	closeMachine(t, m)
	seen := map[uint64]int{}
	for i, left := range after {
		m := open(t, left)
		applied, _ := m.Applied()
		seen[applied]++
		want, _ := replay(t, logs, applied)
		require.Equal(t, want, content(t, m), "moment %d", i)
		m.ApplyBatch(logs[min(applied, 900):])
		require.Len(t, content(t, m), 1)
		closeMachine(t, m)
	}
	t.Logf("%d moments: %v", len(after), seen)
	require.Positive(t, seen[900])
	require.Positive(t, seen[903])
	require.Len(t, seen, 2)
}
