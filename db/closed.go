package db

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/write/commit"
	"github.com/sievedb/sievedb/util"
)

// writeCloseMark writes the file CLOSED, which vouches for the log, which is end, and the MANIFEST. Both
// are synced and closed. After a crash the file is complete or missing, and without it the
// database is as before.
func (d *DB) writeCloseMark(end commit.LogEnd) error {
	log, err := manifest.MarkFile(d.files.FS, d.files.Path, base.FileLog, end.Num)
	if err == nil && log.Size != uint64(end.Size) {
		err = errors.Newf("the log is %d bytes long, %d were written to it", log.Size, end.Size)
	}
	mark := manifest.CloseMark{Log: log, Begin: util.MaskCRC(d.set.FirstRecordSum()), LastSeq: end.LastSeq}
	if err == nil {
		mark.Manifest, err = manifest.MarkFile(d.files.FS, d.files.Path, base.FileManifest, d.set.ManifestNum())
	}
	if err == nil {
		err = mark.Install(d.files.FS, d.files.Path, d.files.File(base.FileTemp, d.set.NewFileNum()))
	}
	return errors.Wrapf(err, "sievedb: all data is safe, but %s could not be written", base.ClosedName)
}
