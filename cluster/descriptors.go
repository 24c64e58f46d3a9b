package cluster

import (
	"context"
	"log/slog"

	"github.com/sievedb/sievedb/cluster/internal/server"
	"github.com/sievedb/sievedb/cluster/internal/wire"
)

// The descriptors of a process are divided: at least half of them are for files and for connections of nodes. The
// rest is for connections that are not known yet, for clients that have to authenticate, and for clients. So
// strangers who connect cannot keep the logs from being written.
const (
	minClients    = 16
	spareSockets  = 2 * server.MaxRejecting // for those that are just being accepted or refused, and for HTTP
	strangerShare = 8                       // of the sockets: at most an eighth for each kind of stranger
)

// connections are the bounds of the connections that a node accepts.
type connections struct {
	clients, unauthenticated, handshakes int
}

// divide returns the bounds for a process that may have a number of descriptors; 0: unknown. wanted is what
// was configured, or the defaults.
func divide(descriptors int, wanted connections) connections {
	if descriptors <= 0 {
		return wanted
	}
	sockets := descriptors / 2
	c := connections{
		handshakes:      max(1, min(wanted.handshakes, sockets/strangerShare)),
		unauthenticated: max(1, min(wanted.unauthenticated, sockets/strangerShare)),
	}
	spare := min(spareSockets, sockets/strangerShare)
	c.clients = min(wanted.clients, max(minClients, sockets-c.handshakes-c.unauthenticated-spare))
	return c
}

// connections returns the bounds of a node in a process with a number of descriptors, and logs if those of clients
// are lower than configured.
func (o *Options) connections(descriptors int) connections {
	wanted := connections{
		clients: o.Limits.MaxClients, unauthenticated: o.Limits.MaxUnauthenticated, handshakes: wire.DefaultMaxHandshakes,
	}
	if wanted.clients == 0 {
		wanted.clients = server.DefaultMaxClients
	}
	if wanted.unauthenticated == 0 {
		wanted.unauthenticated = server.DefaultMaxUnauthenticated
	}
	c := divide(descriptors, wanted)
	if c.clients < wanted.clients || c.unauthenticated < o.Limits.MaxUnauthenticated {
		level := slog.LevelWarn
		if o.Limits.MaxClients == 0 && o.Limits.MaxUnauthenticated == 0 {
			level = slog.LevelInfo // nobody has asked for so many
		}
		o.logger().Log(context.Background(), level, "fewer clients can connect, so that descriptors remain for files: raise the "+
			"limit of open files of this process", "descriptors", descriptors, "wanted", wanted.clients, "clients", c.clients,
			"unauthenticated", c.unauthenticated)
	}
	return c
}
