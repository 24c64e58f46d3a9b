package order

import "github.com/sievedb/sievedb/internal/disk/wal"

// recordHeader is the minimum length in bytes of a record in a log.
const recordHeader = 7

// newFiller returns a log of one record that is size bytes long, or an empty log if size is too small for a record.
func newFiller(size int) []byte {
	if size < recordHeader {
		return nil
	}
	var b buffer
	if err := wal.NewWriter(&b).WriteRecord(make([]byte, size-recordHeader)); err != nil {
		panic("order: a log in memory failed: " + err.Error())
	}
	return b
}

// buffer is a wal.File.
type buffer []byte

func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

func (b *buffer) Sync() error  { return nil }
func (b *buffer) Close() error { return nil }
