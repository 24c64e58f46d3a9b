package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

// Clients give a node one role. A node that leads some groups and follows others was listed with both: ioredis then
// sent reads for replicas to nodes that do not answer them, and radix sent writes to replicas.
func TestANodeHasOneRoleForClients(t *testing.T) {
	w := kvtest.NewWorld(4, kv.NodeInfo{ID: "a", Up: true}, kv.NodeInfo{ID: "b", Addr: "127.0.0.1:2", Up: true},
		kv.NodeInfo{ID: "c", Addr: "127.0.0.1:3", Up: true})
	c := redis.NewClient(&redis.Options{Addr: start(t, w.Node("a"), Options{}), ReadTimeout: time.Minute})
	defer c.Close()
	for n := range 4 * 4 * 4 * 4 { // all ways in which the nodes, or none, lead the groups
		want, addrs := map[string]string{}, make([]string, 4)
		for g := range addrs {
			leader := []kv.NodeID{"a", "b", "c", ""}[n>>(2*g)&3]
			w.SetLeader(kv.GroupID(g), leader)
			if leader != "" {
				addrs[g] = w.Node(leader).Self().Addr
				want[addrs[g]] = "master"
			}
		}
		for _, id := range []kv.NodeID{"a", "b", "c"} {
			if addr := w.Node(id).Self().Addr; len(want) > 0 && want[addr] == "" {
				want[addr] = "replica"
			}
		}
		require.Equal(t, want, rolesInSlots(t, c, addrs), "%q", addrs)
		require.Equal(t, want, rolesInShards(t, c, addrs), "%q", addrs)
		for line := range strings.Lines(c.ClusterNodes(t.Context()).Val()) {
			fields := strings.Fields(line)
			addr, _, _ := strings.Cut(fields[1], "@")
			require.Equal(t, want[addr] == "replica", strings.Contains(fields[2], "slave"), "%q", addrs)
		}
	}
}

// A dead node leads nothing, so it would be the only replica that clients find.
func TestADeadNodeIsNoReplica(t *testing.T) {
	w := kvtest.NewWorld(4, kv.NodeInfo{ID: "a", Up: true}, kv.NodeInfo{ID: "b", Addr: "127.0.0.1:2"})
	c := redis.NewClient(&redis.Options{Addr: start(t, w.Node("a"), Options{}), ReadTimeout: time.Minute})
	defer c.Close()
	for g := range 4 {
		w.SetLeader(kv.GroupID(g), "a")
	}
	for _, s := range c.ClusterSlots(t.Context()).Val() {
		require.Len(t, s.Nodes, 1)
	}
	shards := c.ClusterShards(t.Context()).Val()
	require.Equal(t, "fail", shards[0].Nodes[1].Health)
	require.Contains(t, c.ClusterNodes(t.Context()).Val(), " slave,fail ")
}

// take stores the role of an address, which has no other one.
func take(t *testing.T, roles map[string]string, addr, role string) {
	require.Contains(t, []string{"", role}, roles[addr])
	roles[addr] = role
}

func rolesInSlots(t *testing.T, c *redis.Client, leaders []string) map[string]string {
	roles := map[string]string{}
	for _, s := range c.ClusterSlots(t.Context()).Val() {
		require.Equal(t, leaders[s.Start/4096], s.Nodes[0].Addr)
		require.Equal(t, s.Start+4095, s.End)
		take(t, roles, s.Nodes[0].Addr, "master")
		for _, node := range s.Nodes[1:] {
			take(t, roles, node.Addr, "replica")
		}
	}
	return roles
}

func rolesInShards(t *testing.T, c *redis.Client, leaders []string) map[string]string {
	roles, seen := map[string]string{}, make([]string, len(leaders))
	for _, s := range c.ClusterShards(t.Context()).Val() {
		for _, node := range s.Nodes {
			addr := fmt.Sprint(node.Endpoint, ":", node.Port)
			take(t, roles, addr, node.Role)
			if node.Role == "master" {
				for _, r := range s.Slots {
					seen[r.Start/4096] = addr
				}
			}
		}
	}
	require.Equal(t, leaders, seen)
	return roles
}
