package report

// CheckReport describes what Check read and found.
type CheckReport struct {
	// Tables, Entries and Bytes count what was read.
	Tables  int
	Entries uint64
	Bytes   uint64
	// Twins counts entries that another table contains as well, under the same internal
	// key. They are garbage that goleveldb's RecoverFile and LevelDB's RepairDB leave, and
	// that compactions drop. Twins with different values are a fault.
	Twins uint64
	// Faults has one message for each fault; it is empty for a sound database.
	Faults []string
}
