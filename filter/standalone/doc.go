// Package standalone has filters that a program uses by itself, in memory. The store does
// not use them, and they are no filter policies: they belong to no table.
//
// A [Counting] filter forgets keys, a [Scalable] filter grows with them. Both answer "is
// this key in the set?" with "no", which is certain, or "perhaps". Both can be saved and
// read again.
//
// A filter belongs to one goroutine, or to several that only ask. It keeps no key.
package standalone
