//go:build race

package db

// raceEnabled shortens the tests that open thousands of stores.
const raceEnabled = true
