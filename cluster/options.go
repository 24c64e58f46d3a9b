package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/node"
	"github.com/sievedb/sievedb/cluster/internal/server"
	"github.com/sievedb/sievedb/vfs"
)

// Options configure Create and Start. ID and Dir are required; the zero value of every other field is its default.
type Options struct {
	// ID is the name of the node for all time: 1 to 64 letters, digits, "-" and "_". No two nodes of a
	// cluster may have the same.
	ID string

	// Dir is the directory of the node. Create makes that of the first node of a cluster; that of a node that joins is
	// created if it does not exist. A node that starts on a directory that is not empty continues as what it was.
	Dir string

	// FS is the file system. Default: the operating system's.
	FS vfs.FS

	// Zone says which nodes are likely to fail together, such as those of a rack. The replicas of a group are
	// in different zones if there are enough. Default: the node is a zone of its own.
	Zone string

	// Network says where the node listens, and how it finds the others.
	Network NetworkOptions

	// Shape describes the cluster that Create makes. It has no effect on Start.
	Shape ShapeOptions

	// Security says who may connect.
	Security SecurityOptions

	// Memory bounds what the groups of the node use together.
	Memory MemoryOptions

	// Disk says when the disk counts as full.
	Disk DiskOptions

	// Timing has the times by which the cluster notices what happens.
	Timing TimingOptions

	// Limits bounds what clients and transfers may use.
	Limits LimitOptions

	// Backups is where Node.Backup stores backups of the cluster: see backup.NewDir, and backup/blob for buckets. All
	// nodes need the same one, because each stores the groups that it leads. Default: there are no backups.
	Backups backup.Storage

	// Logger receives messages. Keys and values never appear. Default: nothing is logged.
	Logger *slog.Logger
}

// NetworkOptions say where a node listens, and how it finds the others.
type NetworkOptions struct {
	// Listen is the address for clients and other nodes. Default: 127.0.0.1:7001. Port 0 is any free one.
	Listen string

	// Advertise is the address that clients and other nodes use for this node. Default: that of Listen, which must then
	// be one that they can reach, and not every address of the machine.
	Advertise string

	// Join has addresses of nodes of the cluster, of which one must answer. Without it, a node whose directory is empty
	// does not start. It has no effect on a node whose directory is not empty, unless all nodes have new addresses.
	Join []string
}

// ShapeOptions describe the cluster that Create makes.
type ShapeOptions struct {
	// Groups is the number of groups among which the slots are divided: 1, 4, 16 or 64. It never changes.
	// Each has a leader of its own, so more groups use more nodes and processors. Default: 4.
	Groups int

	// Replicas is the number of replicas of each group, if there are as many nodes: 3 survive the loss of
	// one node, 5 that of two. Default: 3. At most 9.
	Replicas int
}

// MemoryOptions bound what all groups of a node use together.
type MemoryOptions struct {
	// Cache is the size of the block caches in bytes, with filters and indexes of open tables. Default: 256 MiB.
	Cache int64

	// Memtables is the size of the memtables in bytes: recent writes. Default: 256 MiB.
	Memtables int64

	// OpenFiles is the number of open tables. Default: a quarter of the descriptors that the process may
	// have, at most 10000.
	OpenFiles int

	// Compactions is the number of concurrent merges. Default: half of the processors, at least 2.
	Compactions int
}

// DiskOptions say when the disk counts as full.
type DiskOptions struct {
	// Reserve is the number of free bytes below which the node refuses writes with an error and gives its
	// leaderships to other nodes. Default: 256 MiB. 1 turns it off in practice.
	Reserve int64
}

// TimingOptions have the times by which a cluster notices what happens. All nodes should have the same.
type TimingOptions struct {
	// Heartbeat is the time without a message of a leader after which a replica begins an election. An
	// election takes as long, if no other begins at the same time. Shorter times need faster disks,
	// because a leader's messages wait for writes to them. Default: 1 s. Minimum: 20 ms.
	Heartbeat time.Duration

	// Gossip is the time between two exchanges of news with another node, and between two looks of the
	// leader of group 0 at the placement of replicas. Default: 1 s. Minimum: 10 ms.
	Gossip time.Duration

	// DeadAfter is the time after which the replicas of a silent node are replaced, if there are other
	// nodes for them. Default: 5 min.
	DeadAfter time.Duration

	// StaleBound is how old the answers may be that clients get after READONLY. A replica refuses to answer if its
	// last question that the leader has answered is older. Default: 10 s.
	StaleBound time.Duration

	// Write and Read are how long a write may take until its commit, and a read of keys. After the first, the client
	// gets an error that says that the outcome is unknown. It should be less than the time after which clients repeat
	// requests, or their writes count twice. Default: 2 s each.
	Write, Read time.Duration

	// OnceFor is how long the reply of a request with an ID (ONCE) is kept. Default: 10 min.
	OnceFor time.Duration
}

// LimitOptions bound what clients and transfers may use.
type LimitOptions struct {
	// MaxClients is the number of connections of clients. Default: 10000. It is lower if the process may have too few
	// descriptors: half of them are for files and for other nodes. Start logs that.
	MaxClients int

	// MaxUnauthenticated is the number of further connections, of clients that have not given the password yet. If
	// there are more, the oldest is closed; for their first second, they may use free places of MaxClients too.
	// Default: 512. Without a password there are none.
	MaxUnauthenticated int

	// AuthTimeout is how long a client may take to give the password. Default: 10 s.
	AuthTimeout time.Duration

	// RequestTimeout is how long the rest of a request may take to arrive once a part of it has, and a second more
	// for each 16 KiB that have arrived. Default: 30 s.
	RequestTimeout time.Duration

	// IdleTimeout is how long a client may send nothing between two requests. Default: for ever, as with Redis.
	IdleTimeout time.Duration

	// MaxRequest is the length of the longest request in bytes. Default: 64 MiB.
	MaxRequest int

	// ClientBytes bounds the memory of all clients together: of unfinished requests, queues of MULTI, watched keys, and
	// replies that are not read yet, beyond 8 KiB for each connection. If it is used up, clients that need more wait
	// for up to 5 s and then get an error. Meanwhile the client with the most unread replies, which has read none for 2
	// s, is closed, or else the one with the largest unfinished request, of which nothing came for 5 s. Default: a
	// quarter of the memory of the machine, of the control group, or of GOMEMLIMIT, whichever is less; at least 64 MiB.
	ClientBytes int64

	// TransferBytesPerSecond bounds the transfer of each state to another node. Default: no bound.
	TransferBytesPerSecond int64

	// ScrubBytesPerSecond bounds how fast the node reads its own tables and logs to find damage while other replicas
	// are sound, from which it then heals. Default: as fast as all of them take a week, from 64 KiB to 4 MiB a second.
	// -1 turns it off.
	ScrubBytesPerSecond int64

	// SnapshotEntries is the number of entries after which the log of a group is shortened. About as many
	// remain, so that a replica that was away for a moment does not need a whole state. Default: 8192.
	SnapshotEntries uint64
}

// Validate returns an error that names the first field that is out of its bounds.
func (o *Options) Validate() error {
	if !kv.NodeID(o.ID).Valid() {
		return errors.New("cluster: Options.ID must have 1 to 64 letters, digits, - and _")
	}
	if o.Dir == "" {
		return errors.New("cluster: Options.Dir is empty; a node needs a directory")
	}
	switch o.Shape.Groups {
	case 0, 1, 4, 16, 64:
	default:
		return fmt.Errorf("cluster: Options.Shape.Groups is %d; it must be 1, 4, 16 or 64", o.Shape.Groups)
	}
	for _, r := range []struct {
		field            string
		value, low, high int64
	}{
		{"Shape.Replicas", int64(o.Shape.Replicas), 1, 9},
		{"Memory.Memtables", o.Memory.Memtables, 16 << 20, 1 << 50},
		{"Memory.OpenFiles", int64(o.Memory.OpenFiles), 1300, 1 << 31},
		{"Memory.Compactions", int64(o.Memory.Compactions), 1, 64},
		{"Disk.Reserve", o.Disk.Reserve, 1, 1 << 50},
		{"Timing.Heartbeat", int64(o.Timing.Heartbeat), int64(20 * time.Millisecond), int64(time.Minute)},
		{"Timing.Gossip", int64(o.Timing.Gossip), int64(10 * time.Millisecond), int64(time.Minute)},
		{"Timing.DeadAfter", int64(o.Timing.DeadAfter), int64(time.Second), 1 << 62},
		{"Timing.StaleBound", int64(o.Timing.StaleBound), int64(time.Millisecond), 1 << 62},
		{"Timing.Write", int64(o.Timing.Write), int64(time.Millisecond), 1 << 62},
		{"Timing.Read", int64(o.Timing.Read), int64(time.Millisecond), 1 << 62},
		{"Timing.OnceFor", int64(o.Timing.OnceFor), int64(time.Second), 1 << 55},
		{"Limits.MaxClients", int64(o.Limits.MaxClients), 1, 1 << 30},
		{"Limits.MaxUnauthenticated", int64(o.Limits.MaxUnauthenticated), 1, 1 << 30},
		{"Limits.AuthTimeout", int64(o.Limits.AuthTimeout), int64(time.Millisecond), 1 << 62},
		{"Limits.RequestTimeout", int64(o.Limits.RequestTimeout), int64(time.Millisecond), 1 << 62},
		{"Limits.IdleTimeout", int64(o.Limits.IdleTimeout), int64(time.Millisecond), 1 << 62},
		{"Limits.ClientBytes", o.Limits.ClientBytes, 1 << 20, 1 << 50},
		{"Limits.MaxRequest", int64(o.Limits.MaxRequest), 1 << 10, 512 << 20},
		{"Limits.TransferBytesPerSecond", o.Limits.TransferBytesPerSecond, 1 << 10, 1 << 50},
		{"Limits.ScrubBytesPerSecond", o.Limits.ScrubBytesPerSecond, -1, 1 << 50},
		{"Limits.SnapshotEntries", int64(o.Limits.SnapshotEntries), 16, 1 << 40},
	} {
		if r.value != 0 && (r.value < r.low || r.value > r.high) {
			return fmt.Errorf("cluster: Options.%s is %d; it must be from %d to %d", r.field, r.value, r.low, r.high)
		}
	}
	return o.Security.validate()
}

// identityOptions returns what a new node needs to know of itself.
func (o *Options) identityOptions() node.Options {
	return node.Options{
		ID: kv.NodeID(o.ID), Dir: o.Dir, FS: o.FS, Zone: o.Zone, Groups: o.Shape.Groups, Replicas: o.Shape.Replicas, Logger: o.logger(),
	}
}

// nodeOptions returns what the node needs.
func (o *Options) nodeOptions() (node.Options, error) {
	listen := o.Network.Listen
	if listen == "" {
		listen = "127.0.0.1:7001"
	}
	listenTLS, peerTLS, err := o.Security.load()
	if err != nil {
		return node.Options{}, err
	}
	no := node.Options{
		ID: kv.NodeID(o.ID), Dir: o.Dir, FS: o.FS, Zone: o.Zone,
		Listen: listen, Advertise: o.Network.Advertise, Join: o.Network.Join,
		Groups: o.Shape.Groups, Replicas: o.Shape.Replicas,
		TLS: listenTLS, PeerTLS: peerTLS, Secret: []byte(o.Security.Secret), Insecure: o.Security.Insecure,
		Memory: node.MemoryOptions{
			Cache: o.Memory.Cache, Memtables: o.Memory.Memtables, OpenFiles: o.Memory.OpenFiles,
			Compactions: o.Memory.Compactions,
		},
		Space: node.SpaceOptions{Reserve: o.Disk.Reserve},
		Timing: node.TimingOptions{
			Heartbeat: o.Timing.Heartbeat, Election: o.Timing.Heartbeat, Gossip: o.Timing.Gossip,
			DeadAfter: o.Timing.DeadAfter, StaleBound: o.Timing.StaleBound,
		},
		Log: node.LogOptions{
			SnapshotThreshold: o.Limits.SnapshotEntries, TrailingLogs: o.Limits.SnapshotEntries,
			BytesPerSecond: o.Limits.TransferBytesPerSecond,
		},
		Scrub:   node.ScrubOptions{BytesPerSecond: o.Limits.ScrubBytesPerSecond},
		Backups: o.Backups, Logger: o.logger(),
	}
	return no, nil
}

func (o *Options) serverOptions(bounds connections) server.Options {
	return server.Options{
		Password:     o.Security.Password,
		WriteTimeout: o.Timing.Write, ReadTimeout: o.Timing.Read, OnceFor: o.Timing.OnceFor,
		AuthTimeout: o.Limits.AuthTimeout, RequestTimeout: o.Limits.RequestTimeout, IdleTimeout: o.Limits.IdleTimeout,
		MaxClients: bounds.clients, MaxUnauthenticated: bounds.unauthenticated,
		MaxRequest: o.Limits.MaxRequest, ClientBytes: o.clientBytes(), Logger: o.logger(),
	}
}

func (o *Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}
