package overview

import (
	"cmp"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// States of a node.
const (
	Up      = "up"
	Silent  = "silent"  // it does not answer
	Full    = "full"    // its disk is, and it refuses writes
	Leaving = "leaving" // an operator removes it: its replicas move to other nodes
)

// WhyVersion is the Why of a node that is refused because of its version.
const WhyVersion = "it speaks another version of the protocol between nodes"

// WhyRefused is the Why of a node whose process does not run.
const WhyRefused = "connection refused"

// Overview is a cluster as a node sees it at one moment. The names of its JSON are an interface for scripts.
type Overview struct {
	Node       string `json:"node"` // that was asked
	Cluster    string `json:"cluster"`
	MapVersion uint64 `json:"mapVersion"`
	Replicas   int    `json:"replicas"` // that each group should have
	// Removed reports that the node that was asked is not a part of the cluster any more.
	Removed     bool      `json:"removed,omitempty"`
	HeartbeatMs int64     `json:"heartbeatMs"`
	DeadAfterMs int64     `json:"deadAfterMs"`
	At          time.Time `json:"at"`
	Findings    []Finding `json:"findings"` // the worst first
	Nodes       []Node    `json:"nodes"`
	Groups      []Group   `json:"groups"`
	// Took is how long the slowest answer took. The wait for nodes that are silent does not count.
	Took time.Duration `json:"-"`
}

// Node is a node of the cluster.
type Node struct {
	ID          string `json:"id"`
	Addr        string `json:"addr"`
	Zone        string `json:"zone"`
	Incarnation uint64 `json:"incarnation"`
	State       string `json:"state"`
	Leaving     bool   `json:"leaving,omitempty"` // also if the state is another one
	// Answered reports whether the node has just answered. If not, Why says what happened instead, and SilentMs is the
	// time since its last sign of life.
	Answered bool   `json:"answered"`
	Why      string `json:"why,omitempty"`
	SilentMs int64  `json:"silentMs"`
	Leads    int    `json:"leads"`
	Replicas int    `json:"replicas"`
	// Figures are those of FiguresAgeMs before; nil: never known.
	Figures      *Figures `json:"figures"`
	FiguresAgeMs int64    `json:"figuresAgeMs"`
}

// Figures are what a node says about itself.
type Figures struct {
	Version       string `json:"version"`
	UptimeSeconds int64  `json:"uptimeSeconds"`
	// DiskUsedBytes is the size of all databases of the node, and may be half a minute old; 0: it was not measured with
	// a replica yet.
	DiskUsedBytes    int64 `json:"diskUsedBytes"`
	DiskFreeBytes    int64 `json:"diskFreeBytes"`
	DiskReserveBytes int64 `json:"diskReserveBytes"` // with less free, the node refuses writes
	MemoryBytes      int64 `json:"memoryBytes"`      // of Go's runtime; mapped files are not included
	// FsyncP99Us is the 99th percentile of the fsyncs of the log in the last ten seconds, in microseconds; 0 without
	// any.
	FsyncP99Us        int64   `json:"fsyncP99Us"`
	CommandsPerSecond float64 `json:"commandsPerSecond"` // of clients, in the last ten seconds
	Clients           int64   `json:"clients"`
	// Log is why the log of the node does not work, or "".
	Log string `json:"log,omitempty"`
	// Damage is what the scrub has found and that is not healed, each a sentence without its full stop.
	Damage []string `json:"damage,omitempty"`
}

// Group is a group with its replicas.
type Group struct {
	Group        kv.GroupID `json:"group"`
	First        uint16     `json:"first"` // slots
	Last         uint16     `json:"last"`
	Leader       string     `json:"leader"` // a node that has answered; "" if none leads
	Term         uint64     `json:"term"`
	Commit       uint64     `json:"commit"`       // the highest index known to be committed
	LeaderlessMs int64      `json:"leaderlessMs"` // since a replica heard of a leader; 0 with a leader
	Replicas     []Replica  `json:"replicas"`
	// Gone is the number of voters that do not exist any more: earlier incarnations of nodes. They count for the
	// majority.
	Gone int `json:"gone,omitempty"`
	// Local reports whether the node that was asked has a working replica.
	Local bool `json:"local"`
}

// Replica is a replica of a group.
type Replica struct {
	Node  string `json:"node"`
	Voter bool   `json:"voter"`
	// Known reports whether the node has just answered. If not, Applied and Last are of AgeMs before; 0: never known.
	Known bool  `json:"known"`
	AgeMs int64 `json:"ageMs"`
	// Applied is the index of the last entry that the state has, Last that of the last entry in the log, of LastTerm,
	// which may never have been committed. Lag is what Applied lacks.
	Applied  uint64 `json:"applied"`
	Last     uint64 `json:"last"`
	LastTerm uint64 `json:"lastTerm"`
	Lag      uint64 `json:"lag"`
	// Failed is why the replica does not work, or "". Absent says that it is still to be made.
	Failed string `json:"failed,omitempty"`
	Absent bool   `json:"absent,omitempty"`
}

// Works reports whether the replica can vote and answer.
func (r *Replica) Works() bool { return r.Known && r.Failed == "" && !r.Absent }

// newer compares the logs of two replicas as an election does: if it is positive, r may have acknowledged entries that
// other lacks.
func (r *Replica) newer(other Replica) int {
	return cmp.Or(cmp.Compare(r.LastTerm, other.LastTerm),
		cmp.Compare(max(r.Applied, r.Last), max(other.Applied, other.Last)))
}

// leaves reports whether an operator removes the node.
func (n *Node) leaves() bool { return n.Leaving || n.State == Leaving }

// Tally returns how many voters a group has, how many of them work, and how many must.
func (g *Group) Tally() (voters, working, majority int) {
	for i := range g.Replicas {
		if r := &g.Replicas[i]; r.Voter {
			voters++
			if r.Works() {
				working++
			}
		}
	}
	return voters, working, (voters+g.Gone)/2 + 1
}

// Answering returns the number of nodes that have answered.
func (o *Overview) Answering() (n int) {
	for _, node := range o.Nodes {
		if node.Answered {
			n++
		}
	}
	return n
}

// Led returns the number of groups that have a leader.
func (o *Overview) Led() (n int) {
	for _, g := range o.Groups {
		if g.Leader != "" {
			n++
		}
	}
	return n
}
