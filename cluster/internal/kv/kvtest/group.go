package kvtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

// state is a group of a World.
type state struct {
	id kv.GroupID

	mu sync.Mutex
	// These are guarded by mu. newest is committed with all pending entries. Tables do not change.
	leader            kv.NodeID
	now               int64
	committed, newest *table
	pending           []*pending
	held              bool
	faults            Faults
	changes           map[string]int // of each key, so that watches notice
	drops             int            // the same for all keys
}

func newState(id kv.GroupID, leader kv.NodeID) *state {
	return &state{id: id, leader: leader, now: Epoch, committed: newTable(), newest: newTable(), changes: map[string]int{}}
}

func (s *state) leaderNow() kv.NodeID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader
}

// commit must be called with mu held.
func (s *state) commit(p *pending) {
	s.committed = p.after
	close(p.done)
}

// pending is an entry. It implements kv.Pending. done is closed when err is final.
type pending struct {
	after *table
	done  chan struct{}
	err   error
}

// Wait implements kv.Pending.
func (p *pending) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	default:
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return kv.ErrUnknown
	}
}

// group is a replica of a group. It implements kv.Group.
type group struct {
	node  *Node
	state *state
}

func (g *group) ID() kv.GroupID { return g.state.id }

// notLeader must be called with mu held.
func (g *group) notLeader() error {
	if g.state.leader == g.node.info.ID {
		return nil
	}
	return &kv.NotLeaderError{Group: g.state.id, Leader: g.node.world.addr(g.state.leader)}
}

func (g *group) Update(ctx context.Context, f func(tx kv.Tx) error) (kv.Pending, error) {
	s := g.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return nil, kv.ErrLate
	}
	if s.faults.Update != nil {
		return nil, s.faults.Update
	}
	if err := g.notLeader(); err != nil {
		return nil, err
	}
	t := &tx{reader: reader{table: s.newest.clone(), now: s.now, groups: len(g.node.world.groups), id: s.id}, owned: map[uint16]bool{}}
	if err := f(t); err != nil {
		return nil, err
	}
	s.newest = t.table
	for _, key := range t.changed {
		s.changes[key]++
	}
	p := &pending{after: t.table, done: make(chan struct{})}
	if s.held {
		s.pending = append(s.pending, p)
	} else {
		s.commit(p)
	}
	return p, nil
}

func (g *group) View(ctx context.Context, stale bool, f func(r kv.Reader) error) error {
	s := g.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	fault := s.faults.View
	if stale {
		fault = s.faults.StaleView
	}
	if fault != nil {
		return fault
	}
	if err := g.notLeader(); err != nil && !stale {
		return err
	}
	return f(&reader{table: s.committed, now: s.now, groups: len(g.node.world.groups), id: s.id})
}

func (g *group) Watch(_ context.Context, keys [][]byte) (kv.Watch, error) {
	s := g.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.Watch != nil {
		return nil, s.faults.Watch
	}
	// Reads do not see what is on its way, so a watch that begins now could miss it.
	w := &watch{state: s, changes: map[string]int{}, drops: s.drops, lost: g.notLeader() != nil || len(s.pending) > 0}
	for _, key := range keys {
		w.changes[string(key)] = s.changes[string(key)]
	}
	return w, nil
}

type watch struct {
	state   *state
	changes map[string]int
	drops   int
	lost    bool
}

// Dirty is called within an Update, so mu is held.
func (w *watch) Dirty() bool {
	for key, n := range w.changes {
		if w.state.changes[key] != n {
			return true
		}
	}
	return w.lost || w.drops != w.state.drops
}

func (w *watch) Close() { w.lost = true }

// table is the keys of each slot, and the outcomes of requests by slot and ID.
type table struct {
	slots    map[uint16]map[string]kv.Value
	outcomes map[string]kv.Value
}

func newTable() *table {
	return &table{slots: map[uint16]map[string]kv.Value{}, outcomes: map[string]kv.Value{}}
}

// clone returns a copy to change. It shares the maps of the slots, which tx.slot copies.
func (t *table) clone() *table { return &table{maps.Clone(t.slots), maps.Clone(t.outcomes)} }

type reader struct {
	table  *table
	now    int64
	groups int
	id     kv.GroupID
}

func (r *reader) Now() int64 { return r.now }

func (r *reader) owns(of uint16) {
	if slot.GroupOf(of, r.groups) != r.id {
		panic("kvtest: a command uses a slot of another group")
	}
}

func (r *reader) Get(key []byte) (kv.Value, bool, error) {
	r.owns(slot.Of(key))
	v, found := r.table.slots[slot.Of(key)][string(key)]
	if !found || v.ExpireAt != 0 && v.ExpireAt <= r.now {
		return kv.Value{}, false, nil
	}
	return v, true, nil
}

func (r *reader) Scan(of uint16, start, limit []byte, reverse bool, f func(key []byte, v kv.Value) bool) error {
	r.owns(of)
	all := r.table.slots[of]
	keys := slices.Sorted(maps.Keys(all))
	if reverse {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if key < string(start) || limit != nil && key >= string(limit) {
			continue
		}
		v := all[key]
		if (v.ExpireAt == 0 || v.ExpireAt > r.now) && !f([]byte(key), v) {
			break
		}
	}
	return nil
}

// tx implements kv.Tx. It changes a copy of the newest table.
type tx struct {
	reader
	owned   map[uint16]bool // slots whose maps are copies
	changed []string
}

// slot returns the keys of a key's slot, to be changed.
func (t *tx) slot(key []byte) map[string]kv.Value {
	of := slot.Of(key)
	t.owns(of)
	if !t.owned[of] {
		t.owned[of] = true
		keys := map[string]kv.Value{}
		maps.Copy(keys, t.table.slots[of])
		t.table.slots[of] = keys
	}
	t.changed = append(t.changed, string(key))
	return t.table.slots[of]
}

func (t *tx) Put(key []byte, v kv.Value) {
	t.slot(key)[string(key)] = kv.Value{Data: slices.Clone(v.Data), ExpireAt: v.ExpireAt}
}

func (t *tx) Delete(key []byte) { delete(t.slot(key), string(key)) }

func outcomeOf(key, id []byte) string { return fmt.Sprint(slot.Of(key), " ", string(id)) }

func (t *tx) Outcome(key, id []byte) ([]byte, error) {
	v, found := t.table.outcomes[outcomeOf(key, id)]
	if !found || v.ExpireAt <= t.now {
		return nil, nil
	}
	return v.Data, nil
}

func (t *tx) SetOutcome(key, id, outcome []byte, until int64) {
	t.table.outcomes[outcomeOf(key, id)] = kv.Value{Data: slices.Clone(outcome), ExpireAt: until}
}

func (t *tx) DeleteAll() {
	for _, keys := range t.table.slots { // those that exist, as in Redis
		t.changed = slices.AppendSeq(t.changed, maps.Keys(keys))
	}
	t.table.slots = map[uint16]map[string]kv.Value{}
	clear(t.owned)
}
