package tables

import "github.com/sievedb/sievedb/vfs"

// tableFile is the file of a table that is being written. It starts writing data to the
// device immediately, so that the sync at the end waits only for the last part. Before, the
// sync of a table of 7 MB took 7 to 19 ms, a sixth of the flush that wrote it.
type tableFile struct {
	vfs.File
	early       vfs.EarlyWriter // nil if File is not one
	size, begun int64           // bytes written, and bytes that StartWriting was called for
}

// tableFilePage is the unit of writing to the device, in bytes: a partial page would be written twice.
const tableFilePage = 4 << 10

func newTableFile(f vfs.File) *tableFile {
	early, _ := f.(vfs.EarlyWriter)
	return &tableFile{File: f, early: early}
}

func (t *tableFile) Write(p []byte) (int, error) {
	n, err := t.File.Write(p)
	t.size += int64(n)
	if end := t.size - t.size%tableFilePage; t.early != nil && err == nil && end > t.begun {
		t.early.StartWriting(t.begun, end-t.begun)
		t.begun = end
	}
	return n, err
}
