package memtable

import "unsafe"

// hugePageSize is that of amd64, and of arm64 with small pages of 4 KiB. Where it is
// another one, some of the arena is not asked for or nothing comes of it.
const hugePageSize = 2 << 20

// wantHugePages asks the operating system to put the arena on large pages, in all
// of it that whole ones fit into. A search goes all over the arena, of 4096 small pages
// where it has 16 MiB, which is more than a processor keeps the addresses of: to
// look them up took an eighth of the processor time of a fill in random order,
// flushes and compactions included. What is asked for is a hint on memory that
// is filled from its start, so that one large page at most is half empty. The hint
// stays with the addresses when the garbage collector has freed the arena; as a rule
// the next one takes its place.
func wantHugePages(words []uint32) {
	start := uintptr(unsafe.Pointer(&words[0]))
	from, to := hugePagesWithin(start, start+uintptr(len(words))*nodeAlign)
	if from < to {
		adviseHugePages(unsafe.Slice((*byte)(unsafe.Pointer(&words[(from-start)/nodeAlign])), to-from))
	}
}

// hugePagesWithin returns the whole large pages between two addresses; from is to
// where there is none.
func hugePagesWithin(start, end uintptr) (from, to uintptr) {
	to = end &^ (hugePageSize - 1)
	if to < start {
		return to, to
	}
	return to - (to-start)&^(hugePageSize-1), to
}
