package consensus

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// Server is a member of a group.
type Server struct {
	ID      string
	Address string
	Voter   bool
}

// Timing is how fast a group notices faults. Zero fields get defaults.
type Timing struct {
	// Heartbeat is how long a follower hears nothing from its leader before it wants an election. Default 1 s.
	// Heartbeats wait for writes to the log, so it must be several times longer than the slowest of them.
	Heartbeat time.Duration
	// Election is how long a candidate waits for votes. At least Heartbeat; default Heartbeat.
	Election time.Duration
	// Lease is how long a leader hears nothing from a quorum before it steps down. At most Heartbeat;
	// default half of it.
	Lease time.Duration
	// Commit is how often an idle leader announces its commit index. Default a 20th of Heartbeat.
	Commit time.Duration
	// RPC bounds each message between nodes; of a snapshot, each 256 KiB. Default 10 times Heartbeat.
	RPC time.Duration
}

func (t Timing) withDefaults() Timing {
	t.Heartbeat = cmp.Or(t.Heartbeat, time.Second)
	t.Election = cmp.Or(t.Election, t.Heartbeat)
	t.Lease = cmp.Or(t.Lease, t.Heartbeat/2)
	t.Commit = cmp.Or(t.Commit, max(t.Heartbeat/20, time.Millisecond))
	t.RPC = cmp.Or(t.RPC, 10*t.Heartbeat)
	return t
}

// Options are what Start needs.
type Options struct {
	// Group is the group's number, for errors.
	Group kv.GroupID
	// ID names this server, for all time. Address is where other nodes and clients reach it.
	ID, Address string

	// Logs must be monotonic (raft.MonotonicLogStore) and let StoreLogs overwrite entries. It may be a SoonDurable.
	Logs   raft.LogStore
	Stable raft.StableStore
	// FSM restores itself: raft does not restore a snapshot into it at the start. It gets configurations as entries.
	FSM       raft.BatchingFSM
	Snapshots raft.SnapshotStore
	// Stream is closed by Close.
	Stream Stream
	// Addresses returns the present address of a server; nil: that of the configuration.
	Addresses func(id string) (string, error)
	// Bootstrap is the group's first configuration. It has no effect if the stores have state.
	Bootstrap []Server

	Timing Timing
	// MaxInFlight and MaxInFlightBytes bound the proposals that wait. Defaults 4096 and 64 MiB.
	MaxInFlight      int
	MaxInFlightBytes int
	// MaxAppend is how many entries are sent and written to the log at a time. Default 256.
	MaxAppend int
	// Raft takes a snapshot after SnapshotThreshold entries and leaves TrailingLogs of them for followers that
	// lag. It looks each SnapshotInterval. Defaults: those of raft, 8192, 10240 and 2 min.
	SnapshotThreshold uint64
	TrailingLogs      uint64
	SnapshotInterval  time.Duration
	// MaxLogBytes shortens the log earlier: a snapshot is taken after as many bytes of entries, and about as many bytes
	// remain. Default 128 MiB.
	MaxLogBytes uint64

	// OnLeadership is called for each change of Leadership, one at a time, in order. It may be nil. It must not
	// call Close.
	OnLeadership func(Leadership)
	// OnFailure is called at most once, if the group cannot continue. It may be nil.
	OnFailure func(error)

	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.ID == "" || o.Address == "":
		return o, errors.New("a group needs the ID and the address of its server")
	case len(o.ID) > maxID:
		return o, fmt.Errorf("the ID of a server has %d bytes, at most %d are possible", len(o.ID), maxID)
	case o.Logs == nil || o.Stable == nil || o.FSM == nil || o.Snapshots == nil || o.Stream == nil || o.Logger == nil:
		return o, errors.New("a group needs Logs, Stable, FSM, Snapshots, Stream and Logger")
	}
	if m, ok := o.Logs.(raft.MonotonicLogStore); !ok || !m.IsMonotonic() {
		return o, fmt.Errorf("the log store %T is not monotonic, which raft needs to recover by snapshots (hashicorp/raft #697)", o.Logs)
	}
	o.Timing = o.Timing.withDefaults()
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 4096)
	o.MaxInFlightBytes = cmp.Or(o.MaxInFlightBytes, 64<<20)
	o.MaxAppend = cmp.Or(o.MaxAppend, 256)
	o.MaxLogBytes = cmp.Or(o.MaxLogBytes, 128<<20)
	if o.OnLeadership == nil {
		o.OnLeadership = func(Leadership) {}
	}
	if o.OnFailure == nil {
		o.OnFailure = func(error) {}
	}
	return o, nil
}

// maxID is how long the ID of a server can be: one byte is its length.
const maxID = 255

// present returns the present address of a server, as far as it is known better than that of the configuration.
func (o *Options) present(id, addr string) string {
	if o.Addresses != nil {
		if now, err := o.Addresses(id); err == nil {
			return now
		}
	}
	return addr
}

func (o *Options) raftConfig() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(o.ID)
	c.HeartbeatTimeout = o.Timing.Heartbeat
	c.ElectionTimeout = o.Timing.Election
	c.LeaderLeaseTimeout = o.Timing.Lease
	c.CommitTimeout = o.Timing.Commit
	c.MaxAppendEntries = o.MaxAppend
	c.BatchApplyCh = true // so that entries share a write to the log
	c.ShutdownOnRemove = false
	c.NoSnapshotRestoreOnStart = true
	c.NoLegacyTelemetry = true
	c.Logger = newLogger(o.Logger)
	c.SnapshotThreshold = cmp.Or(o.SnapshotThreshold, c.SnapshotThreshold)
	c.TrailingLogs = cmp.Or(o.TrailingLogs, c.TrailingLogs)
	c.SnapshotInterval = cmp.Or(o.SnapshotInterval, c.SnapshotInterval)
	return c
}
