package server

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

// CONFIG SET may leave fewer places than there are clients, some of which have not sent a request.
func TestFewerPlacesThanClients(t *testing.T) {
	s, addr := startServer(t, kvtest.New(1), Options{MaxClients: 100})
	known := dial(t, "tcp", addr)
	for range 3 {
		require.Equal(t, "+PONG", dial(t, "tcp", addr).do("PING"))
	}
	stranger := dial(t, "tcp", addr)
	require.Eventually(t, func() bool { return s.Stats().Clients == 5 }, time.Minute, time.Millisecond)
	require.Equal(t, "+OK", known.do("CONFIG SET maxclients 2"))
	require.Equal(t, "-"+tooManyClients, dial(t, "tcp", addr).reply())
	require.True(t, stranger.closed())
	require.Equal(t, "+PONG", known.do("PING"))
}

// The clients do nothing, and do not close their ends.
func TestEvictedConnectionsAreClosedByTheServer(t *testing.T) {
	bubble(t, func(t testing.TB) {
		s, addr := startServer(t, kvtest.New(1), Options{MaxClients: 1})
		for range 20 {
			dial(t, "tcp", addr)
		}
		require.Equal(t, "+PONG", dial(t, "tcp", addr).do("PING"))
		require.Eventually(t, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.places.rejecting == 0
		}, 20*time.Second, 10*time.Millisecond)
	})
}

// An error other than UNKNOWN says that nothing was done.
func TestTheRequestOfAnEvictedConnectionIsNotCarriedOut(t *testing.T) {
	bubble(t, func(t testing.TB) {
		node := kvtest.New(1)
		s, addr := startServer(t, node, Options{MaxClients: 1})
		client, nc := net.Pipe()
		defer client.Close()
		go func() { _, _ = io.WriteString(client, encode("SET", "k", "v")) }()
		c := newConn(s, nc, 1000)
		require.NoError(t, c.in.fill())
		s.mu.Lock()
		s.places.all[c], c.place.admitted = true, true
		s.places.admitted++
		s.addStranger(c)
		s.evict()
		s.mu.Unlock()
		c.serve()
		go s.leave(c)
		b, err := io.ReadAll(client)
		require.NoError(t, err)
		require.Equal(t, "-"+tooManyClients+"\r\n", string(b))
		require.Equal(t, "nil", dial(t, "tcp", addr).do("GET k"))
	})
}
