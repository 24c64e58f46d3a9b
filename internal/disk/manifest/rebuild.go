package manifest

import (
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/vfs"
)

// WriteFile durably writes MANIFEST num, with snapshot as its only edit, and its name. CURRENT does not name it before
// SetCurrent. It is for a repair, which does other work in between; a Set does both in one step.
func WriteFile(fsys vfs.FS, dir string, num uint64, snapshot *Edit) error {
	f, err := fsys.Create(filepath.Join(dir, base.FileName(base.FileManifest, num)))
	if err != nil {
		return err
	}
	log := wal.NewWriter(f)
	err = log.WriteRecord(snapshot.Encode(nil))
	if err == nil {
		err = log.Sync()
	}
	if err = errors.CombineErrors(err, log.Close()); err != nil {
		return errors.Wrap(err, "sievedb: writing a new MANIFEST")
	}
	return fsys.SyncDir(dir)
}

// SetCurrent durably makes CURRENT name MANIFEST num. A crash leaves the old CURRENT or the new one.
func SetCurrent(fsys vfs.FS, dir string, num uint64) error { return writeCurrent(fsys, dir, num) }
