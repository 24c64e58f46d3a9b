package report

// Checkpoint describes a checkpoint that was made.
type Checkpoint struct {
	// Seq is the last sequence number that it contains.
	Seq uint64
	// Tables and Logs count its files.
	Tables, Logs int
	// BytesLinked are in files that the store has as well, BytesCopied in new ones.
	BytesLinked, BytesCopied uint64
}
