package base

// The steps in which a log that is appended through memory is made longer than its records. They double, so that a
// store that writes little uses little.
const (
	minLogReserve = 64 << 10
	maxLogReserve = 4 << 20
)

// logPage is the size in bytes to which LeastLogReserve rounds.
const logPage = 4 << 10

// LogReserve returns the length in bytes to which a log is reserved before it has end bytes. reserved is its present
// length, 0 at first, and the result if that suffices.
func LogReserve(reserved, end int64) int64 {
	if end <= reserved {
		return reserved
	}
	return max(reserved+min(max(reserved, minLogReserve), maxLogReserve), LeastLogReserve(end))
}

// LeastLogReserve returns the length for end bytes on a disk that has no space for LogReserve.
func LeastLogReserve(end int64) int64 { return (end + logPage - 1) / logPage * logPage }
