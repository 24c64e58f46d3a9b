// Package check reads all tables of a version and reports what is wrong with them: checksums,
// the order and range of their keys, filters that deny keys of their table, and entries that
// several tables hold with different values. It only reads.
package check
