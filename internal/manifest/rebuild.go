package manifest

import (
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/wal"
	"github.com/sievedb/sievedb/vfs"
)

// WriteFile writes MANIFEST num with snapshot as its only edit, and makes it and
// its name durable. Nothing points to it before SetCurrent. It is for a repair,
// which puts work between the two; a Set does both in one.
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

// SetCurrent makes CURRENT name MANIFEST num, durably: a crash leaves the old
// CURRENT or the new one.
func SetCurrent(fsys vfs.FS, dir string, num uint64) error { return writeCurrent(fsys, dir, num) }
