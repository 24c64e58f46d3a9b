// Package fuse solves the equations of binary fuse arrays: few more slots than keys, of which each key has four. The
// xor of a key's slots is the value that the writer chose for it, and an arbitrary value for other keys.
//
// [Shape] says which slots a key has. [Solver] finds an order in which all slots can be set.
// [Packed] is an array of slots of any number of bits. Package filter makes filters of them, in
// which a key's value is a fingerprint. Package standalone also stores other values for some absent keys.
//
// Source: Graf and Lemire, "Binary Fuse Filters: Fast and Smaller Than Xor Filters",
// 2022, arXiv 2201.01174; the four-wise kind.
package fuse
