// Package kv is what the rooms of a cluster's node agree on: what a group stores, and how
// commands read and change it. It has no dependencies, so that each room can be tested alone.
package kv

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// SlotCount is the number of slots into which keys are divided, as in Redis Cluster.
const SlotCount = 16384

// GroupID numbers the groups of a cluster from 0. Group 0 also stores the cluster's map.
type GroupID uint32

// NodeID is the name that an operator gave to a node, for all time.
type NodeID string

// Valid reports whether it may be a node's: 1 to MaxNodeID letters, digits, "-" and "_".
func (id NodeID) Valid() bool {
	return len(id) > 0 && len(id) <= MaxNodeID && !strings.ContainsFunc(string(id), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}

// MaxNodeID is the length of the longest NodeID.
const MaxNodeID = 64

// Value is what a key holds.
type Value struct {
	Data []byte
	// ExpireAt is the time at which the key ends, in milliseconds since 1970; 0: never.
	ExpireAt int64
}

// Reader reads a group's state at one moment. A key whose time has come is absent.
// Slices are valid until the function that got the Reader returns.
type Reader interface {
	// Now is the time by which keys expire, in milliseconds since 1970. It is decided by the log,
	// so every replica sees the same, and it never goes back.
	Now() int64
	// Get returns the value of a key.
	Get(key []byte) (Value, bool, error)
	// Scan calls f for the keys of a slot in [start, limit), ascending or descending, until f
	// returns false. nil bounds are none.
	Scan(slot uint16, start, limit []byte, reverse bool, f func(key []byte, v Value) bool) error
}

// Tx is a Reader that sees its own writes, and those of commands before it that are not yet
// committed. Keys and values may be reused after a call.
type Tx interface {
	Reader
	Put(key []byte, v Value)
	Delete(key []byte)
	// DeleteAll deletes all keys of the group.
	DeleteAll()
	// Outcome returns what SetOutcome has stored for the request of an ID in the slot of a key, or nil.
	Outcome(key, id []byte) ([]byte, error)
	// SetOutcome stores the outcome of a request, with the writes of the transaction, until a time in milliseconds
	// since 1970. It is no key: no Reader shows it, and a later DeleteAll leaves it.
	SetOutcome(key, id, outcome []byte, until int64)
}

// Group runs commands on the keys of some slots. Its methods may be called by any goroutine.
type Group interface {
	ID() GroupID

	// Update evaluates f on the newest state, replicates its writes as one entry, and returns a Pending for the commit.
	// Evaluations of a group happen one at a time, in the order of the log. f must not block, and must not keep the Tx.
	// It is called once at most, and has ended when Update returns. If f returns an error, nothing is replicated and
	// Update returns it. If f wrote nothing, the Pending waits until what f has read is committed, and this node is
	// known to lead in the term in which f was evaluated: the result is linearizable. If it leads in another term by
	// then, the Pending fails with ErrDeposed, and f may be evaluated again.
	Update(ctx context.Context, f func(tx Tx) error) (Pending, error)

	// View evaluates f on the committed state. It is linearizable unless stale is true; then this
	// replica answers from what it has, if it has heard from a leader within the bound that the node
	// promises, and otherwise fails with ErrStale. f may be called a second time, and has ended when View returns.
	// What its last call found counts, and only if View returns nil.
	View(ctx context.Context, stale bool, f func(r Reader) error) error

	// Watch begins to watch keys for changes. It is dirty at once if this node does not lead.
	Watch(ctx context.Context, keys [][]byte) (Watch, error)
}

// Pending is an entry on its way.
type Pending interface {
	// Wait waits until the entry is committed and applied here. ErrUnknown means that the entry may or
	// may not be committed; other errors mean that it is not and never will be.
	Wait(ctx context.Context) error
}

// Watch notices changes of keys. It is used by one goroutine at a time.
type Watch interface {
	// Dirty reports, within the function of an Update, whether a key may have changed since Watch.
	Dirty() bool
	// Close ends it. From then on it is dirty.
	Close()
}

// Errors of groups. Servers translate them for their clients.
var (
	// ErrUnknown: the outcome of a write is not known. It may appear later.
	ErrUnknown = errors.New("the outcome of the write is unknown: it was sent to the other replicas, but not confirmed in time")
	// ErrDeposed: the leadership was lost between the evaluation and its confirmation; nothing was done.
	ErrDeposed = errors.New("the leadership of this slot changed before the answer was confirmed")
	// ErrNoQuorum: too few replicas can be reached; nothing was done.
	ErrNoQuorum = errors.New("too few replicas of this slot can be reached")
	// ErrStale: a replica has not heard from a leader for too long to answer stale reads.
	ErrStale = errors.New("this replica has not heard from a leader for too long")
	// ErrBusy: too many writes wait; nothing was done.
	ErrBusy = errors.New("too many writes wait for their replication")
	// ErrLate: other commands of the group took until the time of this one was over; nothing was done.
	ErrLate = errors.New("other commands of this slot's group took until the time of this one was over")
	// ErrTooLong: the command takes longer than it may; nothing was done.
	ErrTooLong = errors.New("the command takes longer than a node gives it")
	// ErrNoSpace: the disk of this node is full; nothing was done.
	ErrNoSpace = errors.New("the disk is full")
	// ErrClosed: the node is stopping; nothing was done.
	ErrClosed = errors.New("the node is closed")
)

// NotLeaderError says that another node leads the group; nothing was done.
type NotLeaderError struct {
	Group GroupID
	// Leader is the address that clients use, or "" if there is no leader now.
	Leader string
}

func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return fmt.Sprintf("group %d has no leader now", e.Group)
	}
	return fmt.Sprintf("group %d is led by %s", e.Group, e.Leader)
}
