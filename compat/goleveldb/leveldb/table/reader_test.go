package table_test

import (
	"bytes"
	"testing"

	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/table"
)

// The error for a damaged block has both checksums, as in goleveldb. It had neither.
func TestTheErrorForADamagedBlockHasBothChecksums(t *testing.T) {
	var file bytes.Buffer
	o := &opt.Options{Compression: opt.NoCompression}
	w := table.NewWriter(&file, o, nil, 0)
	if err := w.Append([]byte("key"), []byte("value")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file.Bytes()[5] ^= 1
	fd := storage.FileDesc{Type: storage.TypeTable, Num: 5}
	r, err := table.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()), fd, nil, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	const want = "leveldb/table: corruption on data-block (pos=0): checksum mismatch, want=0xfca2a763 got=0x42a05e6e [file=000005.ldb]"
	if _, err = r.Get([]byte("key"), nil); err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
}
