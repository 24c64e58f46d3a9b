// Package flush writes memtables to tables: those that are full while a store is open, and all of them at its end if the
// log has failed. Then it writes the file CLOSED, which vouches for the log and the MANIFEST.
package flush
