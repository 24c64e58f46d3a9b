// Package storetest opens stores for the tests of many rooms: small ones, whose few thousand keys fill several levels,
// with every operation on files checked for its order. It imports db, so only external tests
// can use it. Package fixture has what needs no store.
package storetest
