// Package filterreport examines the filters of tables: how well each should work, by its
// bits, how well it does, asked for keys that its table holds and for others like them, what
// it saved lookups, and a verdict with advice. It reads tables, and changes nothing.
package filterreport
