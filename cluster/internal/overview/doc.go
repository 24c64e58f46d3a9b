// Package overview describes a cluster for people, and says what its state means for clients and what to do.
//
// A node fills an Overview with what all nodes answer. Findings derives sentences from it: the page, the verbs of
// sieved, RAFT.OVERVIEW and the metrics all use them, so that they say the same. Nothing here has keys or values.
package overview
