package nemesis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/consensus"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

// patient is the node that keeps its leaderships for lease although it hears nothing, as a process does whose timers
// stop while it is paused. Then only the verification of reads is between it and stale ones. It is not the first node,
// which would wait as long before it elects itself.
const (
	patient = kv.NodeID("n2")
	lease   = 10 * heartbeat
)

func bePatient(m *member, o *consensus.Options) {
	if m.id != patient {
		return
	}
	o.Timing.Heartbeat, o.Timing.Lease = lease, lease
	o.Timing.Election, o.Timing.Commit = lease, heartbeat/20 // so that followers hear from it often
}

// spread makes the patient node the leader of group 1 only: a balanced cluster does not move leaderships by itself.
func (c *testCluster) spread() *member {
	c.t.Helper()
	m, other := c.members[1], c.members[0]
	require.Eventually(c.t, func() bool {
		if m.leads(1) && other.leads(0) {
			return m.probe(1) == nil
		}
		_ = other.operate("RAFT.TRANSFER", "0", string(other.id))
		_ = m.operate("RAFT.TRANSFER", "1", string(m.id))
		return false
	}, recovery, 20*time.Millisecond, "%s does not lead group 1", m.id)
	return m
}

// oldAcknowledgements does to the patient leader what a pause does to a process: requests and the acknowledgements of
// its followers wait in its sockets while the others elect a successor and serve writes. Then it continues with the
// requests, and the acknowledgements arrive.
func oldAcknowledgements(c *testCluster, _ *rand.Rand) (string, error) {
	m := c.spread()
	time.Sleep(heartbeat / 2) // clients find it
	in, out := between(c.others(m), []*member{m}), between([]*member{m}, c.others(m))
	m.host.freeze()
	time.Sleep(heartbeat / 5) // reads that have begun end
	c.net.cutLinks(in...)
	time.Sleep(heartbeat / 5) // messages are answered, and the answers are held
	c.net.cutLinks(out...)
	time.Sleep(6 * heartbeat)
	m.host.thaw()
	time.Sleep(heartbeat / 10) // reads begin
	believed := m.leads(1)
	c.net.mendLinks(in...)
	time.Sleep(heartbeat / 2)
	c.net.heal(true)
	return fmt.Sprintf("%s believed that it leads: %t", m.id, believed), nil
}

func TestOldAcknowledgementsVerifyNoReads(t *testing.T) {
	t.Parallel()
	faults := []fault[*testCluster]{{"old acknowledgements arrive", oldAcknowledgements}}
	// Many commands end unknown. Registers are what the checker decides fast in spite of them.
	load := func() *Workload {
		return &Workload{Clients: 24, Think: 10 * time.Millisecond, Kinds: []kind{registers}, Tags: 6}
	}
	require.NoError(t, runDecided(t, faults, setup{raft: bePatient}, load))
}

// runDecided runs faults on new nodes, and returns what the checker says. It repeats a run about which nothing was found
// out, because many operations had unknown ends: such a run says nothing.
func runDecided(t *testing.T, faults []fault[*testCluster], p setup, load func() *Workload) error {
	t.Helper()
	const most = 5
	err := errUndecided
	for tries := 0; errors.Is(err, errUndecided) && tries < most; tries++ {
		dir := artifacts(t)
		c := newCluster(t, 3, 3, dir, p)
		h := runLoad(t, c, load(), faults)
		c.abandon()
		err = h.Check(patience/most, dir)
	}
	return err
}

// stalling is a state machine that stops while stalled is set.
type stalling struct {
	raft.BatchingFSM
	stalled *atomic.Bool
}

func (s stalling) ApplyBatch(logs []*raft.Log) []any {
	for s.stalled.Load() {
		time.Sleep(time.Millisecond)
	}
	return s.BatchingFSM.ApplyBatch(logs)
}

// vain is a Stream over which no leadership is handed over while stalled is set: the message that a server should take
// it is lost after a while.
type vain struct {
	consensus.Stream
	stalled *atomic.Bool
}

func (s vain) Dial(ctx context.Context, server, addr string) (net.Conn, error) {
	c, err := s.Stream.Dial(ctx, server, addr)
	if err != nil {
		return nil, err
	}
	return vainConn{c, s.stalled}, nil
}

type vainConn struct {
	net.Conn
	stalled *atomic.Bool
}

func (c vainConn) Write(p []byte) (int, error) {
	const timeoutNow = 3 // the first byte of raft's message
	if c.stalled.Load() && p[0] == timeoutNow {
		time.Sleep(heartbeat)
		return 0, errors.New("lost")
	}
	return c.Conn.Write(p)
}

// refusals lets a leader refuse some entries and accept those that follow, before it knows of the refusal: its state
// machine stops while a transfer of the leadership fails.
func refusals(stalled *atomic.Bool) func(c *testCluster, rnd *rand.Rand) (string, error) {
	return func(c *testCluster, rnd *rand.Rand) (string, error) {
		m := c.anyLeader(rnd)
		var group int
		for group = range groups {
			if m.leads(kv.GroupID(group)) {
				break
			}
		}
		to := c.others(m)[rnd.IntN(len(c.members)-1)]
		stalled.Store(true)
		time.Sleep(heartbeat / 10) // entries are accepted
		begin := time.Now()
		err := m.operate("RAFT.TRANSFER", fmt.Sprint(group), string(to.id))
		took := time.Since(begin)
		time.Sleep(heartbeat / 2) // entries are accepted again
		stalled.Store(false)
		return fmt.Sprintf("group %d, from %s to %s: %v after %s", group, m.id, to.id, err, took), nil
	}
}

func TestEntriesThatDoNotContinueTheOnesBeforeDoNotCount(t *testing.T) {
	t.Parallel()
	load := func() *Workload {
		return &Workload{Clients: 96, Think: 300 * time.Millisecond, Kinds: []kind{lists, counters}, Tags: 4}
	}
	var stalled atomic.Bool
	faults := []fault[*testCluster]{
		{"entries are refused", refusals(&stalled)}, {"entries are refused again", refusals(&stalled)},
	}
	require.NoError(t, runDecided(t, faults, setup{raft: func(_ *member, o *consensus.Options) {
		o.Stream = vain{o.Stream, &stalled}
		o.FSM = stalling{o.FSM, &stalled}
	}}, load))
}

// restoring counts the snapshots that a state machine restores.
type restoring struct {
	raft.BatchingFSM
	count *atomic.Int64
}

func (r restoring) Restore(data io.ReadCloser) error {
	r.count.Add(1)
	return r.BatchingFSM.Restore(data)
}

// opening counts the snapshots that leaders open to send them.
type opening struct {
	raft.SnapshotStore
	count *atomic.Int64
}

func (o opening) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	o.count.Add(1)
	return o.SnapshotStore.Open(id)
}

// livelock is how many snapshots a replica restores, one after the other, before it counts as one that never follows
// the log again. Without a fault one suffices, or two if the leader changes.
const livelock = 10

// A leader is isolated that has many entries which are not committed. The others commit fewer, and shorten their logs.
// The old leader must not restore snapshots for ever. Each has all that is applied at the sender, so it would not do to
// see whether writes arrive.
func TestAReplicaDoesNotRestoreSnapshotsForEver(t *testing.T) {
	t.Parallel()
	const group = 1 // the map of the cluster is in group 0, and grows by itself
	var count, opened atomic.Int64
	c := newCluster(t, 3, 3, artifacts(t), setup{trailing: 1, raft: func(m *member, o *consensus.Options) {
		bePatient(m, o)
		o.Timing.RPC = 2 * heartbeat
		if o.Group == group {
			o.Snapshots = opening{o.Snapshots, &opened}
			if m.id == patient {
				o.FSM = restoring{o.FSM, &count}
			}
		}
	}})
	defer c.abandon()
	old := c.spread()
	key := []byte(probeKey(group, groups))
	g, ok := old.node.Group(slot.Of(key))
	require.True(t, ok)
	c.net.cutLinks(c.around(old)...)
	for range 200 {
		_, err := g.Update(t.Context(), func(tx kv.Tx) error {
			tx.Put(key, kv.Value{Data: []byte("lost")})
			return nil
		})
		require.NoError(t, err)
	}
	put := func(text string) {
		require.Eventually(t, func() bool {
			for _, m := range c.others(old) {
				if m.leads(group) && m.put(group, text) == nil {
					return true
				}
			}
			return false
		}, recovery, 10*time.Millisecond, "no node accepts a write")
	}
	has := func(m *member, text string) bool {
		g, _ := m.node.Group(slot.Of(key))
		found := false
		err := g.View(t.Context(), true, func(r kv.Reader) error {
			v, _, err := r.Get(key)
			found = string(v.Data) == text
			return err
		})
		return err == nil && found
	}
	// Messages with entries from before the snapshot would repair the log. A leader that was elected after the
	// snapshots believes that the other log continues where its own ends, and sends entries, until there is another
	// snapshot.
	before := opened.Load()
	for attempt := 0; attempt < 20 && opened.Load() == before; attempt++ {
		put(fmt.Sprint("committed ", attempt))
		for _, m := range c.others(old) {
			require.Eventually(t, func() bool { return has(m, fmt.Sprint("committed ", attempt)) }, recovery, 10*time.Millisecond)
			require.NoError(t, m.operate("RAFT.SNAPSHOT", fmt.Sprint(group)))
		}
		for end := time.Now().Add(8 * heartbeat); opened.Load() == before && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
	}
	require.Greater(t, opened.Load(), before, "the leader sends no snapshot")
	count.Store(0)
	c.net.heal(true)
	require.Eventually(t, func() bool { return count.Load() > 0 }, recovery, time.Millisecond, "no snapshot arrives")
	put("newest")
	last, since := count.Load(), time.Now()
	require.Eventually(t, func() bool {
		if now := count.Load(); now != last {
			last, since = now, time.Now()
		}
		return last >= livelock || has(old, "newest") && time.Since(since) > 8*heartbeat
	}, recovery, time.Millisecond, "the newest write does not arrive")
	require.Less(t, last, int64(livelock), "the replica restores snapshots for ever")
}
