package report

import "time"

// Lag says what a follower lacks of the database that it follows.
type Lag struct {
	// Seq is the sequence number of the last operation that the follower shows.
	Seq uint64
	// Operations is the number of later operations, Bytes the size of what has not been read of logs and MANIFEST.
	// After the writer has opened the database again, Bytes counts them from their beginning.
	Operations uint64
	Bytes      int64
	// Time is 0 if nothing is missing. Otherwise it is the time since a refresh began that read everything:
	// the follower shows all writes that were made before.
	Time time.Duration
}
