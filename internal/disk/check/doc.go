// Package check reads all tables of a version and reports faults: wrong checksums, keys out of order or out of range,
// filters that deny keys of their table, and entries that several tables have with different values. It only reads.
package check
