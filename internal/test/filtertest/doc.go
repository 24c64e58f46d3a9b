// Package filtertest is shared by the tests of the filter packages. It has keys of many shapes, the
// comparison of measured with predicted false-positive rates, the search for denied keys, and the
// benchmarks of every kind of filter. Only tests import it.
package filtertest
