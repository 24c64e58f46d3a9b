//go:build !race

package memtable

// raceEnabled reports whether the race detector is on, which allocates on its own.
const raceEnabled = false
