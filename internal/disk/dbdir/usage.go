package dbdir

import (
	"io"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// Measure adds up the sizes of the files in dir and its directories of lost files and of changes. listed reports
// whether the present version has a table. Files that are removed meanwhile do not count.
func Measure(fsys vfs.FS, dir string, listed func(table uint64) bool) (u report.DiskUsage, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return u, errors.Wrapf(err, "sievedb: DiskUsage: listing %s", dir)
	}
	for _, name := range names {
		size, isDir, err := fileSize(fsys, filepath.Join(dir, name))
		if err == nil && isDir && name == base.LostDir {
			u.Lost, err = sizeOf(fsys, filepath.Join(dir, name))
		}
		if err == nil && isDir && name == base.ChangesDir {
			u.Changes, err = sizeOf(fsys, filepath.Join(dir, name))
		}
		if err != nil {
			return u, err
		}
		to := field(&u, name, listed)
		*to += size
		if to == &u.Logs && size > 0 {
			reserved, err := reservedIn(fsys, filepath.Join(dir, name), size)
			if err != nil {
				return u, err
			}
			u.LogsReserved += reserved
		}
	}
	u.Total = u.Tables + u.UnlistedTables + u.Logs + u.Manifest + u.Lost + u.Changes + u.Other
	return u, nil
}

// field returns where a file counts.
func field(u *report.DiskUsage, name string, listed func(table uint64) bool) *uint64 {
	kind, num, ok := base.ParseFileName(name)
	switch {
	case !ok:
	case kind == base.FileLog:
		return &u.Logs
	case kind == base.FileManifest:
		return &u.Manifest
	case kind.IsTable() && listed(num):
		return &u.Tables
	case kind.IsTable() || kind == base.FileTemp:
		return &u.UnlistedTables
	}
	return &u.Other
}

// minReserved is how many zeros at the end of a log count as reserved: a record may end with some.
const minReserved = 4 << 10

// reservedIn returns how many bytes at the end of a log are reserved. A log that is removed or cut meanwhile has none.
func reservedIn(fsys vfs.FS, path string, size uint64) (uint64, error) {
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, errors.Wrapf(err, "sievedb: DiskUsage: opening %s", path)
	}
	used, err := wal.UsedSize(f, int64(size))
	err = errors.CombineErrors(err, f.Close())
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return 0, nil
	case err != nil:
		return 0, errors.Wrapf(err, "sievedb: DiskUsage: reading %s", path)
	}
	if reserved := size - uint64(used); reserved >= minReserved {
		return reserved, nil
	}
	return 0, nil
}

// sizeOf adds up the sizes of the files in a directory.
func sizeOf(fsys vfs.FS, dir string) (total uint64, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return 0, errors.Wrapf(err, "sievedb: DiskUsage: listing %s", dir)
	}
	for _, name := range names {
		size, _, err := fileSize(fsys, filepath.Join(dir, name))
		if err != nil {
			return 0, err
		}
		total += size
	}
	return total, nil
}

// fileSize returns the size of a file, 0 for a directory or a file that does not exist any more.
func fileSize(fsys vfs.FS, path string) (size uint64, isDir bool, err error) {
	info, err := fsys.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, false, nil
	case err != nil:
		return 0, false, errors.Wrapf(err, "sievedb: DiskUsage: the size of %s", path)
	case info.IsDir():
		return 0, true, nil
	}
	return uint64(info.Size()), false, nil
}
