// Package processtest runs clusters of real sieved processes on loopback addresses. Only tests import it.
//
// A package calls Run in its TestMain, and Start in its tests, which builds sieved once. The processes end with the
// test.
package processtest
