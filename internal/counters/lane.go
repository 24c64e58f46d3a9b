package counters

import "unsafe"

// ownLane returns in which stripe of the counters a lookup counts: a number that
// differs between goroutines that run at the same time, as a rule. Goroutines have
// separate stacks, so the address of a local variable tells them apart; where the
// stripes of two collide they merely share a cache line.
func ownLane() uint64 {
	var local byte
	return laneOf(uintptr(unsafe.Pointer(&local)))
}

// laneOf mixes as well as a hash does: stacks lie powers of two apart, and a few
// bits of their addresses, taken as they are or multiplied once, sent two
// goroutines to one stripe of eight in a third of the trials, and for as long as
// they lived.
func laneOf(stack uintptr) uint64 {
	const golden = 0x9e3779b97f4a7c15 // 2^64 / the golden ratio
	h := uint64(stack>>12) * golden
	h ^= h >> 32
	h *= golden
	return h ^ h>>32
}
