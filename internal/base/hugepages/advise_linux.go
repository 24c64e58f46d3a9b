package hugepages

import (
	"os"
	"strings"
	"sync"
	"syscall"
)

// madvCollapse is MADV_COLLAPSE of madvise(2), of Linux 6.1.
const madvCollapse = 25

// setting is the administrator's choice: "always", "madvise" (for memory that asks), or "never".
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

// canCollapse reports whether the system can move memory onto large pages on request. The system
// call itself would ignore a setting of "never".
var canCollapse = sync.OnceValue(func() bool {
	return setting() != "never" && madvise(size, 0, madvCollapse) == 0 // succeeds for an empty range
})

// advise asks for large pages for the n bytes at an address when they are first used. Errors are ignored: they mean
// that the system has no large pages. With the setting "always" no advice is needed.
func advise(from, n uintptr) {
	if setting() == "madvise" {
		madvise(from, n, syscall.MADV_HUGEPAGE)
	}
}

// unadvise withdraws that advice for memory that has no large page yet.
func unadvise(from, n uintptr) {
	if setting() == "madvise" {
		madvise(from, n, syscall.MADV_NOHUGEPAGE)
	}
}

// collapse moves the memory of the large page with this number onto one. Errors are ignored: no large page is free, or
// the memory was just freed. Memory for which unadvise was called must be advised again.
func collapse(page uintptr) {
	if madvise(page*size, size, madvCollapse) == syscall.EINVAL {
		advise(page*size, size)
		madvise(page*size, size, madvCollapse)
		unadvise(page*size, size)
	}
}

// madvise has an address instead of a slice, because the page contains other memory too.
func madvise(from, n uintptr, advice int) syscall.Errno {
	_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, from, n, uintptr(advice))
	return errno
}
