// Package bench has what the benchmark commands share: generated values, formatted numbers, the
// memory of the process, and a check of output files.
package bench
