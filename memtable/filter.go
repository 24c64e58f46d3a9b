package memtable

import (
	"math/bits"
	"sync/atomic"

	"github.com/sievedb/sievedb/util"
)

// runFilter is a Bloom filter over the user keys of a memtable. All bits of a key are in one word: four bits of 64, set
// by one atomic Or and tested with one load. Bits are never cleared.
//
// A whole filter has no false negatives, even during concurrent Adds. An Add sets the bits before it links the entry.
// Only later can it return, can its caller publish the entry's sequence number, and can a reader learn that number.
// Go's atomics are sequentially consistent, so a reader that has seen the number, or any write made after the Add, sees
// the bits. A reader that has not may miss an entry that is being added; it might also miss it in the list.
//
// A key's bits are in one word, not in a cache line of eight, because the second and third atomic Or of an insertion
// would cost more than a lower false-positive rate saves. At 18 bits per entry the rate is 0.38 % with a word and 0.18
// % with a line; at 5 bits it is 10.4 % and 9.4 %. The difference is a nanosecond or two per lookup. With three or five
// bits per key the rate is higher at one end or the other.
//
// A filter that was omitted (see OmitFilter) gets the keys later, by lookups that would have used it. First insertions
// enter their keys again. An insertion looks at the state after it has got its memory, so those that got theirs before
// and left their keys out are over at a moment at which as many entries are in the list as have memory. From then on no
// earlier key comes any more, and lookups walk the list and enter one stretch of keys each, up to the key that was the
// last one at that moment. (No insertion was under way then, so that the back link to it was exact.)
type runFilter struct {
	words []atomic.Uint64 // empty if there is no filter
	state atomic.Uint32   // one of the constants below
}

// The states of a filter, in their order.
const (
	noFilter      = iota
	filterOmitted // insertions leave their keys out
	filterBegun   // insertions enter their keys, except some that began before
	filterWalked  // all insertions enter their keys, and lookups enter the earlier ones
	filterWhole
)

// filterWalk is how far lookups have come. going guards the others: the last node that was entered, and the one at
// which the walk ends. It is not beside the fields that each lookup reads.
type filterWalk struct {
	going    atomic.Bool
	at, stop uint32
}

// filterStretch is how many keys a lookup enters: some microseconds.
const filterStretch = 64

// arenaPerFilterByte is the number of arena bytes per filter byte: it gives 18 bits to an
// entry of 16 + 100 bytes, and 5 to one of 8 + 8.
const arenaPerFilterByte = 64

func (f *runFilter) init(capacity uint32) {
	f.words = make([]atomic.Uint64, max(1, capacity/(8*arenaPerFilterByte)))
	f.state.Store(filterWhole)
}

// place returns the word that a hash belongs to, and its bits there. The upper half of hash × words spreads hashes
// evenly without a division (Lemire 2016); the product with 2^64 over the golden ratio gives bits that the choice of
// the word has not used up.
func (f *runFilter) place(hash uint64) (word *atomic.Uint64, mask uint64) {
	i, _ := bits.Mul64(hash, uint64(len(f.words)))
	h := hash * 0x9e3779b97f4a7c15
	mask = 1<<(h>>58) | 1<<(h>>52%64) | 1<<(h>>46%64) | 1<<(h>>40%64)
	return &f.words[i], mask
}

// filterEntry is a key that is being added to the filter.
type filterEntry struct {
	word *atomic.Uint64 // nil if the key is not to be entered
	mask uint64
	old  uint64
}

// prepare loads the key's word, so that set finds it in the cache: the list is searched between the two. An immediate
// Or would have to wait for its own word and for the stores of the new node; it made insertions a fifth more expensive.
func (f *runFilter) prepare(key []byte) (e filterEntry) {
	if f.state.Load() >= filterBegun {
		e.word, e.mask = f.place(Hash(key))
		e.old = e.word.Load()
	}
	return e
}

// set sets the key's bits, unless prepare found all of them set; bits are never cleared. Its caller has allocated the
// entry's memory.
func (f *runFilter) set(e *filterEntry, key []byte) {
	if e.word == nil {
		*e = f.prepare(key) // the filter may have begun
	}
	if e.old&e.mask != e.mask {
		e.word.Or(e.mask)
	}
}

func (f *runFilter) mayHold(hash uint64) bool {
	word, mask := f.place(hash)
	return word.Load()&mask == mask
}

// Hash returns the hash of a user key that MayHold expects, XXH3.
func Hash(key []byte) uint64 { return util.XXH3(key) }

// Empty reports whether no Add has returned yet. It loads one word, which insertions hardly ever write.
func (m *Memtable) Empty() bool { return m.height.Load() == 0 }

// Filtered reports whether there is a filter with all keys, and it is not empty.
func (m *Memtable) Filtered() bool { return m.filter.state.Load() == filterWhole && !m.Empty() }

// OmitFilter makes insertions leave their keys out of the filter until somebody calls ExtendFilter. It is for a
// memtable at which perhaps nobody looks: it takes up to a tenth off an insertion in ascending order. The memtable
// must be empty and must not be used concurrently.
func (m *Memtable) OmitFilter() { m.filter.state.CompareAndSwap(filterWhole, filterOmitted) }

// ExtendFilter enters some of the keys that OmitFilter has left out. Lookups that find the memtable not Filtered call
// it: after one for each 64 entries it is. It takes microseconds, and does not wait.
func (m *Memtable) ExtendFilter() {
	f, w := &m.filter, &m.walk
	state := f.state.Load()
	if state == noFilter || state == filterWhole || w.going.Load() || !w.going.CompareAndSwap(false, true) {
		return
	}
	defer w.going.Store(false)
	switch f.state.Load() {
	case filterOmitted:
		f.state.Store(filterBegun)
		fallthrough
	case filterBegun:
		if finished := m.Len(); finished != m.allocated() { // in this order
			return
		}
		w.at, w.stop = end, m.prev(end).Load()
		f.state.Store(filterWalked)
		fallthrough
	case filterWalked:
		for i := 0; i < filterStretch && w.at != w.stop; i++ {
			w.at = m.next(w.at, 0).Load()
			key := m.userKey(w.at)
			e := f.prepare(key)
			f.set(&e, key)
		}
		if w.at == w.stop {
			f.state.Store(filterWhole)
		}
	}
}

// MayHold reports whether the filter contains a key with this Hash. It returns true for
// every key whose Add has returned, and rarely for others (see the package comment). If
// it returns false, Get would find nothing. The memtable must be Filtered.
func (m *Memtable) MayHold(hash uint64) bool { return m.filter.mayHold(hash) }

// FilterSize returns the bytes that the filter uses in addition to the arena.
func (m *Memtable) FilterSize() int { return 8 * len(m.filter.words) }

// Slack bounds the bytes that an arena uses in addition to its entries (EntrySize).
const Slack = 4 << 10

// ArenaSize returns the greatest capacity of a memtable whose arena and filter
// together use at most total bytes; total is 4096 or more.
func ArenaSize(total int) int { return total / (arenaPerFilterByte + 1) * arenaPerFilterByte }

// TotalSize returns how many bytes are enough for a memtable with an arena of that size: the reverse of ArenaSize.
func TotalSize(arena uint64) int {
	return int((arena/arenaPerFilterByte + 1) * (arenaPerFilterByte + 1))
}
