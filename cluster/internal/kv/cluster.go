package kv

import "context"

// NodeInfo describes a node for clients.
type NodeInfo struct {
	ID   NodeID
	Addr string // host:port for clients and peers
	Zone string
	// Up reports whether this node has heard from it lately.
	Up bool
}

// SlotRange is the slots of a group and where its replicas are.
type SlotRange struct {
	Group       GroupID
	First, Last uint16 // inclusive
	Leader      NodeID // "" if none is known
	Replicas    []NodeID
}

// Cluster is what a server of clients needs of the node.
type Cluster interface {
	Self() NodeInfo
	// Group returns the group of a slot if it has a replica here.
	Group(slot uint16) (Group, bool)
	// Local returns the groups that have a replica here; leading reports for each whether it leads.
	Local() (groups []Group, leading []bool)
	// Map returns the nodes, and the slots with their replicas, as far as this node knows.
	Map() ([]NodeInfo, []SlotRange)
	// Leader returns the address of the node that leads a slot's group, or "".
	Leader(slot uint16) string
	// Operate runs an operator's command, such as RAFT.NODES. It returns what RESP can
	// encode: string, int64, []byte, nil, []any of these.
	Operate(ctx context.Context, args [][]byte) (any, error)
	// Info returns the sections of INFO, in the form of Redis: lines "name:value".
	Info(section string) string
}
