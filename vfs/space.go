package vfs

// SpaceReporter is implemented by a file system that knows how much space it has. OS implements it on Linux and macOS.
type SpaceReporter interface {
	// FreeBytes returns how many bytes this process may still write to the file system that holds dir.
	FreeBytes(dir string) (uint64, error)
}

// FreeBytes returns how many bytes this process may still write to the file system that holds dir. known is false if
// fsys is no SpaceReporter, or fails.
func FreeBytes(fsys FS, dir string) (n uint64, known bool) {
	r, ok := fsys.(SpaceReporter)
	if !ok {
		return 0, false
	}
	n, err := r.FreeBytes(dir)
	return n, err == nil
}
