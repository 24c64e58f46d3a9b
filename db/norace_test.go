//go:build !race

package db

// raceEnabled says that the race detector is on: see sampled.
const raceEnabled = false
