// Package filterreport examines the filters of tables: the false-positive rate to expect from the filter's bits, the
// measured rate for keys similar to those of the table, whether the filter denies keys of the table, the reads saved
// for lookups, and a verdict with advice. It reads tables and changes nothing.
package filterreport
