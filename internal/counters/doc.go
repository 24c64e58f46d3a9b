// Package counters counts what lookups do: how many there are, what each table's filter
// said, which blocks they read. Counting is on the path of every lookup, so nearly all of
// them cost one atomic addition, in a stripe that goroutines on other cores rarely use
// (Lookups). Which single table's filter said what is counted for a sample of them
// (SampleTables). Total adds all of it up for reports.
package counters
