// Package tracking records the users of a store: the iterators and snapshots that are open,
// so that Close can name the forgotten ones, and the goroutines that run an event listener's
// callback, which must not make calls that wait.
package tracking
