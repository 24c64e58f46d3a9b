// Package leveldb is goleveldb's package of this name over SieveDB. A program, and the modules that it
// uses, switches to it with one line:
//
//	go mod edit -replace github.com/syndtr/goleveldb=github.com/sievedb/sievedb/compat/goleveldb@VERSION
//
// Every exported name of goleveldb is here, except helpers of its own tests in package testutil, and does what it does
// there: errors compare with ==, nil options mean goleveldb's defaults, and the directory remains one that goleveldb
// can open. The comments of opt.Options say which options have no effect. docs/migration.md has the differences.
//
// SieveDB's own API, package github.com/sievedb/sievedb/db, can do more. A program may use both, but
// not for one directory at the same time.
package leveldb
