package server

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

// The cost of the protocol: the cluster is in memory and replicates nothing. One operation is a command.
func BenchmarkCommands(b *testing.B) {
	for _, command := range []string{"SET", "GET"} {
		for _, pipeline := range []int{1, 16} {
			for _, clients := range []int{1, 64} {
				b.Run(fmt.Sprintf("command=%s/pipeline=%d/clients=%d", command, pipeline, clients), func(b *testing.B) {
					benchmarkCommand(b, command, pipeline, clients)
				})
			}
		}
	}
}

func benchmarkCommand(b *testing.B, command string, pipeline, clients int) {
	c := redis.NewClient(&redis.Options{Addr: start(b, kvtest.New(16), Options{}), PoolSize: clients})
	defer c.Close()
	ctx := b.Context()
	require.NoError(b, c.Set(ctx, "k", "value of twenty bytes", 0).Err())
	work := func(n int) error {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range n {
				if command == "GET" {
					p.Get(ctx, "k")
				} else {
					p.Set(ctx, fmt.Sprint("k", i), "value of twenty bytes", 0)
				}
			}
			return nil
		})
		return err
	}
	b.ResetTimer()
	errs := make(chan error, clients)
	for w := range clients {
		go func() {
			var err error
			for i := w * pipeline; i < b.N && err == nil; i += clients * pipeline {
				err = work(min(pipeline, b.N-i))
			}
			errs <- err
		}()
	}
	for range clients {
		require.NoError(b, <-errs)
	}
}
