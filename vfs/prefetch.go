package vfs

// A Prefetcher is a File from Open whose bytes the system caches, and that can be asked to read a range into that cache
// ahead of the reads that need it. Files of OS implement it on Linux. Wrappers may hide it; each read then waits for
// the device on its own. Both methods may be called during and after Close, which does not wait for them.
type Prefetcher interface {
	// Resident returns how many of the n bytes at offset off are in the page cache, and whether the system has evicted
	// others of them because memory was short. ok is false if the system cannot say; that needs Linux 6.5.
	Resident(off, n int64) (cached int64, evicted, ok bool)
	// Prefetch asks the system to read n bytes at offset off. It does not wait until they are read, but may wait for a
	// busy device to accept the requests. It guarantees nothing and returns no error.
	Prefetch(off, n int64)
}
