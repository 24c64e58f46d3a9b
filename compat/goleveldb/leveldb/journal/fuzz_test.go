package journal_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/syndtr/goleveldb/leveldb/journal"
)

// write returns a log of the journals.
func write(t testing.TB, journals [][]byte) []byte {
	t.Helper()
	var log bytes.Buffer
	w := journal.NewWriter(&log)
	for _, j := range journals {
		to, err := w.Next()
		if err == nil {
			_, err = to.Write(j)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return log.Bytes()
}

// drops counts what a Reader skips.
type drops int

func (d *drops) Drop(error) { *d++ }

// read returns the complete journals of a log. err is nil at its end, incomplete says that it has others.
func read(log []byte, strict, checksum bool) (journals [][]byte, dropped drops, incomplete bool, err error) {
	r := journal.NewReader(bytes.NewReader(log), &dropped, strict, checksum)
	for {
		from, err := r.Next()
		if err == io.EOF {
			return journals, dropped, incomplete, nil
		}
		if err != nil {
			return journals, dropped, incomplete, err
		}
		j, err := io.ReadAll(from)
		if err == nil {
			journals = append(journals, j)
		} else {
			incomplete = true
		}
	}
}

// Whatever a log is, its journals have no more bytes than it has, a strict Reader returns the first of those that
// another one returns, and if nothing was skipped, the same journals written again are read as such.
func FuzzReader(f *testing.F) {
	f.Add([]byte{})
	f.Add(write(f, [][]byte{[]byte("a"), {}, bytes.Repeat([]byte("long"), 20_000), []byte("z")}))
	f.Add(write(f, [][]byte{make([]byte, 32<<10-7), []byte("next block")}))
	torn := write(f, [][]byte{[]byte("a"), make([]byte, 70_000)})
	f.Add(torn[:40_000])
	torn[10] ^= 1
	f.Add(torn)
	f.Fuzz(func(t *testing.T, log []byte) {
		for _, checksum := range []bool{true, false} {
			journals, dropped, incomplete, err := read(log, false, checksum)
			if err != nil {
				t.Fatalf("a Reader that is not strict ended early: %v", err)
			}
			size := 0
			for _, j := range journals {
				size += len(j)
			}
			if size > len(log) {
				t.Fatalf("%d bytes of journals in a log of %d", size, len(log))
			}
			strict, _, _, err := read(log, true, checksum)
			if len(strict) > len(journals) {
				t.Fatal("a strict Reader returns more")
			}
			for i := range strict {
				if !bytes.Equal(strict[i], journals[i]) {
					t.Fatalf("journal %d differs", i)
				}
			}
			if dropped > 0 || incomplete || err != nil {
				continue
			}
			again, dropped, incomplete, err := read(write(t, journals), true, true)
			if err != nil || dropped > 0 || incomplete || len(again) != len(journals) {
				t.Fatalf("what was written again is not read: %v", err)
			}
			for i := range again {
				if !bytes.Equal(again[i], journals[i]) {
					t.Fatalf("journal %d differs when written again", i)
				}
			}
		}
	})
}
