package db

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/util"
)

// writeCloseMark vouches for the log and the MANIFEST, which are synced and
// closed. A crash leaves the mark whole or none, and with none the database is
// what it is without this.
func (d *DB) writeCloseMark() error {
	log, err := manifest.MarkFile(d.fs, d.dir, base.FileLog, d.state.Load().mem.logNum)
	if err == nil && log.Size != uint64(d.log.w.Size()) {
		err = errors.Newf("the log is %d bytes long, %d were written to it", log.Size, d.log.w.Size())
	}
	mark := manifest.CloseMark{Log: log, Begin: util.MaskCRC(d.set.BegunSum()), LastSeq: d.log.logged}
	if err == nil {
		mark.Manifest, err = manifest.MarkFile(d.fs, d.dir, base.FileManifest, d.set.ManifestNum())
	}
	if err == nil {
		err = d.installCloseMark(mark.Encode())
	}
	return errors.Wrapf(err, "sievedb: all data is safe, but %s could not be written", base.ClosedName)
}

func (d *DB) installCloseMark(b []byte) error {
	tmp := d.files.File(base.FileTemp, d.set.NewFileNum())
	f, err := d.fs.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.CombineErrors(err, f.Close()); err == nil {
		err = d.fs.Rename(tmp, d.files.File(base.FileClosed, 0))
	}
	if err != nil {
		d.files.Remove(tmp)
		return err
	}
	return d.fs.SyncDir(d.dir)
}

// dropStaleMark removes the mark of a database that is gone from under it, before
// another one is created there, whose files may come to look like those of the
// mark. The sync of the directory that the first log waits for makes it durable.
// In all other cases the new MANIFEST's number makes a mark stale.
func (d *DB) dropStaleMark(files manifest.DirFiles) error {
	for _, f := range files.All {
		if f.Kind == base.FileClosed {
			return d.fs.Remove(d.files.File(base.FileClosed, 0))
		}
	}
	return nil
}
