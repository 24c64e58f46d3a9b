//go:build !race

package memtable

// raceEnabled says that the race detector is on: it allocates on its own.
const raceEnabled = false
