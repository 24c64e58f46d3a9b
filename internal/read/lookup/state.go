package lookup

import (
	"slices"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/memtable"
)

// State is everything that a lookup needs, in the order in which it is consulted. It is
// immutable, except for the content of the active memtable.
type State struct {
	Mem     *Memtable
	Imm     []*Memtable // newest first
	Version *version.Version
}

// Memtables returns all memtables, the newest first.
func (s *State) Memtables() []*Memtable { return append([]*Memtable{s.Mem}, s.Imm...) }

// Logs returns the numbers of the logs of the memtables, the oldest first.
func (s *State) Logs() (nums []uint64) {
	for _, m := range slices.Backward(s.Memtables()) {
		nums = append(nums, m.LogNum)
	}
	return nums
}

// Memtable is a memtable with the log that makes it durable.
type Memtable struct {
	*memtable.Memtable
	LogNum uint64
	MaxSeq uint64       // set when the memtable becomes immutable, for its flush only
	Grant  *share.Grant // its memory; nil if stores share none

	// Gain is what the flush frees; nil if it is not flushed for that. It is set before MaxSeq.
	Gain *version.Gain
	// Hinders says that it is flushed because its tombstones hinder iterators. It is set before MaxSeq.
	Hinders bool

	lookedAt atomic.Bool // by a lookup
}

// noteLookup says that a lookup has come to the memtable.
func (m *Memtable) noteLookup() {
	if !m.lookedAt.Load() {
		m.lookedAt.Store(true)
	}
}

// Follow decides whether the memtable, which is new, has a filter from the beginning: if a lookup has come to the one
// before it. A program that only loads does not pay for filters. If lookups come all the same, they make it.
func (m *Memtable) Follow(before *Memtable) {
	if !before.lookedAt.Load() {
		m.OmitFilter()
	}
}

// Free releases the memory of a memtable that will never be flushed.
func (m *Memtable) Free() {
	m.Settle()
	m.Grant.Release()
}

// Memory returns the number of bytes that the memtable uses.
func (m *Memtable) Memory() uint64 { return uint64(m.Capacity() + m.FilterSize() + m.GuideSize()) }

// Current is what readers see now.
type Current struct {
	// State is the current state. Its owner replaces it; readers only load it.
	State atomic.Pointer[State]
	// VisibleSeq is the last sequence number that readers may see.
	VisibleSeq atomic.Uint64
}

// At is the moment that a lookup or an iterator shows. A nil At shows the newest visible entries of the current state.
type At struct {
	// Seq hides newer entries.
	Seq uint64
	// Time hides values that have expired by then, by Options.Expiry; 0 means the present time.
	Time uint64
	// State is a pinned state: the caller has a reference to its version until the call
	// returns. If it is nil, the current state is searched.
	State *State
	// Ends, if not nil, is made the time at which the first of the values that are found expires, if it
	// is earlier than what is there; expiry.Never for none. Lookups at the same time must not share it.
	Ends *uint64
}

// lowerEnds records the time at which a value that was read expires, if it is the earliest.
func (a *At) lowerEnds(ends uint64) {
	if a != nil && a.Ends != nil {
		*a.Ends = expiry.Earlier(*a.Ends, ends)
	}
}

// time returns the time for Policy.Open.
func (a *At) time() uint64 {
	if a == nil {
		return 0
	}
	return a.Time
}

// load returns the state that a lookup searches and the sequence number that it uses.
func (c *Current) load(at *At) (*State, uint64) {
	// The state first, the sequence number second: see the package comment.
	s := c.State.Load()
	switch {
	case at == nil:
		return s, c.VisibleSeq.Load()
	case at.State == nil:
		return s, at.Seq
	}
	return at.State, at.Seq
}

// Ref returns the current state and takes a reference to its version; the caller releases it with State.Version.Unref.
func (c *Current) Ref() *State {
	for {
		if s := c.State.Load(); s.Version.TryRef() {
			return s
		}
	}
}

// StateAt returns a state and a sequence number of the same moment. A number that is newer than the state would show a
// part of a batch, or writes after a load without the load. A lookup of one key needs less: see load.
func (c *Current) StateAt(at *At) (*State, uint64) {
	s, seq := c.load(at)
	for at == nil {
		now := c.State.Load()
		if now == s {
			break
		}
		s, seq = now, c.VisibleSeq.Load()
	}
	return s, seq
}

// RefAt is StateAt with a reference to the state's version taken. If the owner of a pinned state releases it
// concurrently, the current state may be returned: then the caller must not use what it reads.
func (c *Current) RefAt(at *At) (*State, uint64) {
	for {
		s, seq := c.StateAt(at)
		if s.Version.TryRef() {
			return s, seq
		}
		if at != nil {
			at = &At{Seq: at.Seq}
		}
	}
}
