// Package hugepages asks the operating system to put randomly read memory on large pages. A lookup in 64 MiB of cached
// blocks, or a search in a memtable of 16 MiB, reads from thousands of 4 KiB pages, more than a processor keeps the
// addresses of. In a virtual machine each missing address costs a walk through two sets of page tables. With large
// pages, the same memory has a few dozen pages.
//
// The usual setting of Linux gives large pages to memory that asks for them (transparent_hugepage: madvise), and the Go
// runtime does not ask. The requests affect physical memory only: no byte changes, and a request that cannot be
// fulfilled is no failure. If the administrator's setting is "never", the package makes no requests. On systems other
// than Linux it does nothing.
//
// Advice is withdrawn as soon as the memory is filled, before the heap reuses the addresses. A kernel thread puts
// advised memory onto large pages if a single small page of it is in use, even memory that the Go runtime has returned;
// the runtime does not return it again, because it considers it gone. In a measurement, 64 KiB in use among 64 MiB of
// dropped blocks occupied 50 MiB again a minute later.
package hugepages

import (
	"sync"
	"unsafe"

	"github.com/sievedb/sievedb/internal/base"
)

// size is the size of a large page on amd64, and on arm64 with small pages of 4 KiB. If the real
// size differs, some requests are missing or have no effect.
const size = 2 << 20

// enough is the number of bytes of a large page that must have been counted before it is requested:
// the remaining bytes may be memory that was not in use and is allocated for the page.
const enough = size / 2

// Want asks for large pages for all of b that whole ones fit into. b must be new, unused memory
// that will be filled from its start. Call Done afterwards, while b is still in use.
func Want(b []byte) {
	if from, to := wholePages(b); from < to {
		advise(from, to-from)
	}
}

// Done means that b, which was passed to Want, is filled. It stays on the large pages that it has.
func Done(b []byte) {
	if from, to := wholePages(b); from < to {
		unadvise(from, to-from)
	}
}

// wholePages returns the whole large pages within b.
func wholePages(b []byte) (from, to uintptr) {
	if len(b) == 0 {
		return 0, 0
	}
	start := uintptr(unsafe.Pointer(&b[0]))
	return within(start, start+uintptr(len(b)))
}

// within returns the whole large pages between two addresses; from equals to if there are none.
func within(start, end uintptr) (from, to uintptr) {
	to = end &^ (size - 1)
	if to < start {
		return to, to
	}
	return to - (to-start)&^(size-1), to
}

// heap tracks the counted bytes of the process's heap.
var heap = tracker{collapse: collapse}

// Count counts b as memory that will be in use for long and be read at random. When half of a large page has been
// counted, a separate goroutine moves it onto one, which takes about a millisecond. b may be anywhere in Go's heap and
// need not outlive the call. A call takes about ten nanoseconds, with a lock.
func Count(b []byte) {
	if len(b) == 0 || !canCollapse() {
		return
	}
	start := uintptr(unsafe.Pointer(&b[0]))
	for end := start + uintptr(len(b)); start < end; {
		n := min(end, start&^(size-1)+size) - start
		heap.count(start/size, int(n))
		start += n
	}
}

// tracker adds up the counted bytes in each large page of the address space. It does not subtract
// freed memory: the allocator reuses it for another object of the same size.
type tracker struct {
	collapse func(page uintptr)

	mu      sync.Mutex
	counted map[uintptr]int // bytes, by page number; a page with enough bytes was requested
	waiting []uintptr       // pages to collapse
	working bool            // a goroutine collapses the waiting pages
}

func (t *tracker) count(page uintptr, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.counted[page]
	if before >= enough {
		return
	}
	if t.counted == nil {
		t.counted = make(map[uintptr]int)
	}
	t.counted[page] = before + n
	if before+n < enough {
		return
	}
	t.waiting = append(t.waiting, page)
	if !t.working {
		t.working = true
		base.Go(t.work)
	}
}

// work collapses the waiting pages, one after another.
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
