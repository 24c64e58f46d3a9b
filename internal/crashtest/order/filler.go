package order

import "github.com/sievedb/sievedb/internal/wal"

// recordHeader is the least that a record takes in a log, in bytes.
const recordHeader = 7

// newFiller returns a log of one record that is size bytes long, none where size
// is 0. A log is never shorter than a header but when it is empty.
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
