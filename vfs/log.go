package vfs

// LogCreator is implemented by a file system that appends to a file without a system call for each Write. OS implements
// it on Linux, where the file is reserved and mapped in steps if the file system is known to keep what it reserves: ext4,
// XFS and tmpfs. Mem implements it too. A wrapper that hides it, and every other file system, loses only the speed.
type LogCreator interface {
	// CreateLog is Create for a file of many short appends, such as a write-ahead log.
	CreateLog(name string) (File, error)
}

// A LogFile is a File whose length on the disk may be greater than what was written to it: the rest is zeros. Size,
// ReadAt and Sync of this handle know only what was written. Others that open the file see the zeros, until Cut or Close
// removes them.
//
// The bytes of a Write belong to the operating system when Write returns: they survive the death of the process. If the
// process dies during a Write, byte LogHead-1 of it is still zero, so that a header of that length tells whether the rest
// is there. After a power cut, any of the pages that were written since the last Sync may be zeros.
type LogFile interface {
	File
	// Cut makes the file end behind the last byte written. Sync makes that durable. After Cut, Write fails.
	Cut() error
}

// LogHead is the length in bytes of the header that LogFile means: that of a chunk of a log.
const LogHead = 7

// CreateLog makes a file for many short appends: a LogFile if fsys can, else that of FS.Create.
func CreateLog(fsys FS, name string) (File, error) {
	if l, ok := fsys.(LogCreator); ok {
		return l.CreateLog(name)
	}
	return fsys.Create(name)
}
