package version

// TableCounts has the number of a table's entries, the numbers of tombstones among them and of entries that have a
// newer one of the same key in the table, and the largest sequence number of all. Expiry is when the last value of the
// table expires, 0 if one does not, and ExpiryKeys identifies the keys whose values could expire when it was written.
// Apart is the number of bytes of values to which the table refers, if KnowsApart says that this is known.
type TableCounts struct {
	Entries, Tombstones, Older, LargestSeq uint64
	Expiry, ExpiryKeys                     uint64
	Apart                                  uint64
	KnowsApart                             bool

	gain *Gain // nil until the table is weighed
}

// Gain is what a merge of a table with those below it would free, estimated from a sample of its entries: bytes of
// tables and of the values to which they refer. What the entries hide below does not change while the table exists.
type Gain struct {
	All uint64 // when all readers see all of its entries
	Now uint64 // when the sample was taken; readers may have needed the rest
	// Stale is the time from which on at least half of what the table has is expired, 0 if there is none.
	Stale uint64
}

// olderShare is the part of a table's entries, as a divisor, from which on entries with newer ones in the same table
// may be most of its bytes. They are there because of a snapshot, or in level 0.
const olderShare = 16

// Heavy reports whether at least a third of the entries are tombstones, or many are older ones. The counts come from a
// file and may be inconsistent.
func (c *TableCounts) Heavy() bool {
	return c != nil && c.Tombstones+c.Older > 0 && c.Tombstones <= c.Entries && c.Older <= c.Entries &&
		(c.Tombstones >= c.Entries/3 || c.ManyOlder())
}

// ManyOlder reports whether many entries have newer ones of the same key in the table.
func (c *TableCounts) ManyOlder() bool { return c.Older > c.Entries/olderShare }

// FreedCost is how many times what it frees a compaction that only frees space may read, because a store may use a
// quarter more than its live data.
const FreedCost = 5
