package clienttest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/processtest"
)

func TestGoRedisUsesACluster(t *testing.T) {
	logging.Disable() // of connections that end
	cluster := newCluster(t)
	for protocol := 2; protocol <= 3; protocol++ {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			g := &goRedis{t: t, cluster: cluster, prefix: fmt.Sprintf("go%d:", protocol), protocol: protocol}
			g.c = redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: cluster.Addrs(), Protocol: protocol, MaxRedirects: 8, DialTimeout: time.Second, DialerRetries: 1,
				ReadTimeout: 10 * time.Second,
			})
			defer func() { require.NoError(t, g.c.Close()) }()
			g.strings()
			g.once()
			g.expiry()
			g.pipelines()
			g.transactions()
			g.scan()
			g.transfer()
			if protocol == 2 || !testing.Short() { // what a client does when a node is silent is the same with both
				g.death()
			}
		})
	}
}

type goRedis struct {
	t        *testing.T
	cluster  *processtest.Cluster
	c        *redis.ClusterClient
	prefix   string // of all keys
	protocol int
}

// key returns a key with a tag, so that several may be in one slot.
func (g *goRedis) key(tag string, n int) string { return fmt.Sprintf("%s{%s}%d", g.prefix, tag, n) }

func (g *goRedis) strings() {
	ctx := g.t.Context()
	for i := range 50 {
		require.NoError(g.t, g.c.Set(ctx, fmt.Sprint(g.prefix, i), i, 0).Err())
	}
	for i := range 50 {
		require.Equal(g.t, fmt.Sprint(i), g.c.Get(ctx, fmt.Sprint(g.prefix, i)).Val())
	}
	require.ErrorIs(g.t, g.c.Get(ctx, g.prefix+"absent").Err(), redis.Nil)
	require.NoError(g.t, g.c.MSet(ctx, g.key("m", 1), "a", g.key("m", 2), "b").Err())
	require.Equal(g.t, []any{"a", nil, "b"}, g.c.MGet(ctx, g.key("m", 1), g.key("m", 9), g.key("m", 2)).Val())
	require.EqualValues(g.t, 7, g.c.IncrBy(ctx, g.key("n", 1), 7).Val())
	require.EqualValues(g.t, 8, g.c.Incr(ctx, g.key("n", 1)).Val())
	hello, err := g.c.Do(ctx, "HELLO").Result()
	require.NoError(g.t, err)
	if g.protocol == 3 {
		require.EqualValues(g.t, 3, hello.(map[any]any)["proto"])
	} else {
		require.Contains(g.t, hello, int64(2))
	}
}

// once sends requests twice, as docs/redis-commands.md says and by a command whose keys the client does not know.
func (g *goRedis) once() {
	ctx := g.t.Context()
	for i := range 20 {
		key, id := g.key(fmt.Sprint("once", i), 1), fmt.Sprint("id", g.protocol, "-", i)
		for range 3 {
			cmd := redis.NewCmd(ctx, "ONCE", id, "INCR", key)
			cmd.SetFirstKeyPos(3)
			require.NoError(g.t, g.c.Process(ctx, cmd))
			require.EqualValues(g.t, 1, cmd.Val())
			require.EqualValues(g.t, 1, g.c.Do(ctx, "ONCE", id, "INCR", key).Val())
		}
		require.Equal(g.t, "1", g.c.Get(ctx, key).Val())
	}
}

func (g *goRedis) expiry() {
	ctx, key := g.t.Context(), g.key("e", 1)
	require.NoError(g.t, g.c.Set(ctx, key, "v", time.Hour).Err())
	require.InDelta(g.t, time.Hour, g.c.TTL(ctx, key).Val(), float64(time.Minute))
	require.True(g.t, g.c.Persist(ctx, key).Val())
	require.EqualValues(g.t, -1, g.c.TTL(ctx, key).Val())
	require.True(g.t, g.c.PExpire(ctx, key, 50*time.Millisecond).Val())
	require.NoError(g.t, processtest.Wait("a key to expire", func(ctx context.Context) error {
		if value, err := g.c.Get(ctx, key).Result(); err == nil {
			return fmt.Errorf("the key still has %q", value)
		}
		return nil
	}))
	require.EqualValues(g.t, -2, g.c.TTL(ctx, key).Val())
}

func (g *goRedis) pipelines() {
	ctx := g.t.Context()
	results, err := g.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 200 { // of all groups
			p.Incr(ctx, fmt.Sprint(g.prefix, "p", i%100))
		}
		return nil
	})
	require.NoError(g.t, err)
	for i, r := range results {
		require.EqualValues(g.t, 1+i/100, r.(*redis.IntCmd).Val())
	}
}

// Transactions that watch a counter lose no increment, although all increment it at the same time.
func (g *goRedis) transactions() {
	ctx, key := g.t.Context(), g.key("t", 1)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for done := 0; done < 10; {
				err := g.c.Watch(ctx, func(tx *redis.Tx) error {
					n, err := tx.Get(ctx, key).Int()
					if err != nil && err != redis.Nil {
						return err
					}
					_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
						p.Set(ctx, key, n+1, 0)
						p.Set(ctx, g.key("t", 2), n+1, 0)
						return nil
					})
					return err
				}, key)
				if err == nil {
					done++
				} else if err != redis.TxFailedErr {
					g.t.Errorf("a transaction: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
	require.Equal(g.t, []any{"40", "40"}, g.c.MGet(ctx, key, g.key("t", 2)).Val())
}

// A scan of all masters finds each key once.
func (g *goRedis) scan() {
	ctx := g.t.Context()
	var mu sync.Mutex
	found := map[string]int{}
	require.NoError(g.t, g.c.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		it := c.Scan(ctx, 0, g.prefix+"p*", 7).Iterator()
		for it.Next(ctx) {
			mu.Lock()
			found[it.Val()]++
			mu.Unlock()
		}
		return it.Err()
	}))
	require.Len(g.t, found, 100)
	for key, times := range found {
		require.Equal(g.t, 1, times, key)
	}
}

// The client learns from MOVED that a leadership has moved: no call fails.
func (g *goRedis) transfer() {
	ctx, key := g.t.Context(), g.key("moves", 1)
	require.NoError(g.t, g.c.Set(ctx, key, 1, 0).Err())
	from, to := transfer(g.t, g.cluster, key)
	c := from.Client()
	defer func() { _ = c.Close() }()
	require.ErrorContains(g.t, c.Get(ctx, key).Err(), fmt.Sprintf("MOVED %d %s", slotOf(key), to.Addr))
	require.EqualValues(g.t, 2, g.c.Incr(ctx, key).Val())
	require.Equal(g.t, "2", g.c.Get(ctx, key).Val())
}

// Clients write while the leader of their keys dies. What was acknowledged is there.
func (g *goRedis) death() {
	ctx, written := g.t.Context(), 0
	write := func() int {
		key := g.key("dies", written)
		failures := persist(g.t, func() error {
			err := g.c.Set(ctx, key, written, 0).Err()
			if err != nil {
				// go-redis keeps its map of the slots for up to 10 s if the leader that it knows does not answer.
				g.c.ReloadState(ctx)
			}
			return err
		})
		written++
		return failures
	}
	for written < 20 {
		write()
	}
	began := time.Now()
	kill(g.t, g.cluster, g.key("dies", 0))
	failures := write()
	took := time.Since(began).Round(time.Millisecond)
	g.t.Logf("the first write after the death of the leader took %v and %d calls", took, failures+1)
	for written < 100 {
		write()
	}
	for i := range written {
		require.Equal(g.t, fmt.Sprint(i), g.c.Get(ctx, g.key("dies", i)).Val())
	}
	restart(g.t, g.cluster)
	for i := range written {
		require.Equal(g.t, fmt.Sprint(i), g.c.Get(ctx, g.key("dies", i)).Val())
	}
}
