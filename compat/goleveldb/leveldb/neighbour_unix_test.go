//go:build unix

package leveldb_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/storage"
)

// goleveldb makes files that all users can read. SECURITY.md promises that only the owner can, so these are.
func TestOnlyTheOwnerCanReadNewFiles(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "parent", "db")
	for range 2 { // the second opening moves the log into a table
		db, err := leveldb.OpenFile(dir, nil)
		if err == nil {
			err = db.Put([]byte("key"), []byte("value"), nil)
		}
		if err == nil {
			err = db.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stor, err := storage.OpenFile(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	makeFiles(t, stor)
	if err := stor.Close(); err != nil {
		t.Fatal(err)
	}
	n := 0
	err = filepath.WalkDir(filepath.Dir(dir), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if n++; err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v, want %v", name, info.Mode().Perm(), want)
		}
		return err
	})
	if err != nil || n < 10 {
		t.Fatal(n, err)
	}
}

// made are files of each kind.
var made = []storage.FileDesc{
	{Type: storage.TypeManifest, Num: 101}, {Type: storage.TypeJournal, Num: 102},
	{Type: storage.TypeTable, Num: 103}, {Type: storage.TypeTemp, Num: 104},
}

// makeFiles makes a file of each kind, twice, and CURRENT.
func makeFiles(t *testing.T, stor storage.Storage) {
	for _, fd := range append(made, made...) {
		w, err := stor.Create(fd)
		if err == nil {
			_, err = w.Write([]byte("text"))
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := stor.SetMeta(made[0]); err != nil {
		t.Fatal(err)
	}
}

func TestNoFileIsWrittenThroughALink(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{"LOG", "LOCK", "CURRENT", "CURRENT.bak", "CURRENT.101"}
	for _, fd := range made {
		names = append(names, fd.String())
	}
	for _, name := range names {
		err := writeAround(filepath.Join(t.TempDir(), "db"), name, victim)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a link with the name %s: %v", name, err)
		}
		text, err := os.ReadFile(victim)
		if err != nil || string(text) != "precious" {
			t.Fatalf("%s: %q, %v", name, text, err)
		}
	}
}

// writeAround writes files of each kind in a directory with a link, and returns the first error.
func writeAround(dir, link, victim string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if link == "CURRENT.bak" { // it is written if there is a CURRENT
		if err := os.WriteFile(filepath.Join(dir, "CURRENT"), []byte("MANIFEST-000001\n"), 0o600); err != nil {
			return err
		}
	}
	if err := os.Symlink(victim, filepath.Join(dir, link)); err != nil {
		return err
	}
	stor, err := storage.OpenFile(dir, false)
	if err != nil {
		return err
	}
	defer stor.Close()
	for _, fd := range made {
		w, err := stor.Create(fd)
		if err != nil {
			return err
		}
		if _, err := w.Write([]byte("text")); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	return stor.SetMeta(made[0])
}

// A pipe with the name of the log of messages was waited for.
func TestAPipeIsNoLogOfMessages(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "LOG"), 0o600); err != nil {
		t.Fatal(err)
	}
	stor, err := storage.OpenFile(dir, false)
	if err == nil {
		_ = stor.Close()
		t.Fatal("it was opened")
	}
	if !strings.Contains(err.Error(), "LOG") {
		t.Fatal(err)
	}
}
