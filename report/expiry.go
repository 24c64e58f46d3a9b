package report

import "time"

// ExpiryMetrics count values that have expired.
type ExpiryMetrics struct {
	// Hidden counts the lookups that found an expired value, which Lookups.Found does not.
	Hidden uint64
	// ValuesDropped counts the expired values that compactions dropped. TablesDropped counts
	// the tables that were removed without being read, because all their values had expired.
	ValuesDropped, TablesDropped uint64
	// Time is the present time of the store, which is ahead of Options.Expiry.Clock after that
	// has gone back. It is zero if nothing expires.
	Time time.Time
}
