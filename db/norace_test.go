//go:build !race

package db

// raceEnabled reports whether the race detector is on; see sampled.
const raceEnabled = false
