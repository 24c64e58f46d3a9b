package db

import "github.com/sievedb/sievedb"

// PanicError is the error for a panic of code that Options bring in (Comparer, filter policies, Compaction.Filter,
// FS, EventListener, Logger), or of the store itself, if it cannot continue to a caller as a panic. Use errors.As to
// get it. Fields: During, Value, Stack, Comparer, Place.
type PanicError = sievedb.PanicError
