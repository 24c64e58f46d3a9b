package report

// DiskUsage has the sizes of a database's files, in bytes. A file may use more of the disk, because
// file systems give space in blocks, or less, if the file system compresses.
type DiskUsage struct {
	// Tables are the tables that the present version lists: the data.
	Tables uint64
	// UnlistedTables are those that running flushes, compactions and loads write, and those that
	// readers or the next removal keep for a while.
	UnlistedTables uint64
	// Logs has the logs of the memtables. A log that is prepared for later is included.
	Logs uint64
	// LogsReserved is the part of Logs that has no records yet: zeros, if there are 4 KiB of them. On some file systems
	// an open database reserves the space of its log in steps, of 64 KiB at first and of 1 MiB at most. Close gives it
	// back; after the process was killed, the next opening does.
	LogsReserved uint64
	// Manifest is the MANIFEST, and older ones.
	Manifest uint64
	// Lost are the files that Repair has set aside. They are not used any more.
	Lost uint64
	// Changes are what is kept for DB.Changes. A table of a load may count here and in Tables, although it is
	// one file with two names.
	Changes uint64
	// Other are small files, CURRENT, LOCK, CLOSED and LOG, the reserve for a full disk, RESERVE, and files of other
	// programs.
	Other uint64
	// Total is the sum.
	Total uint64
}

// SizeEstimate says about how many bytes the entries of a range use.
type SizeEstimate struct {
	// Tables are bytes of files: compressed, with older versions of the keys, and with a share of indexes and filters.
	Tables uint64
	// Memtables are bytes of memory, not compressed. Their flush will write less.
	Memtables uint64
}
