package logstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/db"
)

// The kinds of keys. They reach the disk and never change.
const (
	logTag    = 'l'
	stableTag = 's'

	logKeyLen = 13
)

// maxScratch bounds the memory in bytes that a group keeps for encoding entries.
const maxScratch = 1 << 20

// ErrGap refuses entries that do not follow the last one, and deletions that would leave a hole.
var ErrGap = errors.New("the log would have a gap")

// Group is the log and the stable store of one group.
type Group struct {
	s  *Store
	id kv.GroupID

	// storing is held while entries are stored, one batch after another. It guards batch and scratch.
	storing sync.Mutex
	batch   db.Batch
	scratch []byte

	// mu guards what follows. It is not held during reads and writes of the database.
	mu          sync.RWMutex
	first, last uint64 // 0 and 0: the log is empty
	deletions   uint64 // how many were begun
	deleting    int    // how many run
	// durable is the last entry that survives a power cut, with all before it. Those after it are in tail, and the
	// writer has them or finds them in next.
	durable uint64
	tail    []*raft.Log
	next    *db.Batch
	synced  chan struct{} // closed, and replaced, when durable has grown; nil if nothing waits
}

var (
	_ raft.LogStore          = (*Group)(nil)
	_ raft.StableStore       = (*Group)(nil)
	_ raft.MonotonicLogStore = (*Group)(nil)
)

func newGroup(s *Store, id kv.GroupID) *Group { return &Group{s: s, id: id} }

func (g *Group) logKey(index uint64) []byte {
	key := appendGroup(make([]byte, 0, logKeyLen), g.id)
	return binary.BigEndian.AppendUint64(append(key, logTag), index)
}

// load sets where the log begins and ends.
func (g *Group) load(it *db.Iterator) error {
	prefix := append(appendGroup(nil, g.id), logTag)
	if !it.SeekGE(prefix) || !bytes.HasPrefix(it.Key(), prefix) {
		return it.Err()
	}
	if len(it.Key()) != logKeyLen {
		return fmt.Errorf("the log of group %d has a key of %d bytes", g.id, len(it.Key()))
	}
	g.first = binary.BigEndian.Uint64(it.Key()[5:])
	if !it.SeekLT(append(appendGroup(nil, g.id), logTag+1)) {
		return it.Err()
	}
	if len(it.Key()) != logKeyLen {
		return fmt.Errorf("the log of group %d has a key of %d bytes", g.id, len(it.Key()))
	}
	g.last = binary.BigEndian.Uint64(it.Key()[5:])
	g.durable = g.last
	return nil
}

// IsMonotonic returns true. raft then drops the whole log when it has installed a snapshot, instead of
// keeping entries that may contradict it: hashicorp/raft issue 697, in which a follower with such
// entries refuses all that follow, and is sent snapshots for ever. It is also true: the log has no gaps.
func (g *Group) IsMonotonic() bool { return true }

// FirstIndex returns the index of the first entry, 0 if there is none.
func (g *Group) FirstIndex() (uint64, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.first, nil
}

// LastIndex returns the index of the last entry, 0 if there is none.
func (g *Group) LastIndex() (uint64, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.last, nil
}

// GetLog reads an entry, or returns raft.ErrLogNotFound as it is, because raft compares it so.
func (g *Group) GetLog(index uint64, l *raft.Log) error {
	found := g.find(index)
	switch {
	case !found.there:
		return raft.ErrLogNotFound
	case found.entry != nil:
		*l = *found.entry
		return nil
	}
	b, err := g.s.db.Get(g.logKey(index))
	if errors.Is(err, db.ErrNotFound) {
		if !found.staysUntil(g.find(index)) {
			return raft.ErrLogNotFound // it was deleted meanwhile
		}
		return g.s.fail(fmt.Errorf("entry %d of group %d is missing from its log: %w", index, g.id, db.ErrCorruption))
	}
	if err == nil {
		if err = parseEntry(b, l); err == nil {
			l.Index = index
			return nil
		}
		err = g.s.fail(err)
	}
	return fmt.Errorf("read entry %d of group %d: %w", index, g.id, g.s.failIfDamaged(err))
}

// place is where the log has an entry at one moment, and what its deletions are doing then.
type place struct {
	there     bool
	entry     *raft.Log // nil if the database has it
	deletions uint64    // that were begun
	deleting  bool      // some run
}

// find returns the place of an entry.
func (g *Group) find(index uint64) place {
	g.mu.RLock()
	defer g.mu.RUnlock()
	p := place{there: g.last != 0 && index >= g.first && index <= g.last, deletions: g.deletions, deleting: g.deleting > 0}
	if p.there && len(g.tail) > 0 && index >= g.tail[0].Index {
		p.entry = g.tail[index-g.tail[0].Index]
	}
	return p
}

// staysUntil reports whether the entry was in the log all the time until later. A deletion that ran at the first moment
// may have taken the entry, and may have ended since, and another entry may have been stored in its place.
func (p place) staysUntil(later place) bool {
	return p.there && later.there && !p.deleting && !later.deleting && p.deletions == later.deletions
}

// StoreLog is StoreLogs for one entry.
func (g *Group) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

// StoreLogs stores entries that follow the last one, all or none. They are durable when it returns. Any index
// may be the first of an empty log. Other entries are refused with ErrGap: raft stores none with a monotonic
// store, unless it lost track after an error.
func (g *Group) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	g.storing.Lock()
	defer g.storing.Unlock()
	last := logs[len(logs)-1].Index
	if g.Durable() != g.lastIndex() { // those before are on their way
		if err := g.storeSoon(logs); err != nil {
			return err
		}
		return g.WaitDurable(context.Background(), last)
	}
	if err := g.encode(logs); err != nil {
		return err
	}
	if err := g.s.apply(&g.batch, db.Sync); err != nil {
		return fmt.Errorf("store %d entries of group %d: %w", len(logs), g.id, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.appendLocked(logs)
	g.setDurableLocked(last)
	return nil
}

// encode checks entries and makes a batch of them. storing must be locked.
func (g *Group) encode(logs []*raft.Log) error {
	if err := g.checkOrder(logs); err != nil {
		return err
	}
	g.batch.Reset()
	for _, l := range logs {
		var err error
		if g.scratch, err = appendEntry(g.scratch[:0], l); err != nil {
			return err
		}
		g.batch.Put(g.logKey(l.Index), g.scratch)
	}
	if cap(g.scratch) > maxScratch {
		g.scratch = nil
	}
	return nil
}

// appendLocked notes that the log has these entries too.
func (g *Group) appendLocked(logs []*raft.Log) {
	if g.last == 0 {
		g.first = logs[0].Index
		g.durable = g.first - 1
	}
	g.last = logs[len(logs)-1].Index
}

func (g *Group) lastIndex() uint64 {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.last
}

// checkOrder returns an error for entries that do not continue the log.
func (g *Group) checkOrder(logs []*raft.Log) error {
	g.mu.RLock()
	next := g.last + 1
	g.mu.RUnlock()
	if next == 1 {
		next = logs[0].Index
	}
	if next == 0 || logs[len(logs)-1].Index == math.MaxUint64 {
		return fmt.Errorf("group %d: entries cannot have the indexes 0 and 2^64-1", g.id)
	}
	for _, l := range logs {
		if l.Index != next {
			return fmt.Errorf("group %d: entry %d was to be stored, and entry %d is next: %w", g.id, l.Index, next, ErrGap)
		}
		next++
	}
	return nil
}

// DeleteRange deletes the entries from lowest to highest, both included, which must be the first ones, the
// last ones, or all. Indexes that the log does not have are ignored. After a power cut the
// entries may be there again, unless a later entry was stored.
func (g *Group) DeleteRange(lowest, highest uint64) error {
	// The writer must not add what is deleted.
	if err := g.WaitDurable(context.Background(), highest); err != nil {
		return err
	}
	start, limit, err := g.beginDeletion(lowest, highest)
	if err != nil || start == nil {
		return err
	}
	return g.endDeletion(lowest, highest, g.s.deleteRange(start, limit))
}

// endDeletion notes what the database has deleted, if err is nil.
func (g *Group) endDeletion(lowest, highest uint64, err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deleting--
	switch {
	case err != nil:
		return fmt.Errorf("delete entries of group %d: %w", g.id, err)
	case g.last == 0: // another deletion took all
	case lowest > g.first:
		g.last = lowest - 1
		g.durable = min(g.durable, g.last)
	case highest >= g.last:
		g.first, g.last, g.durable = 0, 0, 0
	default: // perhaps entries were added to those that were all
		g.first = highest + 1
		g.durable = max(g.durable, highest)
	}
	return nil
}

// beginDeletion returns the keys to delete, nil if there are none.
func (g *Group) beginDeletion(lowest, highest uint64) (start, limit []byte, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.last == 0 || lowest > highest || highest < g.first || lowest > g.last:
		return nil, nil, nil
	case lowest > g.first && highest < g.last:
		return nil, nil, fmt.Errorf("delete the entries %d to %d of %d to %d of group %d: %w", lowest, highest, g.first, g.last, g.id, ErrGap)
	}
	g.deletions++
	g.deleting++
	return g.logKey(max(lowest, g.first)), g.logKey(min(highest, g.last) + 1), nil
}

func (g *Group) stableKey(key []byte) []byte {
	return append(append(appendGroup(nil, g.id), stableTag), key...)
}

// Set stores a value under a name. It is durable when it returns.
func (g *Group) Set(key, value []byte) error {
	var b db.Batch
	b.Put(g.stableKey(key), value)
	if err := g.s.apply(&b, db.Sync); err != nil {
		return fmt.Errorf("store a value of group %d: %w", g.id, err)
	}
	return nil
}

// Get returns the value of a name, nil if there is none.
func (g *Group) Get(key []byte) ([]byte, error) {
	v, err := g.s.db.Get(g.stableKey(key))
	switch {
	case errors.Is(err, db.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read a value of group %d: %w", g.id, g.s.failIfDamaged(err))
	}
	return v, nil
}

// SetUint64 stores a number under a name. It is durable when it returns.
func (g *Group) SetUint64(key []byte, n uint64) error {
	return g.Set(key, binary.BigEndian.AppendUint64(nil, n))
}

// GetUint64 returns the number of a name, 0 if there is none.
func (g *Group) GetUint64(key []byte) (uint64, error) {
	v, err := g.Get(key)
	switch {
	case err != nil || v == nil:
		return 0, err
	case len(v) != 8:
		return 0, fmt.Errorf("a value of group %d has %d bytes, and a number has 8", g.id, len(v))
	}
	return binary.BigEndian.Uint64(v), nil
}
