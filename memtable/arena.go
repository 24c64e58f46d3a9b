package memtable

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/hugepages"
)

// maxCapacity is the largest size of an arena, in bytes: offsets are 32 bits wide.
const maxCapacity = math.MaxUint32 &^ (nodeAlign - 1)

// arena is the memory of a memtable: one slice without pointers, allocated from its start and freed only as a whole.
type arena struct {
	nodes
	capacity uint32 // fixed

	// Every Add writes allocs. The padding keeps it off the cache line of the fields
	// above and before it, which every reader loads.
	_ [64]byte
	// allocs counts the bytes allocated, including the head, in its lower 32 bits, which are a multiple of
	// nodeAlign, and the entries that they are for in the others.
	allocs atomic.Uint64
}

func (a *arena) init(capacity int) {
	size := clampCapacity(capacity)
	words := make([]uint32, size/nodeAlign)
	a.capacity = size
	a.head = unsafe.Pointer(&words[headTower/nodeAlign])
	a.allocs.Store(headSize)
	hugepages.Want(a.memory()) // a search reads all over it
}

// memory returns the whole arena.
func (a *arena) memory() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(a.head, -headTower)), a.capacity)
}

// touch writes to each page of the arena, which must be empty.
func (a *arena) touch() {
	const page = 4 << 10 // the page size of most systems, and the smallest in use
	words := unsafe.Slice((*uint32)(unsafe.Add(a.head, -headTower)), a.capacity/nodeAlign)
	for i := 0; i < len(words); i += page / nodeAlign {
		words[i] = 0
	}
}

// reset restores the state after init.
func (a *arena) reset() {
	clear(unsafe.Slice((*uint32)(unsafe.Add(a.head, -headTower)), a.used()/nodeAlign))
	a.allocs.Store(headSize)
}

// clampCapacity returns the valid arena size, in bytes, that is nearest to capacity.
func clampCapacity(capacity int) uint32 {
	return uint32(min(uint64(max(capacity, headSize)), maxCapacity)) &^ (nodeAlign - 1)
}

// used returns the bytes allocated.
func (a *arena) used() uint32 { return uint32(a.allocs.Load()) }

// allocated returns the number of entries that have memory.
func (a *arena) allocated() int { return int(a.allocs.Load() >> 32) }

// alloc allocates size bytes, a multiple of nodeAlign, for some entries, and returns their offset
// from the head. If they do not fit, it changes nothing and returns false.
func (a *arena) alloc(size uint64, entries int) (offset uint32, ok bool) {
	for {
		allocs := a.allocs.Load()
		used := uint32(allocs)
		if size > uint64(a.capacity-used) {
			return 0, false
		}
		if a.allocs.CompareAndSwap(allocs, allocs+size+uint64(entries)<<32) {
			return used - headTower, true
		}
	}
}

// fill writes all of a new node except its links.
func (a *arena) fill(node uint32, trailer uint64, key, value []byte) {
	*(*uint32)(a.at(node, keyLenOffset)) = uint32(len(key))
	*(*uint32)(a.at(node, valueLenOffset)) = uint32(len(value))
	ikey := a.internalKey(node)
	copy(ikey, key)
	binary.LittleEndian.PutUint64(ikey[len(key):], trailer)
	copy(a.value(node), value)
}

// nodeSize returns the size of a node in bytes. It does not overflow for the lengths of real slices.
func nodeSize(height, keyLen, valueLen int) uint64 {
	n := uint64(height-1)*linkSize + keyOffset + base.TrailerLen + uint64(keyLen) + uint64(valueLen)
	return (n + nodeAlign - 1) &^ (nodeAlign - 1)
}

// randomHeight draws a tower's height, 1 to maxHeight, from the runtime's
// generator, which has a state for each thread and so needs no lock.
func randomHeight() int {
	const limit = 1 << ((maxHeight - 1) * heightBits) // its bit ends the run of zeros
	return 1 + bits.TrailingZeros32(rand.Uint32()|limit)/heightBits
}
