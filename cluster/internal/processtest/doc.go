// Package processtest runs clusters of real sieved processes on loopback addresses. Only tests import it.
//
// A package calls Run in its TestMain, which builds sieved once, and Start in its tests. The processes end with the
// test, also if it panics: each stops when its standard input ends.
package processtest
