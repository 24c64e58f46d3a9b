package vfs

// An EarlyWriter is a File that can start writing appended bytes to the device early, so that a
// later Sync has less to wait for. Files of OS implement it on Linux. It is only a hint: it
// guarantees nothing and returns no error, and wrappers may drop it.
type EarlyWriter interface {
	// StartWriting starts writing n bytes at offset off. It does not wait until they are written, but may wait for a
	// busy device to accept them. It is safe to call concurrently with all other methods except Close.
	StartWriting(off, n int64)
}
