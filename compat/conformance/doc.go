// Package conformance tests that the module in compat/goleveldb can replace goleveldb: the same exported
// names, the same answers to random programs, goleveldb's own tests and those of modules that use it, and
// directories that both read.
//
// The two cannot be in one program, because they have the same module path. So package main in driver is
// built twice: in this module, which requires goleveldb, and in the workspace of compat/goleveldb.
package conformance
