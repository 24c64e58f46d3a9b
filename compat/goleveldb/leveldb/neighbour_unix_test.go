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
		must(t, err)
		must(t, db.Put([]byte("key"), []byte("value"), nil))
		must(t, db.Close())
	}
	stor, err := storage.OpenFile(dir, false)
	must(t, err)
	must(t, makeFiles(stor, append(made, made...)))
	must(t, stor.Close())
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

// makeFiles makes these files and CURRENT, and returns the first error.
func makeFiles(stor storage.Storage, fds []storage.FileDesc) error {
	for _, fd := range fds {
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

func TestNoFileIsWrittenThroughALink(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	must(t, os.WriteFile(victim, []byte("precious"), 0o600))
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
	return makeFiles(stor, made)
}

// A pipe with the name of the log of messages was waited for.
func TestAPipeIsNoLogOfMessages(t *testing.T) {
	dir := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, "LOG"), 0o600))
	stor, err := storage.OpenFile(dir, false)
	if err == nil {
		_ = stor.Close()
		t.Fatal("it was opened")
	}
	if !strings.Contains(err.Error(), "LOG") {
		t.Fatal(err)
	}
}
