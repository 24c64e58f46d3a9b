// Package tracking knows who uses a store: which iterators and snapshots are open, so that
// Close can name those that were forgotten, and which goroutines run a function of the event
// listener, whose calls must not wait.
package tracking
