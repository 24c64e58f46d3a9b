package dbdir

import (
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/vfs"
)

// refuseRemains refuses to create a database in dir over the remains of one: tables, a log with records, or a MANIFEST
// that was in force. A crash while a database is created leaves a MANIFEST with one edit. CLOSED is removed before,
// and other programs that destroy a database leave it, but no MANIFEST.
func refuseRemains(fsys vfs.FS, dir string, files manifest.DirFiles) error {
	closed := slices.ContainsFunc(files.All, func(f manifest.DirFile) bool { return f.Kind == base.FileClosed })
	for _, f := range files.All {
		remains := f.Kind.IsTable()
		if f.Kind == base.FileLog {
			blank, err := manifest.IsBlankLog(fsys, dir, f, 0)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			remains = !blank && err == nil
		}
		if f.Kind == base.FileManifest {
			several, err := manifest.HasSeveralEdits(fsys, filepath.Join(dir, base.FileName(f.Kind, f.Num)), f.Size)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			remains = several || closed
		}
		if remains {
			err := base.Corruptf("CURRENT", -1, "it is missing, but %s exists: the directory has the remains of a database; "+
				"Repair can rebuild it", base.FileName(f.Kind, f.Num))
			return base.InFile(err, filepath.Join(dir, base.CurrentName), -1)
		}
	}
	return nil
}
