package node

import (
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/overview"
	"github.com/sievedb/sievedb/report"
)

// look waits until an overview of a node meets a condition.
func (f *fleet) look(n *Node, condition func(o overview.Overview) bool) (o overview.Overview) {
	f.t.Helper()
	f.eventually(func() error {
		if o = n.Overview(f.ctx); !condition(o) {
			text, err := json.Marshal(o)
			require.NoError(f.t, err)
			return errors.New(string(text))
		}
		return nil
	})
	return o
}

func worst(severity overview.Severity) func(o overview.Overview) bool {
	return func(o overview.Overview) bool { return len(o.Findings) > 0 && o.Findings[0].Severity == severity }
}

func TestAnOverviewShowsWhatSilentNodesSaidLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 4)
		f.nodes["1"].SetClients(func() (int64, int64) { return 1, 7 })
		f.writeSome("some", 20)
		well := f.look(f.nodes["1"], func(o overview.Overview) bool { return len(o.Findings) == 0 && o.Answering() == 3 && o.Led() == 4 })
		for _, node := range well.Nodes {
			require.True(t, node.Answered)
			require.Equal(t, overview.Up, node.State)
			require.Equal(t, 4, node.Replicas)
			require.NotEmpty(t, node.Figures.Version)
			require.Equal(t, int64(1<<40), node.Figures.DiskFreeBytes)
			require.Equal(t, int64(256<<20), node.Figures.DiskReserveBytes)
			require.Positive(t, node.Figures.MemoryBytes)
			require.Equal(t, node.ID == "1", node.Figures.Clients == 7)
		}
		require.Regexp(t, `used_memory:\d+\r\nused_memory_human:\d+\.\d\dM\r\nused_memory_rss:\d+`, f.nodes["1"].Info("memory"))
		for _, g := range well.Groups {
			require.Len(t, g.Replicas, 3)
			for _, r := range g.Replicas {
				require.True(t, r.Works() && r.Voter)
				require.Positive(t, r.Applied)
				require.GreaterOrEqual(t, r.Last, r.Applied)
			}
		}

		f.crash("3")
		time.Sleep(10 * time.Millisecond)
		one := f.look(f.nodes["1"], func(o overview.Overview) bool { // at first, a connection of before may end
			return worst(overview.Warning)(o) && o.Led() == 4 && o.Nodes[2].Why == "connection refused"
		})
		dead := one.Nodes[2]
		require.Equal(t, overview.Silent, dead.State)
		require.Equal(t, well.Nodes[2].Figures.Version, dead.Figures.Version)
		require.Positive(t, dead.FiguresAgeMs)
		require.Equal(t, overview.KindSilent, one.Findings[0].Kind)

		f.crash("2")
		two := f.look(f.nodes["1"], func(o overview.Overview) bool { return worst(overview.Critical)(o) && o.Led() == 0 })
		require.Len(t, two.Findings, 1, "one for all groups")
		require.Regexp(t, "^No reads and no writes( through node 1)?: 2 of 3 nodes are silent", two.Findings[0].Text)
		require.Contains(t, two.Findings[0].Next, "sieved recover --id 1")
		for i, g := range two.Groups {
			at := slices.IndexFunc(well.Groups[i].Replicas, func(r overview.Replica) bool { return r.Node == "1" })
			require.GreaterOrEqual(t, g.Commit, well.Groups[i].Replicas[at].Applied, "the leader may have known of more")
			for _, r := range g.Replicas {
				require.Positive(t, r.Applied, "also that of a silent one")
				require.Equal(t, r.Node == "1", r.AgeMs == 0)
			}
		}
	})
}

// mute is a connection whose reads give nothing while quiet is set, as those of a process that is paused.
type mute struct {
	net.Conn
	quiet *atomic.Bool
}

func (m mute) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	for m.quiet.Load() && err == nil {
		n, err = m.Conn.Read(p) // what came is lost
	}
	return n, err
}

func TestAPausedNodeIsSilentAfterAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.start("1")
		var quiet atomic.Bool
		f.o.Accepted = func(c net.Conn) net.Conn { return mute{c, &quiet} }
		f.start("2")
		f.settled(2)
		f.look(f.nodes["1"], func(o overview.Overview) bool { return o.Answering() == 2 })
		quiet.Store(true)
		begin := time.Now()
		o := f.nodes["1"].Overview(f.ctx)
		require.Equal(t, 1, o.Answering())
		require.Contains(t, o.Nodes[1].Why, "no answer in")
		require.GreaterOrEqual(t, time.Since(begin), f.o.Timing.Heartbeat)
		require.Equal(t, overview.KindNoMajority, o.Findings[0].Kind)
		quiet.Store(false)
		f.look(f.nodes["1"], func(o overview.Overview) bool { return o.Answering() == 2 && o.Led() == 1 })
	})
}

func TestOperatorsGetLabelledLinesAndJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.o.Zone = "rack 1"
		n := f.start("1")
		f.settled(1)
		ask := func(words ...string) any {
			reply, err := f.operate("1", words...)
			require.NoError(t, err)
			return reply
		}
		nodes := ask("RAFT.NODES").([]any)
		require.Len(t, nodes, 1)
		require.Equal(t, "node=1 state=up addr="+n.Addr()+" zone=\"rack 1\" incarnation=1 silent_ms=0 leads=1 replicas=1", nodes[0])
		require.Equal(t, []any{"group=0 first=0 last=16383 leader=1 voters=1"}, ask("RAFT.GROUPS"))
		var o overview.Overview
		require.NoError(t, json.Unmarshal(ask("RAFT.OVERVIEW").([]byte), &o))
		require.Equal(t, "1", o.Nodes[0].ID)
		require.Equal(t, overview.KindFewNodes, o.Findings[0].Kind)
		require.Contains(t, ask("RAFT.STATUS", "0").([]byte), byte(':'))
		require.True(t, strings.HasPrefix(string(ask("RAFT.STATUS", "0").([]byte)), "group:0"))
	})
}

func TestRatesAreOfTheLastSeconds(t *testing.T) {
	var v vitals
	at := time.Now()
	for second := range 30 {
		first := v.since(sample{at: at.Add(time.Duration(second) * time.Second), commands: int64(second)})
		age := time.Duration(second-int(first.commands)) * time.Second
		require.LessOrEqual(t, age, sampleWindow+sampleEvery)
		require.True(t, second < 11 && first.commands == 0 || age >= sampleWindow-sampleEvery, "%d: %v", second, age)
	}
	require.LessOrEqual(t, len(v.samples), int(sampleWindow/sampleEvery)+2)

	old := report.LatencyHistogram{Count: 3, Buckets: []report.LatencyBucket{{From: 1, To: 2, Count: 2},
		{From: 100, To: 110, Count: 1}}}
	now := report.LatencyHistogram{Count: 5, Buckets: []report.LatencyBucket{{From: 1, To: 2, Count: 4},
		{From: 100, To: 110, Count: 1}}}
	recent := newer(&now, &old)
	require.Equal(t, uint64(2), recent.Count)
	require.Equal(t, time.Duration(1), recent.Quantile(1), "the slow one was before")
	again := newer(&old, &now)
	require.Equal(t, old, again, "another database has begun to count anew")
}

// A follower believes in a leader until its time is over, also in one that has answered that it leads no more.
func TestAnOverviewHasTheLeadersAndServersThatNodesName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 1)
		n := f.nodes["1"]
		f.look(n, func(o overview.Overview) bool { return len(o.Findings) == 0 && o.Led() == 1 })
		m := n.atlas.chart()
		sights := n.lookAround(f.ctx, m)
		well := n.describeGroup(0, m, sights, time.Now())
		require.NotEmpty(t, well.Leader)
		require.Positive(t, well.Term)
		for _, r := range well.Replicas {
			require.Positive(t, r.LastTerm)
		}
		delete(sights[kv.NodeID(well.Leader)].view.Status.Groups, 0)
		require.NotEmpty(t, n.leader(0), "what this node believes")
		require.Empty(t, n.describeGroup(0, m, sights, time.Now()).Leader)

		// A node that has started without a working replica knows nothing about the group, and said for ever that an
		// election runs, also if it is the only node.
		require.Len(t, serversSeen(0, m, sights), 3, "as the replicas know them")
		for _, s := range sights {
			s.view.Logs, s.view.Status.Groups = nil, nil
		}
		require.Len(t, serversSeen(0, m, sights), 3, "as the nodes host them")
	})
}

// Status showed 59 bytes for nodes that had no replica yet when they measured.
func TestTheDiskOfANodeIsUnknownUntilAReplicaWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		n := f.start("1")
		f.eventually(func() error { // long before measureEvery
			if n.Figures().DiskUsedBytes == 0 {
				return errors.New("the disk is not measured")
			}
			return nil
		})
		n.closing.Store(true) // nothing opens the replica again
		require.NoError(t, n.places[0].close(kv.ErrClosed))
		require.Zero(t, n.usedBytes())
	})
}
