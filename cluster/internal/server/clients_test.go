package server

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
	"github.com/sievedb/sievedb/cluster/internal/nettest"
)

// What clients do with keys and transactions is in clienttest, with real nodes.
func TestGoRedisUsesTheServer(t *testing.T) {
	for protocol := 2; protocol <= 3; protocol++ {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			node := kvtest.New(4)
			c := redis.NewClient(&redis.Options{
				Addr: start(t, node, Options{Password: "secret"}), Protocol: protocol, Password: "secret", ClientName: "test",
				ReadTimeout: time.Minute,
			})
			defer c.Close()
			goRedisServer(t, c)
			goRedisOperators(t, c)
		})
	}
}

func goRedisServer(t *testing.T, c *redis.Client) {
	ctx := t.Context()
	require.Equal(t, "test", c.ClientGetName(ctx).Val())
	commands := c.Command(ctx).Val()
	require.EqualValues(t, 1, commands["get"].FirstKeyPos)
	require.True(t, commands["get"].ReadOnly)
	require.Len(t, c.ClusterSlots(ctx).Val(), 4)
	shards, err := c.ClusterShards(ctx).Result()
	require.NoError(t, err)
	require.Equal(t, "master", shards[0].Nodes[0].Role)
	require.Contains(t, c.ClusterInfo(ctx).Val(), "cluster_state:ok")
	require.Contains(t, c.ClusterNodes(ctx).Val(), "myself,master")
	require.Contains(t, c.Info(ctx, "server").Val(), "redis_mode:cluster")
	require.NoError(t, c.FlushDB(ctx).Err())
	require.Zero(t, c.DBSize(ctx).Val())
}

// goRedisOperators calls what operators and users of strings need less often.
func goRedisOperators(t *testing.T, c *redis.Client) {
	ctx := t.Context()
	require.NoError(t, c.ConfigSet(ctx, "slowlog-log-slower-than", "0").Err())
	require.NoError(t, c.MSet(ctx, "{k}1", "ohmytext", "{k}2", "mynewtext").Err())
	require.Equal(t, "mytext", c.LCS(ctx, &redis.LCSQuery{Key1: "{k}1", Key2: "{k}2"}).Val().MatchString)
	match := c.LCS(ctx, &redis.LCSQuery{Key1: "{k}1", Key2: "{k}2", Idx: true, WithMatchLen: true}).Val()
	require.EqualValues(t, 6, match.Len)
	require.EqualValues(t, 4, match.Matches[0].MatchLen)
	require.NoError(t, c.Restore(ctx, "{k}3", time.Hour, c.Dump(ctx, "{k}1").Val()).Err())
	require.Equal(t, "ohmytext", c.Get(ctx, "{k}3").Val())
	require.Equal(t, time.Hour, c.TTL(ctx, "{k}3").Val().Round(time.Second))
	require.EqualValues(t, 9, c.BitOpXor(ctx, "{k}4", "{k}1", "{k}2").Val())
	require.EqualValues(t, 1, c.BitPos(ctx, "{k}1", 1).Val())
	require.Equal(t, []int64{111, 104}, c.BitField(ctx, "{k}1", "GET", "u8", 0, "GET", "u8", "#1").Val())
	require.Equal(t, "embstr", c.ObjectEncoding(ctx, "{k}1").Val())
	require.Positive(t, c.MemoryUsage(ctx, "{k}1").Val())
	logs := c.SlowLogGet(ctx, 1).Val()
	require.Equal(t, []string{"memory", "usage", "{k}1"}, logs[0].Args)
	require.Equal(t, "test", logs[0].ClientName)
	require.Contains(t, c.ClientList(ctx).Val(), "name=test")
	require.EqualValues(t, 0, c.ClientKillByFilter(ctx, "ID", "999999").Val())
	require.Equal(t, map[string]string{"timeout": "0"}, c.ConfigGet(ctx, "timeout").Val())
	require.NoError(t, c.ConfigResetStat(ctx).Err())
}

func TestGoRedisGetsUnknownOutcomesAsErrors(t *testing.T) {
	bubble(t, func(t testing.TB) {
		node := kvtest.New(1)
		c := redis.NewClient(&redis.Options{
			Addr: start(t, node, Options{WriteTimeout: shortTimeout}), MaxRetries: 3, ReadTimeout: time.Minute,
			Dialer: func(ctx context.Context, _, addr string) (net.Conn, error) { return loopback.Dial(ctx, addr) },
		})
		defer c.Close()
		node.World().Hold(0)
		err := c.Incr(t.Context(), "n").Err()
		require.ErrorContains(t, err, "UNKNOWN the outcome of this write is unknown")
		node.World().Release(0)
		require.Equal(t, "1", c.Get(t.Context(), "n").Val(), "the client must not repeat such a write")
	})
}

func TestRedisCLIUsesTheServer(t *testing.T) {
	path, ok := nettest.Need(t, "redis-cli", "redis-tools")
	if !ok {
		return
	}
	cli := func(addr string, flags []string, lines ...string) string {
		return nettest.Output(t, nettest.RedisCLI(t, path, addr, flags...), lines...)
	}
	_, addrA, addrB := twoNodes(t)
	out := cli(addrA, nil, "SET foo bar")
	require.Contains(t, out, "MOVED 12182 "+addrB)
	out = cli(addrA, []string{"-c"}, `SET foo "b r"`, "GET foo", "SET b 1", "TTL b", "CLUSTER SHARDS", "INFO", "nothing")
	require.Contains(t, out, "-> Redirected to slot [12182] located at "+addrB+"\nOK\nb r\n")
	require.Contains(t, out, "-> Redirected to slot [3300] located at "+addrA+"\nOK\n-1\nslots\n0\n8191\n")
	require.Contains(t, out, "ERR unknown command 'nothing'")
	out = cli(addrA, []string{"-3", "--json"}, "COMMAND DOCS get", "HELLO")
	require.Contains(t, out, `{"get":{"summary":"Returns the value of a key","group":"string"}}`)
	require.Contains(t, out, `"proto":3`)
	require.Equal(t, "b\n", cli(addrA, []string{"--scan"}))
	out = cli(addrA, []string{"--cluster", "check", addrA})
	require.Contains(t, out, "All 16384 slots covered", out)
	require.Contains(t, cli(addrB, []string{"--bigkeys"}), "foo")
}
