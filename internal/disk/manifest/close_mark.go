package manifest

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// CloseMark is the content of the file CLOSED, which Close writes: the newest log and the MANIFEST
// when the last write was done. While both files are unchanged, there was no crash that could have
// truncated the log, so any fault in it is damage, even in its last record.
//
//	offset  size  meaning
//	0       8     magic, "sieveCLS"
//	8       20    the newest log; zeros if it had failed: see LogFailed
//	28      20    the MANIFEST in force
//	48      4     masked CRC-32C of the MANIFEST's first record
//	52      8     the last sequence number of all that was written, fixed64
//	60      4     masked CRC-32C of bytes 0 to 59
//
// and each of the two files is
//
//	0       8     number, fixed64
//	8       8     length in bytes, fixed64
//	16      4     masked CRC-32C of its last 32 KiB, or of all of it
//
// The MANIFEST shows whether the mark is stale. LevelDB and goleveldb leave CLOSED alone, but every program that writes
// to a database starts its own MANIFEST, appends an edit to the current one, or appends records to the log. So the mark
// is stale if the current MANIFEST has another number or is longer, or if the log is longer. Zeros do not count: no
// program writes them to a log, and a power cut can show space that was reserved.
//
// If the MANIFEST has the same number, is not longer, and differs, it either lost its end or belongs to another
// database: LevelDB's destruction leaves CLOSED, and a new database in the same directory begins with the same numbers.
// The first record decides. If that record is damaged, the MANIFEST cannot be read at all.
type CloseMark struct {
	Log, Manifest FileMark
	Begin         uint32 // masked checksum of the MANIFEST's first record
	LastSeq       uint64
}

// FileMark identifies a file, and detects a change of its end.
type FileMark struct {
	Num, Size uint64
	sum       uint32
}

// These constants reach the disk and never change.
const (
	closeMarkMagic = "sieveCLS"
	CloseMarkSize  = 64
	// maxCloseMarkSize bounds the marks of later versions.
	maxCloseMarkSize = 4 << 10
	fileMarkSize     = 20
	// markedBytes is the number of bytes at the end of a file that the mark's checksum covers: one block of the log,
	// which is one read. The bytes before have their own checksums, and intact chunks after them.
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

// LogFailed reports whether Close could not make the writes up to LastSeq durable: the newest log had failed, its
// number in the mark is 0, and nothing is known about the files.
func (m *CloseMark) LogFailed() bool { return m.Log.Num == 0 }

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

// DropCloseMark removes the mark of a deleted database before another one is created in the
// directory, because the new files may come to match the mark. The directory sync before the first
// log makes the removal durable. In all other cases the new MANIFEST's number makes a mark stale.
func DropCloseMark(fsys vfs.FS, dir string, files []DirFile) error {
	for _, f := range files {
		if f.Kind == base.FileClosed {
			return fsys.Remove(filepath.Join(dir, base.ClosedName))
		}
	}
	return nil
}

// newerCloseMark returns the error for a mark of a later version, or nil. Its magic begins like that
// of this version, and it ends with the checksum of all before.
func newerCloseMark(b []byte) error {
	family, end := closeMarkMagic[:len(closeMarkMagic)-1], len(b)-4
	if end < len(closeMarkMagic) || !bytes.HasPrefix(b, []byte(family)) || b[len(family)] == closeMarkMagic[len(family)] ||
		util.Fixed32(b[end:]) != util.MaskCRC(util.CRC32C(b[:end])) {
		return nil
	}
	return base.Newerf("CLOSED", 0, "the magic is %q; the known one is %q", b[:len(closeMarkMagic)], closeMarkMagic)
}

// DecodeCloseMark decodes a mark. It accepts only the bytes that Encode returns. The error for a mark
// of a later version is a base.NewerError.
func DecodeCloseMark(b []byte) (m CloseMark, err error) {
	if err := newerCloseMark(b); err != nil {
		return m, err
	}
	if len(b) != CloseMarkSize {
		return m, base.Corruptf("CLOSED", 0, "%d bytes, want %d", len(b), CloseMarkSize)
	}
	body := b[:CloseMarkSize-4]
	if got, want := util.Fixed32(b[len(body):]), util.MaskCRC(util.CRC32C(body)); got != want {
		return m, base.Corruptf("CLOSED", int64(len(body)), "the stored checksum is %#08x, want %#08x", got, want)
	}
	if magic := body[:len(closeMarkMagic)]; string(magic) != closeMarkMagic {
		return m, base.Corruptf("CLOSED", 0, "the magic is %x, want %q", magic, closeMarkMagic)
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

// MarkFile returns the mark of a file in dir.
func MarkFile(fsys vfs.FS, dir string, kind base.FileKind, num uint64) (FileMark, error) {
	return markBegin(fsys, dir, kind, num, math.MaxInt64)
}

// markBegin is MarkFile for the first size bytes of the file, or for all of a shorter one.
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

// readEnd returns the last n bytes of a file with the given size, or all of a shorter one.
func readEnd(f vfs.File, size, n int64) ([]byte, error) {
	end := make([]byte, min(size, n))
	_, err := vfs.ReadFull(f, end, size-int64(len(end)))
	return end, err
}

// FindCloseMark returns the mark in CLOSED, or nil if it does not apply to the directory: there is none, it is damaged,
// or another program has written since. doubt is not empty if the current MANIFEST may not be the right one. logs are
// the files that may be logs. The error is the corruption of a MANIFEST or CURRENT that contradicts CLOSED.
func FindCloseMark(
	fsys vfs.FS, dir string, logger *slog.Logger, files []DirFile, state State,
) (mark *CloseMark, doubt string, err error) {
	found, why, err := readCloseMark(fsys, dir, files)
	if found == nil || err != nil {
		if why != "" {
			logger.Warn("CLOSED is damaged and is ignored; the end of the log may be due to a crash", "why", why)
			doubt = "CLOSED is damaged"
		}
		return nil, doubt, err
	}
	stale, err := found.compareManifest(fsys, dir, state)
	if err != nil {
		return nil, "", err
	}
	if stale == "" && found.LogFailed() {
		return found, "", nil
	}
	if stale == "" && found.Log.Num < state.LogNum {
		stale = "its log is not needed any more"
	}
	for _, f := range files {
		if f.Kind != base.FileLog || f.Num < found.Log.Num || stale != "" {
			continue
		}
		from := uint64(0)
		if f.Num == found.Log.Num {
			from = found.Log.Size
		}
		blank, err := IsBlankLog(fsys, dir, f, int64(min(from, math.MaxInt64)))
		if err != nil {
			return nil, "", err
		}
		if !blank {
			stale = "a log has grown since then"
		}
	}
	if stale != "" {
		logger.Info("CLOSED is stale and is ignored; the end of the log may be due to a crash", "why", stale)
		return nil, "", nil
	}
	return found, "", nil
}

// readCloseMark reads CLOSED. The mark is nil if there is none, or if it does not decode; in that
// case why is the reason.
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
	b, err := readEnd(f, size, maxCloseMarkSize+1)
	if err != nil {
		return nil, "", err
	}
	m, err := DecodeCloseMark(b)
	if errors.Is(err, base.ErrNewer) {
		return nil, "", base.InFile(err, filepath.Join(dir, base.ClosedName), -1)
	}
	if err != nil {
		return nil, err.Error(), nil
	}
	return &m, "", nil
}

// compareManifest compares the current MANIFEST with the mark. It returns why the mark is stale, or
// "" if it is not. The error is the corruption of a MANIFEST that had more edits when it was closed,
// or of a CURRENT that names an older MANIFEST.
func (m *CloseMark) compareManifest(fsys vfs.FS, dir string, state State) (stale string, err error) {
	marked := base.FileName(base.FileManifest, m.Manifest.Num)
	now, err := markBegin(fsys, dir, base.FileManifest, m.Manifest.Num, int64(min(m.Manifest.Size, math.MaxInt64)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if marked != state.ManifestName {
		// goleveldb's RecoverFile numbers its MANIFEST above the tables, and leaves ours.
		_, num, ok := base.ParseFileName(state.ManifestName)
		if err == nil && ok && state.Ours && num < m.Manifest.Num && now == m.Manifest {
			return "", base.InFile(base.Corruptf("CURRENT", 0, "it names %s, but the database was closed "+
				"with %s, which exists: run Repair, which uses that one", state.ManifestName, marked), filepath.Join(dir, base.CurrentName), 0)
		}
		return "another MANIFEST is current", nil
	}
	switch {
	case err != nil:
		return "", err
	case util.MaskCRC(state.FirstRecordSum) != m.Begin:
		return "the MANIFEST belongs to another database", nil
	case now == m.Manifest && state.Size > int64(now.Size):
		return "the MANIFEST has grown since then", nil
	case now == m.Manifest:
		return "", nil
	}
	fault := base.Corruptf("MANIFEST", state.Tail.Offset, "the edits end here; the file has %d bytes, but had %d "+
		"when the database was closed: edits are lost; restore the file from a copy, "+
		"or run Repair to rebuild it from the tables", state.Size, m.Manifest.Size)
	return "", base.InFile(fault, filepath.Join(dir, marked), -1)
}

// Clip returns the size of a log without the zeros after those bytes that it had when the database was closed. A later
// log had none.
func (m *CloseMark) Clip(log DirFile) int64 {
	switch {
	case log.Num == m.Log.Num:
		return min(log.Size, int64(min(m.Log.Size, math.MaxInt64)))
	case log.Num > m.Log.Num:
		return 0
	}
	return log.Size
}

// Missing returns the corruption for a missing log that was not empty.
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

// Check compares the log, whose records are all intact, with the mark. It returns the corruption if
// the file ends too early, between two records, or if its last bytes differ.
func (m *CloseMark) Check(file vfs.File, size int64) error {
	if uint64(size) < m.Log.Size {
		return base.Corruptf("log", size, "the file ends here; it had %d bytes when the database was closed", m.Log.Size)
	}
	end, err := readEnd(file, size, markedBytes)
	if err != nil {
		return err
	}
	if sum := util.MaskCRC(util.CRC32C(end)); sum != m.Log.sum {
		return base.Corruptf("log", size-int64(len(end)),
			"the checksum of the last %d bytes is %#08x, want %#08x, as when the database was closed", len(end), sum, m.Log.sum)
	}
	return nil
}
