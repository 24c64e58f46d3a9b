package hugepages

import (
	"bytes"
	"os"
	"sync"
	"syscall"
)

// madvCollapse is MADV_COLLAPSE of madvise(2), of Linux 6.1.
const madvCollapse = 25

// allowed says whether the administrator leaves large pages to those who ask.
// MADV_COLLAPSE by itself would not heed that.
var allowed = sync.OnceValue(func() bool {
	setting, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	return err == nil && !bytes.Contains(setting, []byte("[never]"))
})

// advise says that n bytes from an address on should be given large pages when they are
// touched. Its failure means that there are none.
func advise(from, n uintptr) (ok bool) { return madvise(from, n, syscall.MADV_HUGEPAGE) == 0 }

// collapse moves what lies on the large page of this number onto one. It says whether
// the system knows how; before Linux 6.1 the kernel does it by itself, later, since it was
// advised to.
func collapse(page uintptr) (again bool) {
	if !advise(page*size, size) {
		return false
	}
	// Failures that pass: no free large page, or memory that just went away.
	return madvise(page*size, size, madvCollapse) != syscall.EINVAL
}

// madvise takes an address, not a slice: on that page there is other memory, too.
func madvise(from, n uintptr, advice int) syscall.Errno {
	_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, from, n, uintptr(advice))
	return errno
}
