package manifest

import (
	"bytes"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

var errNotExist = fs.ErrNotExist

// maxCurrentSize is greater than the size of any name with its newline.
const maxCurrentSize = 64

// readCurrent returns the MANIFEST's name in CURRENT. CURRENT is "MANIFEST-", decimal digits and a newline, nothing
// else. For a file that a power cut left empty, doubled or torn, the error says what it contains.
func readCurrent(fsys vfs.FS, dir string) (string, error) {
	path := filepath.Join(dir, base.CurrentName)
	f, err := fsys.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return "", err
	}
	if size > maxCurrentSize {
		return "", base.InFile(base.Corruptf("CURRENT", 0, "%d bytes, want one MANIFEST name and a newline", size), path, 0)
	}
	b := make([]byte, size)
	if _, err := vfs.ReadFull(f, b, 0); err != nil {
		return "", base.InFile(err, path, 0)
	}
	name, err := parseCurrent(b)
	return name, base.InFile(err, path, 0)
}

// ParseCurrent returns the name of the MANIFEST in the content of CURRENT.
func ParseCurrent(b []byte) (string, error) { return parseCurrent(b) }

func parseCurrent(b []byte) (string, error) {
	if len(b) == 0 {
		return "", base.Corruptf("CURRENT", 0,
			"the file is empty, want one MANIFEST name and a newline; Repair can rebuild it")
	}
	const asWritten = "want MANIFEST-, a number and one newline, without a carriage return; " +
		"if the rest is right, only its line ends were changed: write the file again with that one line"
	if bytes.HasSuffix(b, []byte("\r\n")) {
		return "", base.Corruptf("CURRENT", int64(len(b)-2),
			"the line ends with CRLF, as an editor or a transfer in text mode writes it; "+asWritten)
	}
	if b[len(b)-1] != '\n' {
		return "", base.Corruptf("CURRENT", int64(len(b)), "the line ends without a newline; "+asWritten)
	}
	name := string(b[:len(b)-1])
	kind, _, ok := base.ParseFileName(name)
	if !ok || kind != base.FileManifest || name == "MANIFEST-" {
		return "", base.Corruptf("CURRENT", 0, "the name is %q, want MANIFEST- and a number", name)
	}
	return name, nil
}

// writeCurrent makes CURRENT name MANIFEST num. It syncs a temporary file, renames it to CURRENT, and
// syncs the directory, so that a crash leaves the old name or the new one. The effect of a failure
// from the renaming on is uncertain.
func writeCurrent(fsys vfs.FS, dir string, num uint64) error {
	tmp := filepath.Join(dir, base.FileName(base.FileTemp, num))
	f, err := vfs.Replace(fsys, tmp)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(base.FileName(base.FileManifest, num) + "\n"))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = fsys.Remove(tmp)
		return err
	}
	if err := fsys.Rename(tmp, filepath.Join(dir, base.CurrentName)); err != nil {
		_ = fsys.Remove(tmp)
		return uncertain(err)
	}
	if err := fsys.SyncDir(dir); err != nil {
		return uncertain(err)
	}
	return nil
}
