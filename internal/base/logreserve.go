package base

// The steps, in bytes, in which a log that is appended through memory is made longer than its records. They double, so
// that a store that writes little uses little.
const (
	minLogReserve = 64 << 10
	maxLogReserve = 1 << 20
)

// logBlock is the size in bytes to which LeastLogReserve rounds: that of a block of the log. LevelDB with reuse_logs
// appends at the end of a killed store's file, and when it reads, it leaves out the rest of a block that begins with
// zeros.
const logBlock = 32 << 10

// LogReserve returns the length in bytes to which a log is reserved before it has end bytes. reserved is its present
// length, 0 at first, and the result if that suffices.
func LogReserve(reserved, end int64) int64 {
	if end <= reserved {
		return reserved
	}
	return max(reserved+min(max(reserved, minLogReserve), maxLogReserve), LeastLogReserve(end))
}

// LeastLogReserve returns the length for end bytes on a disk that has no space for LogReserve.
func LeastLogReserve(end int64) int64 { return (end + logBlock - 1) / logBlock * logBlock }
