package command

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

type clusterCommand func(n *Node, ctx context.Context, c *Call) error

// about is a subcommand of CLUSTER about what this node knows of the cluster.
func about(reply func(n *Node, c *Call)) clusterCommand {
	return func(n *Node, _ context.Context, c *Call) error { reply(n, c); return nil }
}

var clusterCommands = Container[clusterCommand]{"cluster", []Subcommand[clusterCommand]{
	{"countkeysinslot", 3, "COUNTKEYSINSLOT <slot>", (*Node).countKeysInSlot},
	{"getkeysinslot", 4, "GETKEYSINSLOT <slot> <count>", (*Node).getKeysInSlot},
	{"info", 2, "INFO", about(func(n *Node, c *Call) { c.Reply.Verbatim(n.topology().info()) })},
	{"keyslot", 3, "KEYSLOT <key>", about(func(_ *Node, c *Call) { c.Reply.Int(int64(slot.Of(c.Args[2]))) })},
	{"myid", 2, "MYID", about(func(n *Node, c *Call) { c.Reply.Text(clientID(n.cluster.Self().ID)) })},
	{"nodes", 2, "NODES", about(func(n *Node, c *Call) { c.Reply.Verbatim(n.topology().nodeLines(n.cluster.Self().ID)) })},
	{"shards", 2, "SHARDS", about(func(n *Node, c *Call) { n.topology().shards(c.Reply) })},
	{"slots", 2, "SLOTS", about(func(n *Node, c *Call) { n.topology().slots(c.Reply) })},
	{"links", 2, "", about(func(_ *Node, c *Call) { c.Reply.Array(0) })},
	{"count-failure-reports", 3, "", about(func(_ *Node, c *Call) { c.Reply.Int(0) })},
}}

// describe evaluates CLUSTER.
func (n *Node) describe(ctx context.Context, c *Call) error {
	if run, ok := clusterCommands.Find(c); ok {
		return run(n, ctx, c)
	}
	return nil
}

// clientID returns the name of a node in the form that clients of Redis Cluster expect: 40 hexadecimal digits.
func clientID(id kv.NodeID) string {
	sum := sha1.Sum([]byte(id))
	return hex.EncodeToString(sum[:])
}

// topology is what this node knows of the cluster.
type topology struct {
	nodes  []kv.NodeInfo
	byID   map[kv.NodeID]kv.NodeInfo
	ranges []kv.SlotRange
}

func (n *Node) topology() topology {
	t := topology{byID: map[kv.NodeID]kv.NodeInfo{}}
	t.nodes, t.ranges = n.cluster.Map()
	for _, info := range t.nodes {
		t.byID[info.ID] = info
	}
	return t
}

// hostPort divides the address of a node.
func hostPort(addr string) (host string, port int64) {
	host, digits, err := net.SplitHostPort(addr)
	if err != nil {
		return addr, 0
	}
	port, err = strconv.ParseInt(digits, 10, 32)
	if err != nil {
		port = 0
	}
	return host, port
}

// led returns the ranges that a node leads.
func (t topology) led(id kv.NodeID) (list []kv.SlotRange) {
	for _, r := range t.ranges {
		if r.Leader == id {
			list = append(list, r)
		}
	}
	return list
}

// followers returns the nodes that have replicas of all these ranges, of which there is at least one, and lead nothing.
// Clients give a node one role, that of its first or last mention, since in Redis Cluster it has one. So a node that
// leads a range is nowhere listed as a replica, although it follows others and answers READONLY for them.
func (t topology) followers(ranges ...kv.SlotRange) (list []kv.NodeInfo) {
	for _, id := range ranges[0].Replicas {
		info, ok := t.byID[id]
		for _, r := range ranges {
			ok = ok && slices.Contains(r.Replicas, id)
		}
		if ok && len(t.led(id)) == 0 {
			list = append(list, info)
		}
	}
	return list
}

// slots replies with the ranges that have a leader, and the replicas that are up: Redis leaves out the others too, and
// clients then ask again.
func (t topology) slots(p *Reply) {
	m, count := p.mark(), 0
	for _, r := range t.ranges {
		leader, known := t.byID[r.Leader]
		if !known {
			continue
		}
		count++
		down := func(info kv.NodeInfo) bool { return !info.Up }
		nodes := append([]kv.NodeInfo{leader}, slices.DeleteFunc(t.followers(r), down)...)
		p.Array(2 + len(nodes))
		p.Int(int64(r.First))
		p.Int(int64(r.Last))
		for _, info := range nodes {
			host, port := hostPort(info.Addr)
			p.Array(4)
			p.Text(host)
			p.Int(port)
			p.Text(clientID(info.ID))
			p.Array(0) // further names of the host
		}
	}
	p.arrayAt(m, count)
}

// shards replies with a shard for each node that leads: clients use the address of the leader as the shard's name.
func (t topology) shards(p *Reply) {
	m, count := p.mark(), 0
	for _, leader := range t.nodes {
		ranges := t.led(leader.ID)
		if len(ranges) == 0 {
			continue
		}
		count++
		p.Map(2)
		p.Text("slots")
		p.Array(2 * len(ranges))
		for _, r := range ranges {
			p.Int(int64(r.First))
			p.Int(int64(r.Last))
		}
		followers := t.followers(ranges...)
		p.Text("nodes")
		p.Array(1 + len(followers))
		shardNode(p, leader, "master")
		for _, info := range followers {
			shardNode(p, info, "replica")
		}
	}
	p.arrayAt(m, count)
}

func shardNode(p *Reply, info kv.NodeInfo, role string) {
	host, port := hostPort(info.Addr)
	health := "online"
	if !info.Up {
		health = "fail"
	}
	p.Map(7)
	p.Text("id")
	p.Text(clientID(info.ID))
	p.Text("port")
	p.Int(port)
	p.Text("ip")
	p.Text(host)
	p.Text("endpoint")
	p.Text(host)
	p.Text("role")
	p.Text(role)
	p.Text("replication-offset")
	p.Int(0)
	p.Text("health")
	p.Text(health)
}

// nodeLines returns CLUSTER NODES. A node that leads no group, but has replicas, is a slave of the
// leader of the first of them: the format knows one master a node.
func (t topology) nodeLines(self kv.NodeID) string {
	var b strings.Builder
	for _, info := range t.nodes {
		led, master := t.led(info.ID), kv.NodeID("")
		for _, r := range t.ranges {
			if master == "" && slices.Contains(r.Replicas, info.ID) {
				master = r.Leader
			}
		}
		host, port := hostPort(info.Addr)
		flags, follows, link := "master", "-", "connected"
		if len(led) == 0 && master != "" {
			flags, follows = "slave", clientID(master)
		}
		if info.ID == self {
			flags = "myself," + flags
		}
		if !info.Up {
			flags, link = flags+",fail", "disconnected"
		}
		fmt.Fprintf(&b, "%s %s:%d@%d %s %s 0 0 1 %s", clientID(info.ID), host, port, port, flags, follows, link)
		for _, r := range led {
			fmt.Fprintf(&b, " %d-%d", r.First, r.Last)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (t topology) info() string {
	led, leaders := 0, map[kv.NodeID]bool{}
	for _, r := range t.ranges {
		if r.Leader != "" {
			led += int(r.Last) - int(r.First) + 1
			leaders[r.Leader] = true
		}
	}
	state := "ok"
	if led < kv.SlotCount {
		state = "fail"
	}
	return fmt.Sprintf("cluster_state:%s\r\ncluster_slots_assigned:%d\r\ncluster_slots_ok:%d\r\n"+
		"cluster_slots_pfail:0\r\ncluster_slots_fail:%d\r\ncluster_known_nodes:%d\r\ncluster_size:%d\r\n"+
		"cluster_current_epoch:1\r\ncluster_my_epoch:1\r\ncluster_stats_messages_sent:0\r\n"+
		"cluster_stats_messages_received:0\r\n",
		state, kv.SlotCount, led, kv.SlotCount-led, len(t.nodes), len(leaders))
}

// slotArg parses the argument 2 as a slot.
func (c *Call) slotArg() (slot int, err error) {
	n, err := c.integer(2)
	if err == nil && (n < 0 || n >= kv.SlotCount) {
		err = refusal("ERR Invalid slot")
	}
	return int(n), err
}

func (n *Node) countKeysInSlot(ctx context.Context, c *Call) error {
	of, err := c.slotArg()
	if err != nil {
		return err
	}
	keys, work := int64(0), meter{ctx: ctx, name: "CLUSTER COUNTKEYSINSLOT"}
	work.save = func() func() { return func() { keys = 0 } }
	err = n.each(&work, of, of, func(r kv.Reader, slot uint16) (bool, error) {
		return true, r.Scan(slot, nil, nil, false, func([]byte, kv.Value) bool {
			keys++
			return work.spend(keyWork)
		})
	})
	if err == nil {
		c.Reply.Int(keys)
	}
	return err
}

func (n *Node) getKeysInSlot(ctx context.Context, c *Call) error {
	of, err := c.slotArg()
	if err != nil {
		return err
	}
	limit, err := c.integer(3)
	switch {
	case err != nil:
		return err
	case limit < 0:
		return refusal("ERR Invalid slot or number of keys")
	}
	m, found, tooLong := c.Reply.mark(), int64(0), false
	work := meter{ctx: ctx, name: "CLUSTER GETKEYSINSLOT"}
	work.save = func() func() { return func() { c.Reply.undo(m); found, tooLong = 0, false } }
	err = n.each(&work, of, of, func(r kv.Reader, slot uint16) (bool, error) {
		return true, r.Scan(slot, nil, nil, false, func(key []byte, _ kv.Value) bool {
			if found == limit || tooLong {
				return false
			}
			c.Reply.Bulk(key)
			found++
			tooLong = c.tooLong(m)
			return !tooLong && work.spend(keyWork)
		})
	})
	switch {
	case tooLong:
		return nil // the reply says so
	case err == nil:
		c.Reply.arrayAt(m, int(found))
	}
	return err
}
