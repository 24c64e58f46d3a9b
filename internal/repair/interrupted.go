package repair

import (
	"encoding/json"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/vfs"
)

// interruptedName is a file in lost/ while a repair that gives something up changes the directory. A repair that
// follows an interrupted one finds a MANIFEST that is complete, so it could not know what the first one gave up.
const interruptedName = "REPAIRING"

// maxInterrupted bounds the size of the file, in bytes.
const maxInterrupted = 4 << 10

// interrupted is the content of the file, as JSON. It has no keys.
type interrupted struct {
	Manifest               string // that the repair writes
	EntriesLost, BytesLost uint64
	MayResurrect           bool
}

// decodeInterrupted reads the file. A file that makes no sense is ignored: it only adds to a report.
func decodeInterrupted(b []byte) (i interrupted, ok bool) {
	if len(b) > maxInterrupted || json.Unmarshal(b, &i) != nil {
		return interrupted{}, false
	}
	kind, _, ok := base.ParseFileName(i.Manifest)
	return i, ok && kind == base.FileManifest
}

func (r *Repairer) interruptedPath() string {
	return filepath.Join(r.path(manifest.LostDir), interruptedName)
}

// addInterrupted adds to the report what an interrupted repair gave up, if this one uses its MANIFEST, which CURRENT
// does not name yet.
func (r *Repairer) addInterrupted() error {
	there, err := vfs.PlainDir(r.fs, r.path(manifest.LostDir))
	if !there || err != nil || r.manifest.inForce {
		return err
	}
	info, err := r.fs.Lstat(r.interruptedPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxInterrupted {
		return err
	}
	f, err := r.fs.Open(r.interruptedPath())
	if err != nil {
		return err
	}
	b := make([]byte, info.Size())
	_, err = vfs.ReadFull(f, b, 0)
	if err = errors.CombineErrors(err, f.Close()); err != nil {
		return err
	}
	if i, ok := decodeInterrupted(b); ok && i.Manifest == r.manifest.name {
		rep := r.report
		rep.Interrupted = true
		rep.EntriesLost += i.EntriesLost
		rep.BytesLost += i.BytesLost
		rep.MayResurrect = rep.MayResurrect || i.MayResurrect
	}
	return nil
}

// begin notes in lost/ what the repair gives up, before its MANIFEST is there. It removes a note of an earlier repair.
func (r *Repairer) begin(manifestName string) error {
	lost := r.path(manifest.LostDir)
	if !r.report.Public(r.dir).Incomplete {
		return r.end()
	}
	if err := vfs.MkdirPlain(r.fs, lost); err != nil {
		return err
	}
	rep := r.report
	b, err := json.Marshal(interrupted{manifestName, rep.EntriesLost, rep.BytesLost, rep.MayResurrect})
	if err != nil {
		return err
	}
	f, err := vfs.Replace(r.fs, r.interruptedPath())
	if err != nil {
		return err
	}
	if _, err = f.Write(append(b, '\n')); err == nil {
		err = f.Sync()
	}
	if err = errors.CombineErrors(err, f.Close()); err == nil {
		err = r.fs.SyncDir(lost)
	}
	if err == nil {
		err = r.fs.SyncDir(r.dir)
	}
	return err
}

// end removes the note, and lost/ if nothing else is in it. A note that stays does no harm, for it names a MANIFEST that
// CURRENT names.
func (r *Repairer) end() error {
	err := r.fs.Remove(r.interruptedPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_ = r.fs.Remove(r.path(manifest.LostDir)) // it fails if files were moved there
	}
	return err
}
