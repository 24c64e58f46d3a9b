package manifest

import (
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// Doubt returns why the MANIFEST that was read may lack edits that were in force;
// "" if nothing suggests that. mark and markDoubt are those of FindCloseMark, missingLog is the
// name of a log that it needs and that is not there, or "".
func Doubt(fsys vfs.FS, dir string, files DirFiles, state State, mark *CloseMark, markDoubt, missingLog string) (string, error) {
	switch {
	case !files.HasCurrent:
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
	for _, f := range files.All {
		// One with more than its snapshot was in force, except LevelDB's, which
		// has two edits before CURRENT names it.
		if f.Kind != base.FileManifest || f.Num <= inForce {
			continue
		}
		name := base.FileName(f.Kind, f.Num)
		several, err := HasSeveralEdits(fsys, filepath.Join(dir, name), f.Size)
		if several || err != nil {
			return "CURRENT names it, but " + name + " seems to be newer", err
		}
	}
	return "", nil
}
