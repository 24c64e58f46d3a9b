package vfs

// A Sharer is a File from Create that can begin with the bytes of another file without copying
// them. Files of OS implement it on Linux. Wrappers may hide it; the bytes are then written.
type Sharer interface {
	// ShareFrom makes the first bytes of src, at most n, the beginning of the file, which must be empty, as if by
	// Write. It returns the number of shared bytes: 0 if the file system cannot share them, or src is of an unknown
	// kind. After an error the file is unusable.
	ShareFrom(src File, n int64) (shared int64, err error)
}

// A CacheFollower is a File from Create that can be asked to use no more of the page cache than
// another file does. Files of OS implement it on Linux. It is only a hint: it guarantees nothing
// and returns no error, and wrappers may drop it.
type CacheFollower interface {
	// FollowCache makes later writes bypass the page cache if less than half of src is cached: the written bytes would
	// otherwise evict data that is being read. With a nil src, later writes use the page cache again. FollowCache must
	// not be called concurrently with Write.
	FollowCache(src File)
}
