// Package hugepages asks the operating system to put memory that is read at random on
// large pages. A lookup in 64 MiB of cached blocks, or a search in a memtable of 16,
// goes from one to another of thousands of pages of 4 KiB, more than a processor keeps
// the addresses of, and in a virtual machine each address that it lacks costs a walk
// through two sets of tables. On large pages the same memory has a few dozen.
//
// The usual setting of Linux gives large pages to those who ask (transparent_hugepage:
// madvise), and the Go runtime does not. What is asked for is about physical
// memory alone: no byte changes, and nothing fails where it cannot be had. Where the
// administrator has said "never", nothing is asked for. Elsewhere than on Linux this
// package does nothing.
//
// What is asked for is not asked for in advance of the heap's next use of the same addresses. The
// kernel has a thread that puts advised memory onto large pages wherever a single
// small one is in use: memory that the Go runtime has given back, and never gives back again,
// since to its knowledge it is gone. 64 KiB that lived among 64 MiB of dropped blocks
// held 50 of them again a minute later.
package hugepages

import (
	"sync"
	"unsafe"
)

// size is that of a large page on amd64, and on arm64 with small pages of 4 KiB. Where it
// is another one, some of the memory is not asked for or nothing comes of it.
const size = 2 << 20

// enough is how many bytes of a large page must have been noted before it is asked for: the
// rest of it may be memory that nobody had touched, and that is taken for it.
const enough = size / 2

// Want asks for large pages in all of b that whole ones fit into. b is new memory,
// not touched yet, which is going to be filled from its start. Done comes behind it,
// while b is still in use.
func Want(b []byte) {
	if from, to := wholePages(b); from < to {
		advise(from, to-from)
	}
}

// Done says that b, which Want was asked for, is filled. It stays on the large pages that it
// has.
func Done(b []byte) {
	if from, to := wholePages(b); from < to {
		unadvise(from, to-from)
	}
}

// wholePages is within for b.
func wholePages(b []byte) (from, to uintptr) {
	if len(b) == 0 {
		return 0, 0
	}
	start := uintptr(unsafe.Pointer(&b[0]))
	return within(start, start+uintptr(len(b)))
}

// within returns the whole large pages between two addresses; from is to where there is
// none.
func within(start, end uintptr) (from, to uintptr) {
	to = end &^ (size - 1)
	if to < start {
		return to, to
	}
	return to - (to-start)&^(size-1), to
}

// heap is what was noted of the process's heap.
var heap = tracker{collapse: collapse}

// Note says that b will live for long and be read at random. When half of
// what fits a large page have been noted, they are moved onto one, by a goroutine of its own, since
// that takes a millisecond or so. b may be anywhere in Go's heap and need not outlive
// the call. It takes some ten nanoseconds, with a lock.
func Note(b []byte) {
	if len(b) == 0 || !canCollapse() {
		return
	}
	start := uintptr(unsafe.Pointer(&b[0]))
	for end := start + uintptr(len(b)); start < end; {
		n := min(end, start&^(size-1)+size) - start
		heap.note(start/size, int(n))
		start += n
	}
}

// tracker counts the bytes that were noted in each large page of the address space. What is
// freed is not counted off: the allocator gives the place to the next of its size.
type tracker struct {
	collapse func(page uintptr)

	mu      sync.Mutex
	noted   map[uintptr]int // bytes, by the page's number; enough or more: it was asked for
	waiting []uintptr
	working bool // a goroutine asks for those that wait
}

func (t *tracker) note(page uintptr, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.noted[page]
	if before >= enough {
		return
	}
	if t.noted == nil {
		t.noted = make(map[uintptr]int)
	}
	t.noted[page] = before + n
	if before+n < enough {
		return
	}
	t.waiting = append(t.waiting, page)
	if !t.working {
		t.working = true
		go t.work()
	}
}

// work asks for the pages that wait, one after another.
func (t *tracker) work() {
	for {
		t.mu.Lock()
		if len(t.waiting) == 0 {
			t.working, t.waiting = false, nil
			t.mu.Unlock()
			return
		}
		page := t.waiting[0]
		t.waiting = t.waiting[1:]
		t.mu.Unlock()
		t.collapse(page)
	}
}
