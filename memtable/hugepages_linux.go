package memtable

import "syscall"

// adviseHugePages is madvise(2). Its failure means that there are no large pages.
func adviseHugePages(b []byte) { _ = syscall.Madvise(b, syscall.MADV_HUGEPAGE) }
