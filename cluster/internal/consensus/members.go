package consensus

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// Configuration returns the newest configuration that this server knows. It may not be committed yet. It has no
// index, because raft v1.8.0 does not report it (GetConfiguration reports 0).
func (g *Group) Configuration() []Server {
	var servers []Server
	for _, s := range g.raft.Load().GetConfiguration().Configuration().Servers {
		servers = append(servers, Server{ID: string(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter})
	}
	return servers
}

// AddNonvoter adds a server that gets the log and has no vote. A voter stays one.
func (g *Group) AddNonvoter(ctx context.Context, id, address string) error {
	return g.change(ctx, func(r *raft.Raft) raft.Future {
		return r.AddNonvoter(raft.ServerID(id), g.unique(id, address), 0, 0)
	})
}

// unique returns the address for a server's entry in the configuration. Raft refuses two servers with one address; but a
// new node may have the address of one that died, or that has moved since. What it returns then is none: who dials asks
// Options.Addresses by the ID.
func (g *Group) unique(id, address string) raft.ServerAddress {
	for _, s := range g.Configuration() {
		if s.ID != id && s.Address == address {
			return raft.ServerAddress(address + "/" + id)
		}
	}
	return raft.ServerAddress(address)
}

// AddVoter adds a server with a vote, or gives one to a nonvoter.
func (g *Group) AddVoter(ctx context.Context, id, address string) error {
	return g.change(ctx, func(r *raft.Raft) raft.Future {
		return r.AddVoter(raft.ServerID(id), g.unique(id, address), 0, 0)
	})
}

// RemoveServer removes a server. A leader may remove itself: it steps down when that is committed.
func (g *Group) RemoveServer(ctx context.Context, id string) error {
	return g.change(ctx, func(r *raft.Raft) raft.Future { return r.RemoveServer(raft.ServerID(id), 0, 0) })
}

// change changes the configuration and waits until that is committed. Its errors mean the same as those of a
// proposal, except that others than kv.ErrUnknown and *kv.NotLeaderError say what is wrong with the change.
func (g *Group) change(ctx context.Context, begin func(*raft.Raft) raft.Future) error {
	f, err := g.await(ctx, begin)
	switch {
	case err == nil:
		return nil
	case f == nil: // no answer
		if errors.Is(err, kv.ErrClosed) {
			return err
		}
		return fmt.Errorf("%w: %w", kv.ErrUnknown, err)
	}
	index := f.(raft.IndexFuture).Index()
	if index == 0 && !errors.Is(err, raft.ErrNotLeader) && !errors.Is(err, raft.ErrRaftShutdown) &&
		!errors.Is(err, raft.ErrLeadershipTransferInProgress) {
		return fmt.Errorf("change the servers of group %d: %w", g.o.Group, err)
	}
	return g.proposalError(err, index > 0)
}

// TransferLeadership makes another voter the leader, and returns when this server leads no more. With id "" raft
// chooses the voter that has most of the log.
func (g *Group) TransferLeadership(ctx context.Context, id string) error {
	begin := func(r *raft.Raft) raft.Future { return r.LeadershipTransfer() }
	if id != "" {
		var to *Server
		for _, s := range g.Configuration() {
			// Raft would make a nonvoter a candidate, who disturbs the term and cannot win.
			if s.ID == id && s.Voter {
				to = &s
			}
		}
		if to == nil {
			return fmt.Errorf("transfer the leadership of group %d to %s: it is not a voter of the group", g.o.Group, id)
		}
		begin = func(r *raft.Raft) raft.Future {
			return r.LeadershipTransferToServer(raft.ServerID(to.ID), raft.ServerAddress(to.Address))
		}
	}
	_, err := g.await(ctx, begin)
	if errors.Is(err, raft.ErrNotLeader) {
		return g.notLeader()
	}
	if err != nil {
		return fmt.Errorf("transfer the leadership of group %d: %w", g.o.Group, err)
	}
	return nil
}
