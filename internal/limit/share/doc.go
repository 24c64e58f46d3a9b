// Package share divides resources among the stores of a process: one block cache, a number of open
// tables, the memory of memtables, and slots for compactions.
//
// A Resources has the totals, and a Store is the part of one store, from Join to Leave. A nil Store
// and its nil parts are those of a store that shares nothing: they cost a comparison and limit nothing.
//
// Nothing here calls a store, waits for one, or holds a lock while another goroutine works. A part that wants something
// of another store sends a signal on that one's channel, which its own goroutine receives. So a store that hangs,
// panics, fails, or is never closed keeps what it holds, and nothing else happens to the others. What each store may
// have at least is kept free for it: see Memory. The caches are package cache's, whose Pool explains how they share.
package share
