package node

// The benchmarks of this file measure what docs/cluster-performance.md calculates with. That page has their commands.

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/cluster/internal/machine"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/db"
)

// trio is a fleet of three nodes with real disks, connections and the default times.
type trio struct {
	*fleet
	writes atomic.Int64 // calls of Write on connections between nodes
	bytes  atomic.Int64
}

func newTrio(b *testing.B, groups int) *trio {
	dir := b.TempDir() // before the fleet, so that it is removed after the nodes have ended
	t := &trio{fleet: newFleet(b, groups)}
	count := func(c net.Conn) net.Conn { return &countedConn{c, t} }
	t.ctx, t.dir = context.Background(), dir
	t.o = Options{
		Listen: "127.0.0.1:0", Groups: groups, Logger: slog.New(slog.DiscardHandler), Accepted: count,
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			return count(c), nil
		},
	}
	for _, id := range []kv.NodeID{"1", "2", "3"} {
		t.start(id)
	}
	t.wait(func(n *Node) error {
		leads := 0
		for _, p := range n.places {
			if h := p.get(); h == nil || len(voters(h.servers())) != 3 || h.log.Leader() == "" {
				return fmt.Errorf("node %s: group %d is not complete", n.o.ID, p.id)
			}
			if p.get().replica.Leading() {
				leads++
			}
		}
		if leads < groups/3 {
			return fmt.Errorf("node %s leads %d of %d groups", n.o.ID, leads, groups)
		}
		return nil
	})
	return t
}

type countedConn struct {
	net.Conn
	t *trio
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.t.writes.Add(1)
	c.t.bytes.Add(int64(len(p)))
	return c.Conn.Write(p)
}

// wait waits until a condition is true of each node.
func (t *trio) wait(condition func(n *Node) error) {
	t.eventually(func() error {
		for _, n := range t.nodes {
			if err := condition(n); err != nil {
				return err
			}
		}
		return nil
	})
}

// usage is what this process uses.
type usage struct {
	heap, goroutines, descriptors float64
	cpu                           time.Duration
}

func measure(b *testing.B) (u usage) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(b, err)
	u.heap, u.goroutines, u.descriptors = float64(m.HeapAlloc), float64(runtime.NumGoroutine()), float64(len(files))
	u.cpu = processorTime(b)
	return u
}

// processorTime is what this process has used: the fields 14 and 15 of proc_pid_stat(5), in 100ths of a second.
func processorTime(b *testing.B) time.Duration {
	text, err := os.ReadFile("/proc/self/stat")
	require.NoError(b, err)
	after := text[bytes.LastIndexByte(text, ')')+1:]
	var state string
	var skip, user, system int64
	_, err = fmt.Sscan(string(after), &state, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip,
		&user, &system)
	require.NoError(b, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// What an idle replica uses, as a share of three nodes in one process.
func BenchmarkIdleReplicas(b *testing.B) {
	for _, groups := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			before := measure(b)
			began := time.Now()
			t := newTrio(b, groups)
			placed := time.Since(began)
			replicas := float64(3 * groups)
			time.Sleep(5 * time.Second) // what followed the start has ended
			used := measure(b)
			t.writes.Store(0)
			t.bytes.Store(0)
			const idle = 20 * time.Second
			for b.Loop() {
				time.Sleep(idle)
			}
			loops := float64(b.N) * idle.Seconds()
			b.ReportMetric(placed.Seconds(), "s-until-placed")
			b.ReportMetric((used.heap-before.heap)/1024/replicas, "heap-KiB/replica")
			b.ReportMetric((used.goroutines-before.goroutines)/replicas, "goroutines/replica")
			b.ReportMetric((used.descriptors-before.descriptors)/replicas, "descriptors/replica")
			b.ReportMetric(float64((processorTime(b)-used.cpu).Milliseconds())/3/loops, "cpu-ms/s/node")
			b.ReportMetric(float64(t.writes.Load())/loops/float64(groups), "messages/s/group")
			b.ReportMetric(float64(t.bytes.Load())/loops/float64(groups), "B/s/group")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// The time from the crash of a node until its groups have leaders, and from its start until it serves.
func BenchmarkDeathAndRestart(b *testing.B) {
	for _, groups := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			t := newTrio(b, groups)
			ctx := context.Background()
			for i := range 200 {
				for _, n := range t.nodes {
					if g, ok := n.Group(slot.Of([]byte(fmt.Sprint(i)))); ok && g.(interface{ Leading() bool }).Leading() {
						require.NoError(b, put(ctx, g, "v", fmt.Sprint(i)))
					}
				}
			}
			var led, opened, ready time.Duration
			for b.Loop() {
				t.crash("3")
				began := time.Now()
				t.wait(func(n *Node) error { return ledByOthers(n, "3") })
				led += time.Since(began)
				began = time.Now()
				n := t.start("3")
				opened += time.Since(began)
				require.NoError(b, n.Ready(ctx))
				ready += time.Since(began)
				t.wait(func(n *Node) error {
					if h := n.Health(); len(h.Problems) > 0 {
						return fmt.Errorf("%q", h.Problems)
					}
					return nil
				})
			}
			b.ReportMetric(float64(led.Milliseconds())/float64(b.N), "ms-leaderless")
			b.ReportMetric(float64(opened.Milliseconds())/float64(b.N), "ms-open")
			b.ReportMetric(float64(ready.Milliseconds())/float64(b.N), "ms-ready")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func ledByOthers(n *Node, id kv.NodeID) error {
	for _, p := range n.places {
		if leader := n.leader(p.id); leader == "" || nodeOf(leader) == id {
			return fmt.Errorf("group %d has the leader %q", p.id, leader)
		}
	}
	return nil
}

// large is what a node of a cluster of a size knows, with groups of three replicas that are placed by plan.
func large(nodes, zones int) (*Map, map[kv.GroupID]groupNews) {
	m := &Map{Version: 1000, Cluster: "0123456789abcdef", Groups: MaxGroups, Replicas: 3}
	for i := range nodes {
		m.Nodes = append(m.Nodes, Member{
			ID: kv.NodeID(fmt.Sprintf("node-%04d", i)), Addr: fmt.Sprintf("10.0.%d.%d:7001", i/256, i%256),
			Zone: fmt.Sprintf("zone-%d", i%zones), Incarnation: 1,
		})
	}
	groups := map[kv.GroupID]groupNews{}
	for group := range kv.GroupID(MaxGroups) {
		var servers []server
		for i := range 3 {
			servers = append(servers, server{m.Nodes[(int(group)*3+i)%nodes].Server(), true})
		}
		groups[group] = groupNews{Term: 17, Index: 123456789, Leader: servers[0].ID, Servers: servers}
	}
	return m, groups
}

// An exchange of news: what a node encodes, sends, and decodes.
func BenchmarkGossip(b *testing.B) {
	for _, nodes := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			m, groups := large(nodes, 3)
			g := gossip{Cluster: m.Cluster, From: m.Nodes[0], Map: m, Groups: groups, Signs: map[kv.NodeID]sign{}}
			for _, member := range m.Nodes {
				g.Signs[member.ID] = sign{Milliseconds: rand.Int64N(20000)}
			}
			var size int
			for b.Loop() {
				text, err := json.Marshal(g)
				require.NoError(b, err)
				size = len(text)
				var back gossip
				require.NoError(b, json.Unmarshal(text, &back))
			}
			b.ReportMetric(float64(size), "B/message")
			b.ReportMetric(float64(len(m.encode())), "B/map")
		})
	}
}

// How many exchanges pass until a node's sign of life has reached the others. Each node asks a random other one in
// each round, and learns what that knows; this is a model, with the rules of hearNews and onGossip.
func BenchmarkNewsSpread(b *testing.B) {
	for _, nodes := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			age := make([][]int16, nodes) // age[i][j]: how many rounds ago i has heard of j
			for i := range age {
				age[i] = make([]int16, nodes)
			}
			var all []int16
			for b.Loop() {
				for range 60 {
					exchangeNews(age, r)
				}
				all = all[:0]
				for i := range age {
					all = append(all, age[i]...)
				}
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2]), "rounds-median")
			b.ReportMetric(float64(all[len(all)-1]), "rounds-max")
		})
	}
}

// What the leader of group 0 does in each round: it plans for all nodes, and decodes their status.
func BenchmarkPlacement(b *testing.B) {
	for _, nodes := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			m, groups := large(nodes, 3)
			s := situation{
				Map: m, Age: map[kv.NodeID]time.Duration{}, Full: map[kv.NodeID]bool{}, Groups: map[kv.GroupID]groupSituation{},
				Hosted: map[kv.NodeID]map[kv.GroupID]replicaStatus{}, DeadAfter: 5 * time.Minute, Calm: true, MaxMoves: 4,
			}
			for _, member := range m.Nodes {
				s.Hosted[member.ID] = map[kv.GroupID]replicaStatus{}
			}
			status := map[kv.NodeID]*statusReply{}
			for _, member := range m.Nodes {
				status[member.ID] = &statusReply{Member: member, Replicas: s.Hosted[member.ID], Groups: map[kv.GroupID]leadStatus{}}
			}
			for group, g := range groups {
				s.Groups[group] = groupSituation{g.Leader, g.Index, g.Servers}
				status[nodeOf(g.Leader)].Groups[group] = leadStatus{g.Term, s.Groups[group]}
				for _, server := range g.Servers {
					s.Hosted[nodeOf(server.ID)][group] = replicaStatus{Server: server.ID, Applied: g.Index}
				}
			}
			var replies [][]byte
			size := 0
			for _, reply := range status {
				text, err := json.Marshal(reply)
				require.NoError(b, err)
				replies = append(replies, text)
				size += len(text)
			}
			for b.Loop() {
				for _, text := range replies {
					var reply statusReply
					require.NoError(b, json.Unmarshal(text, &reply))
				}
				plan(s)
			}
			b.ReportMetric(float64(size), "B-of-replies")
		})
	}
}

// transferredMiB is the size of the state that BenchmarkTransfer sends.
const transferredMiB = 256

// The state of a replica, sent over a loopback connection and made durable by its receiver.
func BenchmarkTransfer(b *testing.B) {
	from, err := machine.Open(machine.Options{Dir: b.TempDir()})
	require.NoError(b, err)
	defer func() { require.NoError(b, from.Close()) }()
	fillMachine(b, from)
	b.SetBytes(transferredMiB << 20)
	for b.Loop() {
		dir := b.TempDir()
		to, err := machine.Open(machine.Options{Dir: dir})
		require.NoError(b, err)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(b, err)
		sent := make(chan error, 1)
		go func() {
			c, err := ln.Accept()
			if err == nil {
				_, err = from.WriteState(context.Background(), c)
				err = errors.Join(err, c.Close())
			}
			sent <- err
		}()
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(b, err)
		require.NoError(b, to.InstallState(context.Background(), io.Reader(c)))
		require.NoError(b, <-sent)
		require.NoError(b, errors.Join(c.Close(), ln.Close(), to.Close(), os.RemoveAll(dir)))
	}
}

// fillMachine writes values that cannot be compressed, 1 KiB each, with 1,024 to an entry.
func fillMachine(b *testing.B, m *machine.Machine) {
	random := rand.NewChaCha8([32]byte{1})
	value := make([]byte, 1024)
	number := uint64(0)
	for i := range transferredMiB {
		var batch db.Batch
		for range 1024 {
			_, _ = random.Read(value)
			key := binary.BigEndian.AppendUint64(nil, number)
			number++
			batch.Put(layout.AppendKey(nil, slot.Of(key), key), layout.AppendValue(nil, kv.Value{Data: value}))
		}
		payload, err := batch.MarshalBinary()
		require.NoError(b, err)
		entry := layout.Entry{Chain: layout.Chain{Term: 1, Epoch: 1, Number: uint64(i)}, Time: 1}
		l := raft.Log{Index: uint64(i) + 1, Term: 1, Data: append(layout.AppendEntryHeader(nil, entry), payload...)}
		require.Nil(b, m.Apply(&l))
	}
}

// exchangeNews is a round: each node asks a random other one. age[i][j] is how many rounds ago i has heard of j.
func exchangeNews(age [][]int16, r *rand.Rand) {
	for i := range age {
		for j := range age[i] {
			age[i][j]++
		}
		age[i][i] = 0
	}
	for i := range age {
		k := r.IntN(len(age) - 1)
		if k >= i {
			k++
		}
		for j, a := range age[k] {
			age[i][j] = min(age[i][j], a)
		}
		age[k][i] = 0
	}
}
