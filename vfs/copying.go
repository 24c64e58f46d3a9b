package vfs

// A Sharer is a File from Create that can begin with the bytes of another one without their
// being copied. Files of the operating system are, on Linux; what lies between such a file
// and its user may hide that, and then the bytes are written.
type Sharer interface {
	// ShareFrom has the file, which must be empty, begin with the first bytes of src, n at most,
	// as Write would, and returns how many they are: 0 where the file system cannot share
	// them, or knows nothing of src. After an error the file is of no use.
	ShareFrom(src File, n int64) (shared int64, err error)
}

// A CacheFollower is a File from Create that can be asked to take no more of the system's
// memory than another file does. Files of the operating system are, on Linux. It is a hint
// that promises nothing and fails nothing, and what lies between may drop it.
type CacheFollower interface {
	// FollowCache asks, where less than half of src is in memory, that what is written from now
	// on go to the device at once and leave the memory then: it would push out what
	// somebody reads. With nil, writes are as usual again. It is called between Writes.
	FollowCache(src File)
}
