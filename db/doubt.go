package db

import (
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/vfs"
)

// manifestDoubt returns why the MANIFEST that was read may lack edits that were in force;
// "" if nothing suggests that. mark and markDoubt are those of findCloseMark, missingLog is the
// name of a log that it needs and that is not there, or "".
func manifestDoubt(fsys vfs.FS, dir string, files dirFiles, state manifest.State, mark *closeMark, markDoubt, missingLog string) (string, error) {
	switch {
	case !files.hasCurrent:
		return "", nil
	case state.Tail.Dropped > 0:
		return "its last edit is cut off", nil
	case state.Tail.Offset < state.Size:
		return "zeros follow its last edit", nil
	case missingLog != "":
		return missingLog + ", which it needs, is missing", nil
	case mark != nil:
		return "", nil
	case markDoubt != "":
		return markDoubt, nil
	case !state.Ours:
		return "another program wrote it", nil
	}
	_, inForce, _ := base.ParseFileName(state.ManifestName)
	for _, f := range files.all {
		// One with more than its snapshot was in force, except LevelDB's, which
		// has two edits before CURRENT names it.
		if f.kind != base.FileManifest || f.num <= inForce {
			continue
		}
		name := base.FileName(f.kind, f.num)
		several, err := manifest.HasSeveralEdits(fsys, filepath.Join(dir, name), f.size)
		if several || err != nil {
			return "CURRENT names it, but " + name + " seems to be newer", err
		}
	}
	return "", nil
}
