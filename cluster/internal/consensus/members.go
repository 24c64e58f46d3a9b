package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// unique returns the address for a server's entry in the configuration. Raft refuses two servers with one address; but
// a new node may have the address of one that died, or that has moved since. What it returns then is none: who dials
// asks Options.Addresses by the ID.
func (g *Group) unique(id, address string) raft.ServerAddress {
	for _, s := range g.Configuration() {
		if s.ID != id && s.Address == address {
			return raft.ServerAddress(address + "/" + id)
		}
	}
	return raft.ServerAddress(address)
}

// AddVoter gives a vote to a server. One that is in the configuration without a vote must answer. It fails with
// ErrNoLiveQuorum if the group would have no quorum that answers; see changeQuorum.
func (g *Group) AddVoter(ctx context.Context, id, address string) error {
	promote := func(servers []raft.Server) []raft.Server {
		for i := range servers {
			if string(servers[i].ID) == id {
				servers[i].Suffrage = raft.Voter
				return servers
			}
		}
		return append(servers, raft.Server{ID: raft.ServerID(id), Suffrage: raft.Voter})
	}
	return g.changeQuorum(ctx, promote, func(r *raft.Raft) raft.Future {
		return r.AddVoter(raft.ServerID(id), g.unique(id, address), 0, 0)
	})
}

// RemoveServer removes a server. A leader may remove itself: it steps down when that is committed. It fails with
// ErrNoLiveQuorum if the servers that remain would have no quorum that answers; see changeQuorum.
func (g *Group) RemoveServer(ctx context.Context, id string) error {
	remove := func(servers []raft.Server) []raft.Server {
		return slices.DeleteFunc(servers, func(s raft.Server) bool { return string(s.ID) == id })
	}
	return g.changeQuorum(ctx, remove, func(r *raft.Raft) raft.Future { return r.RemoveServer(raft.ServerID(id), 0, 0) })
}

// ErrNoLiveQuorum is the error of a change after which too few voters would answer: no write would succeed until others
// return.
var ErrNoLiveQuorum = errors.New("too few of the voters that the group would have answer its leader now")

// changeQuorum makes a change of the servers after which another majority decides. What a plan knows of the servers is
// always old, so this leader first asks those that the group would have: a majority of their voters must acknowledge
// it, in its present term, after the call. after returns the servers after the change; it owns its argument.
func (g *Group) changeQuorum(ctx context.Context, after func([]raft.Server) []raft.Server, begin func(*raft.Raft) raft.Future) error {
	lead := g.leading.current()
	if !lead.Leading {
		return g.notLeader()
	}
	now := g.members()
	next := after(slices.Clone(now))
	if !sameVoters(now, next) && hasVoter(next) { // raft refuses a group without voters by itself
		if err := g.answered(ctx, g.trans.acks, next, lead.Term); err != nil {
			return fmt.Errorf("change the servers of group %d: %w", g.o.Group, err)
		}
	}
	if g.leading.current().Term != lead.Term {
		return g.notLeader()
	}
	if !slices.Equal(now, g.members()) {
		return fmt.Errorf("change the servers of group %d: another change came first", g.o.Group)
	}
	return g.change(ctx, begin)
}

func (g *Group) members() []raft.Server {
	return g.raft.Load().GetConfiguration().Configuration().Servers
}

func hasVoter(servers []raft.Server) bool {
	return slices.ContainsFunc(servers, func(s raft.Server) bool { return s.Suffrage == raft.Voter })
}

func sameVoters(a, b []raft.Server) bool {
	voters := func(all []raft.Server) (ids []raft.ServerID) {
		for _, s := range all {
			if s.Suffrage == raft.Voter {
				ids = append(ids, s.ID)
			}
		}
		return ids
	}
	return slices.Equal(voters(a), voters(b))
}

// answered waits until a majority of the voters among servers has acknowledged this server as the leader of term, with
// answers to what was sent after the call and is in acks. Of transport.acks the present voters are asked at once, and
// others answer the next heartbeat; of transport.replicated, an idle group's answer comes within twice Timing.Commit.
func (g *Group) answered(ctx context.Context, acks *acks, servers []raft.Server, term uint64) error {
	ctx, cancel := context.WithTimeout(ctx, g.patience())
	defer cancel()
	since, number := acks.tick(), g.trans.acks.tick()
	return g.acknowledged(ctx, acks, servers, term, since, func() {
		if acks == g.trans.acks {
			g.confirms.ask(g.members(), term, number, true)
		}
	})
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

// TransferLeadership makes another voter the leader, and returns when this server leads no more.
func (g *Group) TransferLeadership(ctx context.Context, id string) error {
	lead := g.leading.current()
	if !lead.Leading {
		return g.notLeader()
	}
	servers := g.Configuration()
	// Raft would make a nonvoter a candidate, who disturbs the term and cannot win.
	to := slices.IndexFunc(servers, func(s Server) bool { return s.ID == id && s.Voter })
	if to < 0 {
		return fmt.Errorf("transfer the leadership of group %d to %s: it is not a voter of the group", g.o.Group, id)
	}
	// Raft would refuse writes until it has given up a server that it cannot bring up to date. A second attempt would
	// wait for the replication to take the first one's request; a leader that is deposed before it does refuses writes
	// for ever, in later terms too (raft 1.8.0).
	target := []raft.Server{{ID: raft.ServerID(id), Suffrage: raft.Voter}}
	if err := g.answered(ctx, g.trans.replicated, target, lead.Term); err != nil {
		return fmt.Errorf("transfer the leadership of group %d to %s, which has answered no entries now; after a failure they "+
			"pause for up to ten seconds: %w", g.o.Group, id, err)
	}
	_, err := g.await(ctx, func(r *raft.Raft) raft.Future {
		return r.LeadershipTransferToServer(raft.ServerID(id), raft.ServerAddress(servers[to].Address))
	})
	if errors.Is(err, raft.ErrNotLeader) {
		return g.notLeader()
	}
	if err != nil {
		return fmt.Errorf("transfer the leadership of group %d: %w", g.o.Group, err)
	}
	return nil
}
