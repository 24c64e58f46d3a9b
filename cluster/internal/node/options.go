package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/cluster/internal/consensus"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/vfs"
)

// Options configure a node. The package cluster documents their meaning for users.
type Options struct {
	ID   kv.NodeID
	Dir  string
	FS   vfs.FS // default: the operating system's
	Zone string

	// Listen is the address of the listener, Advertise the one that others use for it. Default of the
	// latter: the listener's own.
	Listen, Advertise string
	// Join has addresses of nodes of the cluster. A node whose directory is empty needs one.
	Join []string
	// Groups and Replicas are those of the cluster that Create makes.
	Groups, Replicas int

	TLS, PeerTLS *tls.Config
	Secret       []byte
	// Insecure allows addresses other than loopback without a secret and TLS.
	Insecure bool
	// Dial, Accepted and Bind are for tests that cut connections; see wire.Options.
	Dial     func(ctx context.Context, addr string) (net.Conn, error)
	Accepted func(net.Conn) net.Conn
	Bind     func(addr string) (net.Listener, error)
	// MaxHandshakes is that of wire.Options.
	MaxHandshakes int
	// Raft is for tests: it changes the options of each group before its raft starts.
	Raft func(*consensus.Options)

	// Backups is where backups of the cluster are stored; nil: nowhere. All nodes must have the same.
	Backups backup.Storage

	Memory MemoryOptions
	Space  SpaceOptions
	Timing TimingOptions
	Log    LogOptions
	Scrub  ScrubOptions

	Logger *slog.Logger // required
}

// MemoryOptions bound what all groups of the node use together.
type MemoryOptions struct {
	Cache, Memtables int64
	OpenFiles        int
	Compactions      int
}

// SpaceOptions say when the disk counts as full.
type SpaceOptions struct {
	// Reserve is the number of free bytes below which writes are refused. Default: 256 MiB.
	Reserve int64
	// Free returns the number of free bytes of a directory's file system. Default: the system's figure.
	Free func(dir string) (int64, error)
}

// TimingOptions are the times by which a cluster notices what happens.
type TimingOptions struct {
	// Heartbeat is the longest time without a message of a leader after which a follower asks for votes; an
	// election lasts up to Election. Default: 1 s each.
	Heartbeat, Election time.Duration
	// Gossip is the time between two exchanges with another node, and between two plans. Default: 1 s.
	Gossip time.Duration
	// DeadAfter is when a node that was not heard of is replaced. Default: 5 min.
	DeadAfter time.Duration
	// StaleBound is how old stale reads may be. Default: 10 s.
	StaleBound time.Duration
	// Clock is the time in milliseconds since 1970. Default: the system's.
	Clock func() int64
}

// LogOptions say how much of the replicated logs is kept.
type LogOptions struct {
	// SnapshotThreshold is the number of entries after which a log is shortened, TrailingLogs what then
	// remains for followers that lag. Defaults: 8192, 10240.
	SnapshotThreshold, TrailingLogs uint64
	// BytesPerSecond bounds the transfer of states. Default: no bound.
	BytesPerSecond int64
}

// ScrubOptions say how fast the node reads its own files to find damage.
type ScrubOptions struct {
	// BytesPerSecond bounds the reading. 0: as much as reads everything in a week, from 64 KiB to 4 MiB; below 0:
	// nothing is read.
	BytesPerSecond int64
	// Every is the shortest time between the beginnings of two passes over all files. Default: 1 h.
	Every time.Duration
}

// MaxGroups is the largest number of groups.
const MaxGroups = 64

func (o *Options) fillDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	o.Groups = cmp.Or(o.Groups, 4)
	o.Replicas = cmp.Or(o.Replicas, 3)
	o.Memory.Cache = cmp.Or(o.Memory.Cache, 256<<20)
	o.Memory.Memtables = cmp.Or(o.Memory.Memtables, 256<<20)
	o.Space.Reserve = cmp.Or(o.Space.Reserve, 256<<20)
	if o.Space.Free == nil {
		o.Space.Free = freeBytes
	}
	o.Timing.Heartbeat = cmp.Or(o.Timing.Heartbeat, time.Second)
	o.Timing.Election = cmp.Or(o.Timing.Election, time.Second)
	o.Timing.Gossip = cmp.Or(o.Timing.Gossip, time.Second)
	o.Timing.DeadAfter = cmp.Or(o.Timing.DeadAfter, 5*time.Minute)
	o.Timing.StaleBound = cmp.Or(o.Timing.StaleBound, 10*time.Second)
	if o.Timing.Clock == nil {
		o.Timing.Clock = func() int64 { return time.Now().UnixMilli() }
	}
	o.Log.SnapshotThreshold = cmp.Or(o.Log.SnapshotThreshold, 8192)
	o.Log.TrailingLogs = cmp.Or(o.Log.TrailingLogs, 10240)
	o.Scrub.Every = cmp.Or(o.Scrub.Every, time.Hour)
}

func (o *Options) validate() error {
	switch {
	case !o.ID.Valid():
		return fmt.Errorf("the node's ID must have 1 to 64 letters, digits, - and _")
	case o.Dir == "":
		return fmt.Errorf("the node needs a directory")
	case o.Groups < 1 || o.Groups > MaxGroups:
		return fmt.Errorf("the number of groups is %d; it must be from 1 to %d", o.Groups, MaxGroups)
	case o.Replicas < 1 || o.Replicas > 9:
		return fmt.Errorf("the number of replicas is %d; it must be from 1 to 9", o.Replicas)
	}
	return nil
}

// address returns the address that others use for a node. Those of a listener at all addresses of a machine are none
// that others could use.
func (o *Options) address(listener net.Addr) (string, error) {
	flag, addr := "--advertise", o.Advertise
	if addr == "" {
		flag, addr = "--listen", listener.String()
	}
	host, port, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: the address for clients and other nodes: %w", flag, err)
	case host == "" || ip != nil && ip.IsUnspecified():
		return "", fmt.Errorf("%s is %s, every address of this machine, which clients and other nodes cannot use: "+
			"say by --advertise HOST:PORT which one they should use", flag, addr)
	case port == "0":
		return "", fmt.Errorf("%s is %s: clients and other nodes need a port", flag, addr)
	}
	return addr, nil
}
