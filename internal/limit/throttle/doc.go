// Package throttle applies back-pressure: it slows writers down before they would have to stop, while level 0 grows and
// while the last memtable fills. The store reports both counts with Update and the speed of flushes with ObserveFlush,
// one call at a time. The leader of a group of writers calls Slow before each record. A Throttle also keeps the totals
// of all waits, including those of writers that had to stop. Rate limits the bytes of compactions.
package throttle
