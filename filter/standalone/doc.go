// Package standalone has in-memory filters for programs to use on their own. The store does not
// use them. They are not filter policies and belong to no table.
//
// A [Counting] filter supports removing keys; a [Scalable] filter grows as keys are added; a [Static] filter has no
// false positives among a given list of absent keys. They answer "is this key in the set?" with "no", which is certain,
// or "perhaps". They can be saved and read again.
//
// A filter is safe for concurrent queries, but not for changes concurrent with anything else. It does not retain keys.
package standalone
