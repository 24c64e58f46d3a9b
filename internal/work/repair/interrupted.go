package repair

import (
	"encoding/json"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/vfs"
)

// interruptedName is a file in lost/ while a repair that gives something up changes the directory. A repair that
// follows an interrupted one finds a MANIFEST that is complete, so it could not know what the first one gave up.
const interruptedName = "REPAIRING"

// maxInterrupted bounds the size of the file, in bytes.
const maxInterrupted = 4 << 10

// interrupted says what a repair gives up. It has no keys. The file has an array of them as JSON: that of the repair
// that is running and, before it, that of the interrupted repair whose MANIFEST it uses. If it is interrupted too,
// before its own MANIFEST is complete, the next one uses that MANIFEST again.
type interrupted struct {
	Manifest               string // that the repair writes
	EntriesLost, BytesLost uint64
	MayResurrect           bool
}

// decodeInterrupted reads the file, and returns what the repair gave up that wrote the MANIFEST of that name. A file
// that makes no sense is ignored: it only adds to a report.
func decodeInterrupted(b []byte, manifestName string) (i interrupted, ok bool) {
	var all []interrupted
	if len(b) > maxInterrupted || json.Unmarshal(b, &all) != nil {
		return interrupted{}, false
	}
	for _, i := range all {
		if kind, _, ok := base.ParseFileName(i.Manifest); ok && kind == base.FileManifest && i.Manifest == manifestName {
			return i, true
		}
	}
	return interrupted{}, false
}

func (r *Repairer) interruptedPath() string {
	return filepath.Join(r.path(manifest.LostDir), interruptedName)
}

// newInterruptedPath is the name of the note until it is complete.
func (r *Repairer) newInterruptedPath() string { return r.interruptedPath() + ".new" }

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
	if i, ok := decodeInterrupted(b, r.manifest.name); ok {
		rep := r.report
		r.before = append(r.before, i)
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
	r.noted = true
	rep := r.report
	b, err := json.Marshal(append(r.before, interrupted{manifestName, rep.EntriesLost, rep.BytesLost, rep.MayResurrect}))
	if err != nil {
		return err
	}
	f, err := vfs.Replace(r.fs, r.newInterruptedPath())
	if err != nil {
		return err
	}
	if _, err = f.Write(append(b, '\n')); err == nil {
		err = f.Sync()
	}
	if err = errors.CombineErrors(err, f.Close()); err == nil {
		err = r.fs.Rename(r.newInterruptedPath(), r.interruptedPath())
	}
	if err == nil {
		err = r.fs.SyncDir(lost)
	}
	if err == nil {
		err = r.fs.SyncDir(r.dir)
	}
	return err
}

// end removes the note, and lost/ if nothing else is in it. A note that stays does no harm, for it names a MANIFEST
// that CURRENT names.
func (r *Repairer) end() error {
	removed := false
	for _, name := range []string{r.newInterruptedPath(), r.interruptedPath()} {
		err := r.fs.Remove(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removed = removed || err == nil
	}
	if removed {
		_ = r.fs.Remove(r.path(manifest.LostDir)) // it fails if files were moved there
	}
	return nil
}
