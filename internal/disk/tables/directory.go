package tables

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/vfs"
)

// Directory is a database's directory on its file system. Its fields never change.
type Directory struct {
	FS     vfs.FS
	Path   string
	Logger *slog.Logger
	// Owned, if not nil, returns an error if the directory is not the store's any more.
	Owned func() error
}

// Verify returns an error if the directory is not the store's any more: then nothing in it may be removed or replaced.
func (d *Directory) Verify() error {
	if d.Owned == nil {
		return nil
	}
	return d.Owned()
}

// File returns the path of a file of the directory.
func (d *Directory) File(kind base.FileKind, num uint64) string {
	return filepath.Join(d.Path, base.FileName(kind, num))
}

// RemoveTables is Remove for tables.
func (d *Directory) RemoveTables(files []*version.FileMeta) {
	for _, f := range files {
		d.Remove(filepath.Join(d.Path, f.Name()))
	}
}

// Remove removes a file that is no longer needed. It logs a failure; then the next Open removes the file.
func (d *Directory) Remove(path string) {
	err := d.Verify()
	if err == nil {
		err = d.FS.Remove(path)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.Logger.Warn("cannot remove an obsolete file; the next open will try again",
			"file", filepath.Base(path), "err", err)
	}
}
