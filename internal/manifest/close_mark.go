package manifest

import (
	"encoding/binary"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// CloseMark is what the file CLOSED says, which Close leaves behind: the newest
// log and the MANIFEST, as they were when nothing more was to come. While both
// are still those files, there was no crash that could have cut the log, so that
// whatever is wrong with it is damage, even in its very last record.
//
//	offset  size  meaning
//	0       8     magic, "sieveCLS"
//	8       20    the newest log
//	28      20    the MANIFEST in force
//	48      4     masked CRC-32C of the MANIFEST's first record
//	52      8     the last sequence number of all that was written, fixed64
//	60      4     masked CRC-32C of bytes 0 to 59
//
// where each of the two files is
//
//	0       8     number, fixed64
//	8       8     length in bytes, fixed64
//	16      4     masked CRC-32C of its last 32 KiB, or of all of it
//
// The MANIFEST tells whether the mark is a stale one. LevelDB and goleveldb leave
// CLOSED alone, but no program writes to a database without a MANIFEST of its own,
// an edit appended to the present one, or records appended to the log. So a MANIFEST
// of another number, or a longer one, makes the mark stale, and so does a longer log.
//
// A MANIFEST of that number that is not longer and differs has either lost its end,
// or belongs to another database: LevelDB's destruction leaves CLOSED, and a new database
// in the same directory begins with the same numbers. The first record decides. Without
// it whole, the MANIFEST cannot be read at all.
type CloseMark struct {
	Log, Manifest FileMark
	Begin         uint32 // masked checksum of the MANIFEST's first record
	LastSeq       uint64
}

// FileMark tells a file from others, and from itself after a change of its end.
type FileMark struct {
	Num, Size uint64
	sum       uint32
}

// These constants reach the disk and never change.
const (
	closeMarkMagic = "sieveCLS"
	CloseMarkSize  = 64
	fileMarkSize   = 20
	// markedBytes is how much of a file's end the mark's checksum covers: a block
	// of the log, which is one read. All before it has checksums of its own, and
	// good chunks behind it.
	markedBytes = 32 << 10
)

func (m *CloseMark) Encode() []byte {
	b := append(make([]byte, 0, CloseMarkSize), closeMarkMagic...)
	for _, f := range []FileMark{m.Log, m.Manifest} {
		b = binary.LittleEndian.AppendUint64(b, f.Num)
		b = binary.LittleEndian.AppendUint64(b, f.Size)
		b = binary.LittleEndian.AppendUint32(b, f.sum)
	}
	b = binary.LittleEndian.AppendUint32(b, m.Begin)
	b = binary.LittleEndian.AppendUint64(b, m.LastSeq)
	return binary.LittleEndian.AppendUint32(b, util.MaskCRC(util.CRC32C(b)))
}

// Install writes the mark to the file tmp and renames that to the CLOSED of dir, durably.
// After an error it tries to remove tmp if it created it.
func (m *CloseMark) Install(fsys vfs.FS, dir, tmp string) error {
	f, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.Write(m.Encode())
	if err == nil {
		err = f.Sync()
	}
	if err = errors.CombineErrors(err, f.Close()); err == nil {
		err = fsys.Rename(tmp, filepath.Join(dir, base.ClosedName))
	}
	if err != nil {
		return errors.CombineErrors(err, fsys.Remove(tmp))
	}
	return fsys.SyncDir(dir)
}

// DropCloseMark removes the mark of a database that is gone from under it, before
// another one is created there, whose files may come to look like those of the
// mark. The sync of the directory that the first log waits for makes it durable.
// In all other cases the new MANIFEST's number makes a mark stale.
func DropCloseMark(fsys vfs.FS, dir string, files []DirFile) error {
	for _, f := range files {
		if f.Kind == base.FileClosed {
			return fsys.Remove(filepath.Join(dir, base.ClosedName))
		}
	}
	return nil
}

// DecodeCloseMark accepts exactly what Encode writes.
func DecodeCloseMark(b []byte) (m CloseMark, err error) {
	if len(b) != CloseMarkSize {
		return m, base.Corruptf("CLOSED", 0, "it is %d bytes long, want %d", len(b), CloseMarkSize)
	}
	body := b[:CloseMarkSize-4]
	if got, want := util.Fixed32(b[len(body):]), util.MaskCRC(util.CRC32C(body)); got != want {
		return m, base.Corruptf("CLOSED", int64(len(body)), "its checksum is %#08x, want %#08x", got, want)
	}
	if magic := body[:len(closeMarkMagic)]; string(magic) != closeMarkMagic {
		return m, base.Corruptf("CLOSED", 0, "it begins with %x, want %q", magic, closeMarkMagic)
	}
	files := body[len(closeMarkMagic):]
	rest := files[2*fileMarkSize:]
	return CloseMark{
		Log: decodeFileMark(files), Manifest: decodeFileMark(files[fileMarkSize:]),
		Begin: util.Fixed32(rest), LastSeq: binary.LittleEndian.Uint64(rest[4:]),
	}, nil
}

func decodeFileMark(b []byte) FileMark {
	return FileMark{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint32(b[16:])}
}

// MarkFile returns the mark of a file of dir as it is.
func MarkFile(fsys vfs.FS, dir string, kind base.FileKind, num uint64) (FileMark, error) {
	return markBegin(fsys, dir, kind, num, math.MaxInt64)
}

// markBegin is MarkFile for the first size bytes of the file, or all of a shorter one.
func markBegin(fsys vfs.FS, dir string, kind base.FileKind, num uint64, size int64) (FileMark, error) {
	f, err := fsys.Open(filepath.Join(dir, base.FileName(kind, num)))
	if err != nil {
		return FileMark{}, err
	}
	defer f.Close()
	whole, err := f.Size()
	if err != nil {
		return FileMark{}, err
	}
	size = min(size, whole)
	end, err := readEnd(f, size, markedBytes)
	return FileMark{num, uint64(size), util.MaskCRC(util.CRC32C(end))}, err
}

// readEnd returns the last bytes of a file of that size, at most n of them.
func readEnd(f vfs.File, size, n int64) ([]byte, error) {
	end := make([]byte, min(size, n))
	_, err := vfs.ReadFull(f, end, size-int64(len(end)))
	return end, err
}

// FindCloseMark returns what CLOSED says of the directory as it is; nil if it says
// nothing about it: there is none, it is damaged, or another program has written since.
// doubt is not empty if a MANIFEST that is in force now may not be the right one. logs are
// the files that may be logs. The error is the corruption of a MANIFEST or CURRENT that
// CLOSED contradicts.
func FindCloseMark(fsys vfs.FS, dir string, logger *slog.Logger, files []DirFile, state State) (mark *CloseMark, doubt string, err error) {
	found, why, err := readCloseMark(fsys, dir, files)
	if found == nil || err != nil {
		if why != "" {
			logger.Warn("CLOSED is damaged and says nothing about this database; the end of the log may be a crash's", "why", why)
			doubt = "CLOSED is damaged"
		}
		return nil, doubt, err
	}
	stale, err := found.compareManifest(fsys, dir, state)
	if err != nil {
		return nil, "", err
	}
	if stale == "" && found.Log.Num < state.LogNum {
		stale = "its log is not needed"
	}
	for _, f := range files {
		if f.Kind == base.FileLog && (f.Num > found.Log.Num && f.Size > 0 || f.Num == found.Log.Num && uint64(f.Size) > found.Log.Size) {
			stale = "a log has grown since"
		}
	}
	if stale != "" {
		logger.Info("CLOSED says nothing about this database; the end of the log may be a crash's", "why", stale)
		return nil, "", nil
	}
	return found, "", nil
}

// readCloseMark reads CLOSED. The mark is nil if there is none, or if it does not
// decode; then why says so.
func readCloseMark(fsys vfs.FS, dir string, files []DirFile) (mark *CloseMark, why string, err error) {
	size := int64(-1)
	for _, f := range files {
		if f.Kind == base.FileClosed {
			size = f.Size
		}
	}
	if size < 0 {
		return nil, "", nil
	}
	f, err := fsys.Open(filepath.Join(dir, base.ClosedName))
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	b, err := readEnd(f, size, CloseMarkSize+1)
	if err != nil {
		return nil, "", err
	}
	m, err := DecodeCloseMark(b)
	if err != nil {
		return nil, err.Error(), nil
	}
	return &m, "", nil
}

// compareManifest compares the MANIFEST in force with the mark. It returns why the mark is
// stale, "" if it is not, and the corruption of a MANIFEST that was closed with more in it,
// or of a CURRENT that names an older one.
func (m *CloseMark) compareManifest(fsys vfs.FS, dir string, state State) (stale string, err error) {
	marked := base.FileName(base.FileManifest, m.Manifest.Num)
	now, err := markBegin(fsys, dir, base.FileManifest, m.Manifest.Num, int64(min(m.Manifest.Size, math.MaxInt64)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if marked != state.ManifestName {
		// goleveldb's RecoverFile gives its MANIFEST a number above those of the tables, and leaves ours.
		if _, num, ok := base.ParseFileName(state.ManifestName); err == nil && ok && state.Ours && num < m.Manifest.Num && now == m.Manifest {
			return "", base.InFile(base.Corruptf("CURRENT", 0, "it names %s, but the database was closed with %s, which is there: "+
				"Repair goes by that one", state.ManifestName, marked), filepath.Join(dir, base.CurrentName), 0)
		}
		return "another MANIFEST is in force", nil
	}
	switch {
	case err != nil:
		return "", err
	case util.MaskCRC(state.BegunSum) != m.Begin:
		return "the MANIFEST is another database's", nil
	case now == m.Manifest && state.Size > int64(now.Size):
		return "the MANIFEST has grown since", nil
	case now == m.Manifest:
		return "", nil
	}
	fault := base.Corruptf("MANIFEST", state.Tail.Offset, "its edits end here, and its %d bytes are not the %d that it had when the database was closed: "+
		"edits are lost; restore the file from a copy, or have Repair rebuild it from the tables", state.Size, m.Manifest.Size)
	return "", base.InFile(fault, filepath.Join(dir, marked), -1)
}

// Missing returns the corruption where the log, which held something, is gone.
func (m *CloseMark) Missing(dir string, files []DirFile) error {
	if m.Log.Size == 0 {
		return nil
	}
	for _, f := range files {
		if f.Kind == base.FileLog && f.Num == m.Log.Num {
			return nil
		}
	}
	err := base.Corruptf("log", -1, "the file is missing; it had %d bytes when the database was closed", m.Log.Size)
	return base.InFile(err, filepath.Join(dir, base.FileName(base.FileLog, m.Log.Num)), -1)
}

// Check compares the log, whose records are all good, with the mark. It returns
// the corruption where the file ends too early, between two records, or where its
// end is another one.
func (m *CloseMark) Check(file vfs.File, size int64) error {
	if uint64(size) < m.Log.Size {
		return base.Corruptf("log", size, "the file ends here; it had %d bytes when the database was closed", m.Log.Size)
	}
	end, err := readEnd(file, size, markedBytes)
	if err != nil {
		return err
	}
	if sum := util.MaskCRC(util.CRC32C(end)); sum != m.Log.sum {
		return base.Corruptf("log", size-int64(len(end)), "checksum of its last %d bytes is %#08x, want %#08x, as when the database was closed", len(end), sum, m.Log.sum)
	}
	return nil
}
