package consensus

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// slowMemory is a store whose entries become durable late while it is held.
type slowMemory struct {
	*memory
	mu      sync.Mutex
	held    bool
	broken  error // nothing more becomes durable
	durable uint64
	changed chan struct{}
}

func newSlowMemory(m *memory) *slowMemory {
	return &slowMemory{memory: m, changed: make(chan struct{})}
}

func (s *slowMemory) hold(held bool) {
	last, _ := s.LastIndex()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held = held; !held {
		s.durable = last
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

func (s *slowMemory) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
	close(s.changed)
	s.changed = make(chan struct{})
}

// StoreLogs is for entries that must be durable, and makes those before them durable.
func (s *slowMemory) StoreLogs(logs []*raft.Log) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.durable = logs[len(logs)-1].Index
	return s.memory.StoreLogs(logs)
}

func (s *slowMemory) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

func (s *slowMemory) StoreLogsSoon(logs []*raft.Log) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held {
		s.durable = logs[len(logs)-1].Index
	}
	return s.memory.StoreLogs(logs)
}

func (s *slowMemory) Durable() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.durable
}

func (s *slowMemory) WaitDurable(ctx context.Context, index uint64) error {
	for {
		s.mu.Lock()
		durable, broken, changed := s.durable, s.broken, s.changed
		s.mu.Unlock()
		if index <= durable {
			return nil
		}
		if broken != nil {
			return broken
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (n *node) hasApplied(entry string) bool {
	entries, _ := n.fsm.state()
	return slices.Contains(entries, entry)
}

// slowLeader returns a cluster whose leader a has such a store, and whose server c is cut off.
func slowLeader(t *testing.T) (c *cluster, disk *slowMemory) {
	c, a := patientLeader(t, func(o *Options) {
		if o.ID == "a" {
			disk = newSlowMemory(o.Logs.(*memory))
			o.Logs = disk
		}
	})
	c.proposeAt(a, "old")
	c.agree([]string{"old"})
	c.net.isolate("c")
	disk.hold(true)
	return c, disk
}

// The leader's disk is slow, and the only other server that it reaches has the entry. If the leader lost its power
// now, the other two could continue without the entry.
func TestNothingIsCommittedThatIsNotDurableAtTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, disk := slowLeader(t)
		a, b := c.node("a"), c.node("b")
		f := a.Propose([]byte("new"))
		index := func(n *node) uint64 { last, _ := n.store.LastIndex(); return last }
		eventually(t, "the entry arrives at b", func() bool { return index(a) == index(b) && index(b) > disk.Durable() })
		eventually(t, "raft believes that it is committed", func() bool { return a.Stats().CommitIndex == index(a) })
		_, _, err := f.Wait(within(t, soon))
		require.ErrorIs(t, err, kv.ErrUnknown, "an early acknowledgement")
		require.False(t, a.hasApplied("new"))
		require.False(t, b.hasApplied("new"))
		require.Less(t, b.Stats().CommitIndex, index(b), "the leader does not announce what is not durable there")
		read, err := a.ReadIndex(within(t, patience))
		require.NoError(t, err, "reads need not wait for the disk")
		require.LessOrEqual(t, read, disk.Durable())
		disk.hold(false)
		_, _, err = f.Wait(within(t, patience))
		require.NoError(t, err)
		c.net.heal()
		c.agree([]string{"old", "new"})
	})
}

// A leader is deposed before its disk has written an entry that its successor has. The successor would count it.
func TestADeposedLeaderMakesItsLogDurableBeforeItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, disk := slowLeader(t)
		a, b := c.node("a"), c.node("b")
		a.Propose([]byte("new"))
		eventually(t, "the entry arrives at b", func() bool { // one of raft's own may come before it
			var entry raft.Log
			last, _ := b.store.LastIndex()
			return last > disk.Durable() && b.store.GetLog(last, &entry) == nil && bytes.Contains(entry.Data, []byte("new"))
		})
		c.net.heal()
		c.net.isolate("a")
		require.Same(t, b, c.leader(a), "c does not have the entry")
		c.propose("newer", a)
		c.net.heal()
		answered := func() bool {
			b.trans.acks.mu.Lock()
			defer b.trans.acks.mu.Unlock()
			return b.trans.acks.last["a"].term == b.Term()
		}
		c.propose("newest", a)
		require.False(t, answered())
		disk.hold(false)
		eventually(t, "the deposed leader answers", answered)
		c.agree([]string{"old", "new", "newer", "newest"})
	})
}

// Raft counts entries as applied that the state did not get, because the log failed. A snapshot up to them would make
// the replica forget them: the log before a snapshot is deleted, and the state would have a hole for ever.
func TestNoSnapshotHasEntriesThatTheStateDidNotGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, disk := slowLeader(t)
		a := c.node("a")
		_, applied := a.fsm.state()
		f := a.Propose([]byte("new"))
		eventually(t, "raft believes that the entry is applied", func() bool { return a.Stats().AppliedIndex > applied })
		disk.fail(errors.New("the disk is broken"))
		_, response, err := f.Wait(within(t, patience))
		require.NoError(t, err)
		require.ErrorIs(t, response.(error), kv.ErrUnknown)
		require.ErrorContains(t, a.Snapshot(within(t, patience)), "the disk is broken")
		snapshots, err := a.fsm.List()
		require.NoError(t, err)
		require.Empty(t, snapshots)
	})
}

// Raft continues after entries were withheld from the state. It must not get those that follow.
func TestTheStateGetsNothingAfterEntriesThatWereWithheld(t *testing.T) {
	disk, state := newSlowMemory(&memory{InmemStore: raft.NewInmemStore()}), &recorder{}
	logs := newLogStore(disk, func() bool { return true })
	ctx, closeGroup := context.WithCancel(t.Context())
	m := &durableMachine{BatchingFSM: state, logs: logs, ctx: ctx}
	store := func(index uint64) []*raft.Log {
		entries := []*raft.Log{{Index: index, Data: []byte{byte('0' + index)}}}
		require.NoError(t, logs.StoreLogs(entries))
		return entries
	}
	require.Equal(t, []any{1}, m.ApplyBatch(store(1)))
	disk.hold(true)
	second, third := store(2), store(3)
	closeGroup()
	require.ErrorIs(t, m.ApplyBatch(second)[0].(error), kv.ErrUnknown)
	disk.hold(false)
	require.NoError(t, disk.WaitDurable(t.Context(), 3))
	withheld, _ := m.ApplyBatch(third)[0].(error)
	require.ErrorIs(t, withheld, kv.ErrUnknown)
	_, err := m.Snapshot()
	require.ErrorIs(t, err, context.Canceled)
	entries, applied := state.state()
	require.Equal(t, []string{"1"}, entries)
	require.EqualValues(t, 1, applied)
}

// Configurations and the entries that begin a term decide how raft continues, by its own commit index.
func TestOnlyCommandsOfLeadersAreStoredSoon(t *testing.T) {
	disk := newSlowMemory(&memory{InmemStore: raft.NewInmemStore()})
	disk.hold(true)
	leads := true
	l := newLogStore(disk, func() bool { return leads })
	command, noop := raft.LogCommand, raft.LogNoop
	store := func(types ...raft.LogType) (durable bool) {
		var logs []*raft.Log
		last, err := disk.LastIndex()
		require.NoError(t, err)
		for _, kind := range types {
			last++
			logs = append(logs, &raft.Log{Index: last, Type: kind})
		}
		require.NoError(t, l.StoreLogs(logs))
		return disk.Durable() == last
	}
	require.False(t, store(command))
	require.EqualValues(t, 0, l.announced(1))
	require.True(t, store(noop), "and all before it")
	require.False(t, store(command, command))
	require.True(t, store(command, raft.LogConfiguration))
	require.True(t, store(raft.LogBarrier))
	leads = false
	require.True(t, store(command), "followers answer after StoreLogs")
	require.EqualValues(t, 5, l.announced(5))
}
