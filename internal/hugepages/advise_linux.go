package hugepages

import (
	"os"
	"strings"
	"sync"
	"syscall"
)

// madvCollapse is MADV_COLLAPSE of madvise(2), of Linux 6.1.
const madvCollapse = 25

// setting is the administrator's: "always", "madvise", which is to those who ask, or "never".
var setting = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	return chosen(string(text))
})

// chosen returns the word in brackets, as in "always [madvise] never"; without one, "never".
func chosen(text string) string {
	_, rest, _ := strings.Cut(text, "[")
	if word, _, ok := strings.Cut(rest, "]"); ok && word != "" {
		return word
	}
	return "never"
}

// canCollapse says whether the system can move memory onto large pages when it is told to. The
// call would not heed the setting by itself.
var canCollapse = sync.OnceValue(func() bool {
	return setting() != "never" && madvise(size, 0, madvCollapse) == 0 // none of no memory
})

// advise says that n bytes from an address on should be given large pages when they are
// touched. Its failure means that there are none. Where all memory is given them, nothing
// need be said.
func advise(from, n uintptr) {
	if setting() == "madvise" {
		madvise(from, n, syscall.MADV_HUGEPAGE)
	}
}

// unadvise takes that back, for what has none yet.
func unadvise(from, n uintptr) {
	if setting() == "madvise" {
		madvise(from, n, syscall.MADV_NOHUGEPAGE)
	}
}

// collapse moves what lies on the large page of this number onto one. Failures pass: no large
// page is free, or the memory has just gone away. What unadvise was called for must be asked
// for again.
func collapse(page uintptr) {
	if madvise(page*size, size, madvCollapse) == syscall.EINVAL {
		advise(page*size, size)
		madvise(page*size, size, madvCollapse)
		unadvise(page*size, size)
	}
}

// madvise takes an address, not a slice: on that page there is other memory, too.
func madvise(from, n uintptr, advice int) syscall.Errno {
	_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, from, n, uintptr(advice))
	return errno
}
