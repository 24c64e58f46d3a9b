// Package latency measures how long calls, commits and fsyncs take, and keeps the durations in histograms.
//
// A Histogram has buckets whose widths grow with the durations: 16 of the same width for each
// doubling. So a duration differs from the ends of its bucket by at most a sixteenth, whether it is
// a microsecond or a minute, and a histogram needs 5 KB. Recording is two atomic additions and no
// lock. Goroutines that run at the same time usually add to different lanes.
//
// Reading the clock twice takes longer than many lookups. So callers measure one in
// counters.SampledOneIn of the fast events, as Start says, and all events that wait for a disk.
// Counts are those of the measured events; nothing is extrapolated.
//
// All functions may be called from any goroutine.
package latency
