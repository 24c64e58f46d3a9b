package backup

import (
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// hiddenCurrent is the name of CURRENT while changes are applied to a backup. So no engine finds a database in
// the directory before it is complete, whatever interrupts that.
const hiddenCurrent = base.CurrentName + restoreSuffix

// hidden is a file system on which CURRENT has another name. The lock of the database is held by the restore.
type hidden struct{ vfs.FS }

func (h hidden) real(name string) string {
	if filepath.Base(name) == base.CurrentName {
		return filepath.Join(filepath.Dir(name), hiddenCurrent)
	}
	return name
}

func (h hidden) Create(name string) (vfs.File, error) { return h.FS.Create(h.real(name)) }
func (h hidden) Open(name string) (vfs.File, error)   { return h.FS.Open(h.real(name)) }
func (h hidden) Remove(name string) error             { return h.FS.Remove(h.real(name)) }
func (h hidden) Rename(from, to string) error         { return h.FS.Rename(h.real(from), h.real(to)) }
func (h hidden) Link(from, to string) error           { return h.FS.Link(h.real(from), h.real(to)) }

func (h hidden) Stat(name string) (fs.FileInfo, error)  { return h.FS.Stat(h.real(name)) }
func (h hidden) Lstat(name string) (fs.FileInfo, error) { return h.FS.Lstat(h.real(name)) }

// List shows CURRENT by its usual name, and not the marker of the restore, which an Open would remove.
func (h hidden) List(dir string) ([]string, error) {
	names, err := h.FS.List(dir)
	for i, name := range names {
		if name == hiddenCurrent {
			names[i] = base.CurrentName
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == markerName }), err
}

// Lock does nothing.
func (h hidden) Lock(string, bool) (io.Closer, error) { return io.NopCloser(nil), nil }
