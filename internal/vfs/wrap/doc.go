// Package wrap has file systems that stand between the store and another file system, for
// tests and benchmarks: Counting counts operations and bytes where they happen, Faulty fails
// chosen operations. They wrap each other in any order.
package wrap
