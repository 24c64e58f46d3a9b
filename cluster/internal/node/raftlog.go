package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/sievedb/sievedb/cluster/internal/consensus"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/replica"
)

// raftLog is the replica.Log of a group.
type raftLog struct {
	*consensus.Group
	mu      sync.Mutex
	changed chan struct{} // closed at the next change of the leadership
	failed  error         // why raft has ended
}

var _ replica.Log = (*raftLog)(nil)

func newRaftLog() *raftLog { return &raftLog{changed: make(chan struct{})} }

// Propose implements replica.Log.
func (l *raftLog) Propose(data []byte) (replica.Future, error) {
	f := l.Group.Propose(data)
	select {
	case <-f.Done(): // refused, unless it was very fast
		if _, _, err := f.Wait(context.Background()); err != nil && !errors.Is(err, kv.ErrUnknown) {
			return nil, err
		}
	default:
	}
	return f, nil
}

// Leads implements replica.Log.
func (l *raftLog) Leads() bool { return l.Leadership().Leading }

// Term implements replica.Log. While this server leads, it is the term in which it does.
func (l *raftLog) Term() uint64 {
	if now := l.Leadership(); now.Leading {
		return now.Term
	}
	return l.Group.Term()
}

// Leader implements replica.Log.
func (l *raftLog) Leader() string {
	id, _ := l.Group.Leader()
	return id
}

// LeadershipChanged implements replica.Log.
func (l *raftLog) LeadershipChanged() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func (l *raftLog) onLeadership(consensus.Leadership) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *raftLog) onFailure(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
}

// err returns why raft has ended, or nil.
func (l *raftLog) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// err returns why the replica does not work any more, or nil.
func (h *hosted) err() error {
	if err := h.state.Err(); err != nil {
		return err
	}
	return h.log.err()
}

// applied is the index of the last entry that the state has applied.
func (h *hosted) applied() uint64 {
	index, _ := h.state.Applied()
	return index
}

// servers returns the group's configuration.
func (h *hosted) servers() []server {
	var all []server
	for _, s := range h.log.Configuration() {
		all = append(all, server{s.ID, s.Voter})
	}
	return all
}

// describe returns lines "name:value" for RAFT.STATUS.
func (h *hosted) describe() string {
	s := h.log.Stats()
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%s:%v\r\n", name, value) }
	line("group", h.id)
	line("server", h.server)
	line("state", strings.ToLower(s.State))
	line("term", s.Term)
	line("leader", s.Leader)
	line("last_index", s.LastIndex)
	line("commit_index", s.CommitIndex)
	line("applied_index", h.applied())
	line("in_flight", s.InFlight)
	for _, server := range h.servers() {
		line("member", fmt.Sprintf("%s voter=%v", server.ID, server.Voter))
	}
	return b.String()
}
