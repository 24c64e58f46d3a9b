package report

// CheckReport describes what Check read and found.
type CheckReport struct {
	// Tables counts the tables, Entries and Bytes what was read of them. A table whose index cannot be read counts no
	// bytes. Unread is how many more entries damaged tables have, according to their properties.
	Tables  int
	Entries uint64
	Bytes   uint64
	Unread  uint64
	// Twins counts entries that another table contains as well, under the same internal
	// key. They are garbage that goleveldb's RecoverFile and LevelDB's RepairDB leave, and
	// that compactions drop. Twins with different values are a fault.
	Twins uint64
	// Faults has one message for each fault, for each damaged block for example. It is empty for a sound database. Of
	// one table it has at most 100, and one more that counts the others.
	Faults []string
}
