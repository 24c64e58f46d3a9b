// Package filtertest is what the tests of the filter packages share: keys of many shapes,
// the comparison of measured with predicted false-positive rates, the search for denied
// keys, and the benchmarks of every kind of filter. Only tests import it.
package filtertest
