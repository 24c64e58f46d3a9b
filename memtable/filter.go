package memtable

import (
	"math/bits"
	"sync/atomic"

	"github.com/sievedb/sievedb/util"
)

// runFilter says which user keys are not in a memtable. It is a bloom filter
// whose keys have one word each: four bits of 64, set by one atomic Or and tested
// with one load. Bits are never cleared.
//
// No false negatives, whatever runs at once: an Add sets its bits before it links
// the entry, thus before it returns, before its caller publishes the entry's
// sequence number, and before any reader can have learnt that number. Go's
// atomics are sequentially consistent, so a reader that has seen the number, or
// anything else that was written after the Add, sees the bits. A reader that has
// not may miss an entry that is being added, and so it may in the list.
//
// Why a word and not a cache line of eight: the second and third atomic Or of an
// insertion cost more than what a line saves. At 18 bits an entry a word errs on
// 0.38 % of the absent keys and a line on 0.18 %, at 5 bits on 10.4 and 9.4 %; the
// difference is a nanosecond or two of a lookup. Three bits or five err more often
// at one end or the other.
type runFilter struct {
	words []atomic.Uint64 // none: every key may be there
}

// arenaPerFilterByte is how many bytes of arena have a byte of filter: 18 bits of
// it for an entry of 16 + 100 bytes, and 5 for one of 8 + 8.
const arenaPerFilterByte = 64

func (f *runFilter) init(capacity uint32) {
	f.words = make([]atomic.Uint64, max(1, capacity/(8*arenaPerFilterByte)))
}

// place returns the word that a hash belongs to, and its bits there. The upper
// half of hash × words spreads hashes evenly without a division (Lemire 2016); the
// product with 2^64 over the golden ratio gives bits that the choice of the word
// has not used up.
func (f *runFilter) place(hash uint64) (word *atomic.Uint64, mask uint64) {
	i, _ := bits.Mul64(hash, uint64(len(f.words)))
	h := hash * 0x9e3779b97f4a7c15
	mask = 1<<(h>>58) | 1<<(h>>52%64) | 1<<(h>>46%64) | 1<<(h>>40%64)
	return &f.words[i], mask
}

// filterEntry is a key on its way into the filter.
type filterEntry struct {
	word *atomic.Uint64 // nil without a filter
	mask uint64
	old  uint64
}

// prepare loads the key's word, so that set finds it in the cache: a search of the
// list comes between the two. An Or right away would have to wait for its own word
// and for the stores of the new node; that made insertion dearer by a fifth.
func (f *runFilter) prepare(key []byte) (e filterEntry) {
	if len(f.words) > 0 {
		e.word, e.mask = f.place(Hash(key))
		e.old = e.word.Load()
	}
	return e
}

// set sets the key's bits. Those that were seen set stay so.
func (e *filterEntry) set() {
	if e.old&e.mask != e.mask {
		e.word.Or(e.mask)
	}
}

func (f *runFilter) mayHold(hash uint64) bool {
	word, mask := f.place(hash)
	return word.Load()&mask == mask
}

// Hash returns the hash of a user key that MayHold takes, XXH3.
func Hash(key []byte) uint64 { return util.XXH3(key) }

// Empty reports whether no Add has returned yet. It costs the load of a word that
// an insertion hardly ever writes.
func (m *Memtable) Empty() bool { return m.height.Load() == 0 }

// Filtered reports whether there is a filter to ask and anything in it.
func (m *Memtable) Filtered() bool { return len(m.filter.words) > 0 && !m.Empty() }

// MayHold asks the filter whether there may be entries of the key that has this
// Hash: it says so for every key whose Add has returned, and for few others (see
// the package comment). Where it does not, Get finds nothing. The memtable must be
// Filtered.
func (m *Memtable) MayHold(hash uint64) bool { return m.filter.mayHold(hash) }

// FilterSize returns the bytes that the filter takes beside the arena.
func (m *Memtable) FilterSize() int { return 8 * len(m.filter.words) }

// Slack is what an arena takes beside its entries (EntrySize), in bytes, at most.
const Slack = 4 << 10

// ArenaSize returns the greatest capacity of a memtable whose arena and filter
// take at most total bytes together; total is 4096 or more.
func ArenaSize(total int) int { return total / (arenaPerFilterByte + 1) * arenaPerFilterByte }
