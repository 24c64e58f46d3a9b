package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// gate holds those who pass while it is closed, and refuses writes while it is reserved.
type gate struct{ closed, reserved atomic.Bool }

func (g *gate) pass() {
	for g.closed.Load() {
		time.Sleep(time.Millisecond)
	}
}

// held is a group whose commands are evaluated at once, and confirmed only after the gate is open: what a long command
// does to those behind it in a pipeline. Commands that write are refused meanwhile, since what is evaluated after a
// write waits for it.
type held struct {
	kv.Group
	gate *gate
}

type heldPending struct {
	kv.Pending
	gate *gate
}

// noted notes whether a command writes.
type noted struct {
	kv.Tx
	wrote bool
}

func (n *noted) Put(key []byte, v kv.Value) {
	n.wrote = true
	n.Tx.Put(key, v)
}

func (n *noted) Delete(key []byte) {
	n.wrote = true
	n.Tx.Delete(key)
}

func (h held) Update(ctx context.Context, f func(kv.Tx) error) (kv.Pending, error) {
	p, err := h.Group.Update(ctx, func(tx kv.Tx) error {
		n := &noted{Tx: tx}
		if err := f(n); err != nil || !n.wrote || !h.gate.reserved.Load() {
			return err
		}
		return kv.ErrNoQuorum
	})
	return heldPending{p, h.gate}, err
}

func (p heldPending) Wait(ctx context.Context) error {
	p.gate.pass()
	return p.Pending.Wait(ctx)
}

// wrapped is a cluster whose groups are wrapped.
type wrapped struct {
	kv.Cluster
	group func(kv.Group) kv.Group
}

func (w wrapped) Group(slot uint16) (kv.Group, bool) {
	g, ok := w.Cluster.Group(slot)
	if ok {
		g = w.group(g)
	}
	return g, ok
}

// overtaking is a test in which a leader is overtaken.
type overtaking struct{ gate }

// load has many clients: each has one command in flight, and most commands wait while links are cut.
func (o *overtaking) load() *Workload {
	return &Workload{Clients: 32, Think: 10 * time.Millisecond, Kinds: []kind{conditions}, Tags: 12}
}

func (o *overtaking) faults() []fault[*testCluster] {
	return []fault[*testCluster]{
		{"a leader is overtaken and elected again", o.overtake}, {"a leader is overtaken once more", o.overtake},
	}
}

// setup holds what the patient node confirms.
func (o *overtaking) setup() setup {
	return setup{raft: bePatient, wrap: func(c kv.Cluster) kv.Cluster {
		if c.Self().ID != patient {
			return c
		}
		return wrapped{c, func(group kv.Group) kv.Group { return held{group, &o.gate} }}
	}}
}

// overtake lets a leader evaluate commands after a successor has acknowledged writes, and then elects it again before
// it confirms them.
func (o *overtaking) overtake(c *testCluster, _ *rand.Rand) (string, error) {
	m := c.spread()
	time.Sleep(heartbeat / 2) // clients find it
	o.reserved.Store(true)
	time.Sleep(heartbeat / 5) // writes end
	c.net.cutLinks(c.around(m)...)
	other := c.successor(m)
	time.Sleep(heartbeat / 2) // it acknowledges writes
	o.closed.Store(true)
	c.clients.Stay(m.addr)
	time.Sleep(heartbeat / 2) // commands are evaluated
	believed := m.leads(1)
	c.net.heal(false)
	again := c.leadsAgain(m, other)
	o.closed.Store(false)
	time.Sleep(heartbeat / 5) // commands are confirmed
	o.reserved.Store(false)
	c.clients.Stay("")
	time.Sleep(heartbeat / 2)
	return fmt.Sprintf("%s believed that it leads: %t; it leads again: %t", m.id, believed, again), nil
}

// successor waits until another node than m leads group 1, and returns it.
func (c *testCluster) successor(m *member) (other *member) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		for _, other = range c.others(m) {
			if other.leads(1) && other.probe(1) == nil {
				return true
			}
		}
		return false
	}, recovery, 5*time.Millisecond, "group 1 has no successor of %s", m.id)
	return other
}

// leadsAgain gives the leadership of group 1 back to m, and reports whether that was fast enough for clients that wait.
func (c *testCluster) leadsAgain(m, from *member) bool {
	for deadline := time.Now().Add(2 * heartbeat); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if !from.leads(1) && m.leads(1) {
			return true
		}
		_ = from.operate("RAFT.TRANSFER", "1", string(m.id))
	}
	return false
}

func TestCommandsAreConfirmedInTheTermInWhichTheyWereEvaluated(t *testing.T) {
	t.Parallel()
	var o overtaking
	require.NoError(t, runDecided(t, o.faults(), o.setup(), o.load))
}
