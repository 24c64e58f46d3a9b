// Package wrap has file systems that wrap another file system, for tests and benchmarks. Counting
// counts operations and bytes, Faulty fails chosen operations. They may wrap each other in any order.
package wrap
