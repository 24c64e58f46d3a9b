// Package counters counts the work of lookups: their number, the results of each level's filters, and the blocks read.
// Counting is part of every lookup. Nearly all lookups therefore need one atomic addition, in a stripe that goroutines
// on other cores rarely use (Lookups). The results of single tables' filters are counted only for a sample of the
// lookups (SampleTables). Total adds up the counters for reports.
//
// Opened counts what readers have open.
package counters
