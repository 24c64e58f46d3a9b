package cluster

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// What the secret costs: writes through three nodes of this process, whose connections it encrypts.
func BenchmarkWrites(b *testing.B) {
	for _, secret := range []string{"", "0123456789abcdef"} {
		for _, size := range []int{20, 16 << 10} {
			for _, clients := range []int{1, 16} {
				b.Run(fmt.Sprintf("secret=%t/size=%d/clients=%d", secret != "", size, clients), func(b *testing.B) {
					benchmarkWrites(b, secret, size, clients)
				})
			}
		}
	}
}

func benchmarkWrites(b *testing.B, secret string, size, clients int) {
	ctx := context.Background()
	var first *Node
	var addrs []string
	for id := range 3 {
		o := Options{ID: fmt.Sprint(id + 1), Dir: b.TempDir(), Network: NetworkOptions{Listen: "127.0.0.1:0"}}
		o.Shape.Groups, o.Security.Secret = 1, secret
		if first != nil {
			o.Network.Join = []string{first.Addr()}
		}
		n, err := Start(ctx, o)
		require.NoError(b, err)
		defer n.Close()
		if first == nil {
			first = n
		}
		addrs = append(addrs, n.Addr())
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, PoolSize: clients})
	defer c.Close()
	waitForReplicas(b, ctx, first, 3)
	value := make([]byte, size)
	require.NoError(b, c.Set(ctx, "k", value, 0).Err())
	b.SetBytes(int64(size))
	b.ResetTimer()
	errs := make(chan error, clients)
	for w := range clients {
		go func() {
			var err error
			for i := w; i < b.N && err == nil; i += clients {
				err = c.Set(ctx, fmt.Sprint("k", i), value, 0).Err()
			}
			errs <- err
		}()
	}
	for range clients {
		require.NoError(b, <-errs)
	}
}
