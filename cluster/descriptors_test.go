package cluster

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/server"
	"github.com/sievedb/sievedb/cluster/internal/wire"
	"github.com/sievedb/sievedb/vfs"
)

func TestConnectionsLeaveDescriptorsForFiles(t *testing.T) {
	var o Options
	for _, descriptors := range []int{256, 1024, 4096, 20_000, 65_536, 1 << 20} {
		for _, clients := range []int{0, 10, 10_000, 1 << 29} {
			o.Limits.MaxClients = clients
			c := o.connections(descriptors)
			require.LessOrEqual(t, c.clients+c.unauthenticated+c.handshakes, descriptors/2, "%d descriptors", descriptors)
			require.Positive(t, min(c.clients, c.unauthenticated, c.handshakes))
		}
	}
	require.Equal(t, connections{320, 64, 64}, divideWith(1024, 10_000))
	require.Equal(t, connections{10_000, 512, 512}, divideWith(65_536, 10_000))
	require.Equal(t, connections{10, 64, 64}, divideWith(1024, 10))
	require.Equal(t, connections{10_000, 512, 512}, divideWith(0, 10_000), "the limit is unknown")
}

func TestANodeHasTheseBounds(t *testing.T) {
	parallel(t)
	o := fast("1")
	o.Shape.Groups, o.Limits.MaxClients = 1, 1<<29
	client := redis.NewClient(&redis.Options{Addr: start(t, o).Addr()})
	defer func() { require.NoError(t, client.Close()) }()
	settings, err := client.ConfigGet(within(t), "maxclients").Result()
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(o.connections(vfs.MaxDescriptors()).clients), settings["maxclients"])
}

func divideWith(descriptors, clients int) connections {
	return divide(descriptors, connections{clients, server.DefaultMaxUnauthenticated, wire.DefaultMaxHandshakes})
}

func TestALowerBoundOfClientsIsLogged(t *testing.T) {
	var logged bytes.Buffer
	o := Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
	o.connections(1 << 20)
	require.Empty(t, logged.String())
	o.connections(1024)
	require.Contains(t, logged.String(), fmt.Sprintf("descriptors=1024 wanted=%d clients=320", server.DefaultMaxClients))
	require.NotContains(t, logged.String(), "level=WARN")
	o.Limits.MaxClients = 5000
	o.connections(1024)
	require.Contains(t, logged.String(), "level=WARN")
	require.Equal(t, 2, strings.Count(logged.String(), "\n"))
}
