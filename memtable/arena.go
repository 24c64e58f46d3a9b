package memtable

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/hugepages"
)

// maxCapacity is the largest arena: offsets are 32 bits wide.
const maxCapacity = math.MaxUint32 &^ (nodeAlign - 1)

// arena is the memory of a memtable: one slice without pointers, handed out
// from its start and given back only as a whole.
type arena struct {
	nodes
	capacity uint32 // fixed

	// What follows is written by every Add. The padding keeps it off the line of
	// the fields above and before it, which every reader loads.
	_    [64]byte
	used atomic.Uint32 // bytes handed out, the head included; a multiple of nodeAlign
}

func (a *arena) init(capacity int) {
	size := clampCapacity(capacity)
	words := make([]uint32, size/nodeAlign)
	a.capacity = size
	a.head = unsafe.Pointer(&words[headTower/nodeAlign])
	a.used.Store(headSize)
	hugepages.Want(a.memory()) // a search goes all over it
}

// memory is all of the arena.
func (a *arena) memory() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(a.head, -headTower)), a.capacity)
}

// touch writes to each page of the arena, which is empty.
func (a *arena) touch() {
	const page = 4 << 10 // of most systems; the least that there are
	words := unsafe.Slice((*uint32)(unsafe.Add(a.head, -headTower)), a.capacity/nodeAlign)
	for i := 0; i < len(words); i += page / nodeAlign {
		words[i] = 0
	}
}

// reset makes the arena what init made it.
func (a *arena) reset() {
	clear(unsafe.Slice((*uint32)(unsafe.Add(a.head, -headTower)), a.used.Load()/nodeAlign))
	a.used.Store(headSize)
}

// clampCapacity returns the arena size, in bytes, that is nearest to what was
// asked for.
func clampCapacity(capacity int) uint32 {
	return uint32(min(uint64(max(capacity, headSize)), maxCapacity)) &^ (nodeAlign - 1)
}

// alloc takes size bytes, a multiple of nodeAlign, and returns where they begin,
// counted from the head. It changes nothing where they do not fit.
func (a *arena) alloc(size uint64) (offset uint32, ok bool) {
	for {
		used := a.used.Load()
		if size > uint64(a.capacity-used) {
			return 0, false
		}
		if a.used.CompareAndSwap(used, used+uint32(size)) {
			return used - headTower, true
		}
	}
}

// fill writes all of a new node but its links.
func (a *arena) fill(node uint32, trailer uint64, key, value []byte) {
	*(*uint32)(a.at(node, keyLenOffset)) = uint32(len(key))
	*(*uint32)(a.at(node, valueLenOffset)) = uint32(len(value))
	ikey := a.internalKey(node)
	copy(ikey, key)
	binary.LittleEndian.PutUint64(ikey[len(key):], trailer)
	copy(a.value(node), value)
}

// nodeSize returns the bytes that a node takes. No lengths of real slices make
// it overflow.
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
