package vfs

// LogCreator is implemented by a file system that appends to a file without a system call for each Write. OS implements
// it on Linux, where it reserves the file's space in steps and maps it into memory, if the file system is known to keep
// what it reserves: ext4, XFS and tmpfs. Mem implements it too. A wrapper that hides it, and every other file system,
// loses only the speed.
//
// OS does not implement it on other systems. A store to mapped memory has no error to return, so the space must be
// there for certain: APFS and ZFS copy on write whatever was reserved, UFS reserves by writing zeros, and for Windows
// no promise is documented.
type LogCreator interface {
	// CreateLog is Create for a file of many short appends, such as a write-ahead log. The File need not be a LogFile.
	CreateLog(name string) (File, error)
}

// A LogFile is a File whose length on the disk may be greater than what was written to it: the rest is zeros, and after
// a failed or interrupted Write also bytes of that Write. Size, ReadAt and Sync of this handle know only what was
// written. Others that open the file see all of it, until Cut or Close removes what follows the written bytes. A Write
// may change neither the file's length nor its modification time.
//
// The bytes of a Write belong to the operating system when Write returns: they survive the death of the process. The
// first LogHead bytes of a Write are stored after all others, in one piece with the byte after them. If the process
// dies during a Write, these eight bytes are still zero, or all of the Write is there. Machines that cannot store eight
// bytes at once may leave some of them, and the reader has to find that by a checksum. After a power cut, any of the
// pages that were written since the last Sync may be zeros.
//
// A Write that fails for lack of space and has appended nothing leaves the file as it was, and a later one may succeed.
// After any other failure, all later Writes fail.
//
// A file whose space cannot be reserved any more is appended by write(2). It has no zeros then, and if the process dies
// during a Write, any beginning of it may be there.
type LogFile interface {
	File
	// WriteParts is Write for the concatenation of parts. It returns the number of bytes appended.
	WriteParts(parts ...[]byte) (int, error)
	// Cut makes the file end after the last byte written. Sync makes that durable. After Cut, Write fails. A second
	// Cut does nothing. Close cuts the file too. Cut must not be concurrent with Write.
	Cut() error
}

// LogHead is the length in bytes of the header that LogFile describes: that of a chunk of a log.
const LogHead = 7

// CreateLog makes a file for many short appends: a LogFile if fsys can, else that of FS.Create.
func CreateLog(fsys FS, name string) (File, error) {
	if l, ok := fsys.(LogCreator); ok {
		return l.CreateLog(name)
	}
	return fsys.Create(name)
}
