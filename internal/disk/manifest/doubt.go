package manifest

import (
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// IncompleteReason returns why the MANIFEST that was read may lack edits, or "" if nothing suggests that. mark and
// markDoubt are the results of FindCloseMark. missingLog is the name of a log that is needed but missing, or "".
func IncompleteReason(
	fsys vfs.FS, dir string, files DirFiles, state State, mark *CloseMark, markDoubt, missingLog string,
) (string, error) {
	switch {
	case !files.HasCurrent:
		return "", nil
	case state.Tail.Dropped > 0:
		return "the last edit is truncated", nil
	case state.Tail.Offset < state.Size:
		return "zeros follow the last edit", nil
	case missingLog != "":
		return missingLog + ", which is needed, is missing", nil
	case mark != nil:
		return "", nil
	case markDoubt != "":
		return markDoubt, nil
	case !state.Ours:
		return "another program wrote it", nil
	}
	_, inForce, _ := base.ParseFileName(state.ManifestName)
	for _, f := range files.All {
		// A newer MANIFEST with more than its snapshot was current, except for LevelDB's,
		// which has two edits before CURRENT names it.
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
