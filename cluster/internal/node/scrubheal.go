package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/db"
)

// Damage that a scrub finds harms nobody yet, so it is healed only if that is safe.
//
//   - A log (of the state or of the log store): the database has its records in memory, and writes them to a table.
//   - A table of a state: the replica is taken out and gets the state of another one, as after a read that finds
//     damage. The leader of the group must say before that the other voters are a majority that works and is sound, and
//     no other replica may be healing. A leader hands its leadership over first.
//   - A table of the log store: entries or votes may be lost, and a voter that has forgotten what it acknowledged must
//     not vote. So the node joins again as another server, with an empty log, if the leaders of all its groups and that
//     of group 0, which admits it, say the same. If it is not admitted, since others have failed meanwhile, it goes on
//     with the log that it has.
//
// Otherwise the damage is reported as a problem of the node, and the next attempt follows.

var (
	// errNoSpare says that a group cannot do without a replica now.
	errNoSpare = errors.New("the group needs this replica")
	// errScrubbed is damage that only a scrub has met.
	errScrubbed = errors.New("the scrub found damage")
	// errHandedOver says that a replica led its group until just now.
	errHandedOver = errors.New("the leadership of the group was handed over just now")
)

// sparePatience is how long a leader expects a replica to be out before it lets another one out, if it hears nothing of
// the first.
const sparePatience = time.Minute

// maxHealBackoff bounds the time between two attempts: a minute, if nodes exchange news each second.
const maxHealBackoff = 6

// finding is damage that the scrub has found and that is not healed.
type finding struct {
	*scrubbed
	path  string
	err   error
	waits error // why it is not healed yet
	// incarnation is that of the node when it was found. In a later one, the log store is another.
	incarnation uint64

	// These are of scrubHealLoop.
	out     bool // its database was taken out
	tries   int
	retryAt time.Time
}

// spared are the replicas that leaders on this node have let out.
type spared map[kv.GroupID]sparing

type sparing struct {
	server string
	until  time.Time
}

// foundDamage notes a damaged file, and heals it at once if it is a log.
func (n *Node) foundDamage(s *scrubbed, path string, err error) {
	if !errors.Is(err, db.ErrCorruption) {
		err = fmt.Errorf("%w: %w", db.ErrCorruption, err) // a disk that cannot read it
	}
	err = fmt.Errorf("%w in %s: %s: %w", errScrubbed, s, filepath.Base(path), err)
	incarnation := n.self().Incarnation
	n.scrub.mu.Lock()
	known := slices.ContainsFunc(n.scrub.findings, func(f *finding) bool {
		return f.path == path && f.h == s.h && (f.logs == s.logs || f.incarnation == incarnation)
	})
	if !known {
		n.scrub.did.Found++
		n.scrub.findings = append(n.scrub.findings, &finding{scrubbed: s, path: path, err: err, incarnation: incarnation})
	}
	n.scrub.mu.Unlock()
	if !known {
		n.o.Logger.Error("the scrub found damage", "path", path, "err", err)
	}
}

// damaged reports whether there is damage that concerns a replica.
func (s *scrubber) damaged(p *place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.findings, func(f *finding) bool {
		return isTable(f.path) && (f.place == nil || f.place == p)
	})
}

// problems says what was found and is not healed.
func (s *scrubber) problems() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.findings {
		text := f.err.Error()
		if f.waits != nil {
			text += fmt.Sprintf("; it is not healed yet: %v", f.waits)
		}
		all = append(all, text)
	}
	return all
}

// open returns what is not healed.
func (s *scrubber) open() []*finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.findings)
}

// scrubHealLoop heals what the scrub has found.
func (n *Node) scrubHealLoop(ctx context.Context) {
	n.every(ctx, n.o.Timing.Gossip, func() {
		for _, f := range n.scrub.open() {
			if !f.out && time.Now().Before(f.retryAt) {
				continue // looking whether a table is in use is work, too
			}
			over, healed := n.isOver(f)
			waits := f.waits
			if !over && !f.out {
				waits = n.healFinding(ctx, f)
				f.tries++
				if errors.Is(waits, errHandedOver) {
					f.tries = 0 // at once, before leaders are balanced
				}
				f.retryAt = time.Now().Add(n.o.Timing.Gossip << min(f.tries, maxHealBackoff))
			}
			n.noteHealing(f, waits, over, healed)
		}
	})
}

// noteHealing notes how far the healing of a finding is.
func (n *Node) noteHealing(f *finding, waits error, over, healed bool) {
	n.scrub.mu.Lock()
	news := fmt.Sprint(waits) != fmt.Sprint(f.waits)
	f.waits = waits
	if healed {
		n.scrub.did.Healed++
	}
	if over {
		n.scrub.findings = slices.DeleteFunc(n.scrub.findings, func(other *finding) bool { return other == f })
	}
	n.scrub.mu.Unlock()
	switch {
	case healed:
		n.o.Logger.Info("damage that the scrub found is healed", "path", f.path)
	case news && waits != nil:
		n.o.Logger.Warn("damage that the scrub found cannot be healed yet", "path", f.path, "err", waits)
	}
}

// isOver reports whether nothing is left to do about damage: its database was replaced, or does not have the file any
// more. A database that was opened again for another reason may still have it; the next pass finds it once more.
func (n *Node) isOver(f *finding) (over, healed bool) {
	replaced, works := false, false
	if f.place == nil {
		now := n.logs.get()
		replaced, works = now != f.logs, now != nil
		if replaced && works && n.self().Incarnation == f.incarnation { // the same log was opened again
			n.scrub.mu.Lock()
			f.scrubbed, f.out = &scrubbed{logs: now, dir: f.dir}, false
			n.scrub.mu.Unlock()
			replaced = false
		}
	} else {
		now := f.place.get()
		replaced, works = now != f.h, now != nil || !f.place.isHosted()
	}
	if replaced {
		again := f.place == nil && n.self().Incarnation != f.incarnation // a read had found it, too
		return works, works && (f.out || again)
	}
	gone := !f.out && !n.inUse(f.scrubbed, f.path)
	return gone, gone
}

// healFinding heals damage, or returns why that must wait.
func (n *Node) healFinding(ctx context.Context, f *finding) error {
	if !isTable(f.path) {
		return f.withDB((*db.DB).Flush)
	}
	ctx, cancel := context.WithTimeout(ctx, 4*n.callTimeout())
	defer cancel()
	if f.place != nil {
		if err := n.askSpare(ctx, f.h); err != nil {
			return err
		}
		f.out = true
		f.h.state.Damaged(f.err)
		return nil
	}
	var waits error
	for _, h := range n.running() {
		err := n.askSpare(ctx, h)
		if err != nil {
			waits = fmt.Errorf("group %d: %w", h.id, err)
		}
		if err != nil && !errors.Is(err, errHandedOver) {
			return waits
		}
	}
	if waits != nil {
		return waits
	}
	if n.replica(0) == nil {
		if err := n.callLeaderOnce(ctx, 0, "spare", spareRequest{0, n.self().Server()}, &struct{}{}); err != nil {
			return fmt.Errorf("group 0, which admits nodes: %w", err)
		}
	}
	f.out = true
	f.logs.Damaged(f.err)
	return nil
}

// askSpare returns nil if a group can do without its replica here for a while. If that leads, it hands the leadership
// over, and the answer is an error once more.
func (n *Node) askSpare(ctx context.Context, h *hosted) error {
	if !h.log.Leads() {
		return n.callLeaderOnce(ctx, h.id, "spare", spareRequest{h.id, h.server}, &struct{}{})
	}
	if err := n.maySpare(ctx, h, h.server); err != nil {
		return err
	}
	to := n.successor(h)
	if to == "" {
		return fmt.Errorf("%w: it leads, and there is no successor", errNoSpare)
	}
	if err := h.log.TransferLeadership(ctx, to); err != nil {
		return err
	}
	return errHandedOver
}

// spareRequest asks the leader of a group whether a replica may be out for a while.
type spareRequest struct {
	Group  kv.GroupID `json:"group"`
	Server string     `json:"server"`
}

// onSpare answers for a group that this node leads. It lets one replica out at a time.
func (n *Node) onSpare(ctx context.Context, r spareRequest) (struct{}, error) {
	h, err := n.hostedGroup(r.Group)
	if err != nil || !h.log.Leads() {
		return struct{}{}, n.notLeader(r.Group)
	}
	if err := n.maySpare(ctx, h, r.Server); err != nil {
		return struct{}{}, err
	}
	n.scrub.mu.Lock()
	defer n.scrub.mu.Unlock()
	if other, found := n.scrub.spared[r.Group]; found && other.server != r.Server && time.Now().Before(other.until) {
		return struct{}{}, fmt.Errorf("%w: %s is healing", errNoSpare, other.server)
	}
	if n.scrub.spared == nil {
		n.scrub.spared = spared{}
	}
	n.scrub.spared[r.Group] = sparing{r.Server, time.Now().Add(sparePatience)}
	return struct{}{}, nil
}

// maySpare returns nil if the voters of a group without one are a majority of all voters, each of which answers, works,
// is sound and has nearly all entries. It confirms that this node leads the group.
func (n *Node) maySpare(ctx context.Context, h *hosted, server string) error {
	servers := h.servers()
	if _, err := h.log.ReadIndex(ctx); err != nil {
		return err
	}
	commit := h.log.Stats().CommitIndex
	m := n.atlas.chart()
	replies := map[kv.NodeID]*statusReply{}
	for i, r := range n.askAll(ctx, m, nil, statusRequest{}) {
		replies[m.Nodes[i].ID] = r
	}
	sound, all := 0, voters(servers)
	for _, s := range servers {
		r := replies[nodeOf(s.ID)]
		if s.ID == server || r == nil || r.Member.Server() != s.ID {
			continue
		}
		status, hosted := r.Replicas[h.id]
		if status.Failed != "" {
			return fmt.Errorf("%w: the replica on node %s does not work: %s", errNoSpare, nodeOf(s.ID), status.Failed)
		}
		if s.Voter && hosted && !status.Damaged && status.Applied+caughtUp >= commit {
			sound++
		}
	}
	if sound <= len(all)/2 {
		return fmt.Errorf("%w: of its %d voters, %d others answer and are sound", errNoSpare, len(all), sound)
	}
	if !h.log.Leads() || !slices.Equal(servers, h.servers()) {
		return errChanged
	}
	return nil
}
