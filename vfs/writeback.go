package vfs

// An EarlyWriter is a File that can be asked to begin writing to the device what
// was appended to it, so that a later Sync finds less to wait for. Files of the
// operating system are, on Linux; it is a hint that promises nothing and fails
// nothing, and what lies between such a file and its user may drop it.
type EarlyWriter interface {
	// StartWriting asks for the n bytes from offset off. It does not wait until
	// they are written, but may wait until a busy device takes them. It may be called
	// beside all other methods but Close.
	StartWriting(off, n int64)
}
