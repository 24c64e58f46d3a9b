package follow

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// FuzzRefresh follows a database whose MANIFEST and log are any bytes, in two parts: the second is there
// at the second Refresh. Refresh may fail, but must not panic, and must not go back.
func FuzzRefresh(f *testing.F) {
	snapshot := manifest.Edit{
		Comparer: base.Bytewise.Name, LogNum: manifest.Num(3), PrevLogNum: manifest.Num(0), NextFileNum: manifest.Num(9), LastSeq: manifest.Num(0),
	}
	key := base.AppendInternalKey(nil, []byte("k"), 3, base.KindSet)
	added := manifest.Edit{LogNum: manifest.Num(3), LastSeq: manifest.Num(3), Added: []manifest.LevelFile{{Level: 1, File: manifest.NewFileMeta(5, 5, key, key)}}}
	edits := fixture.Log(f, snapshot.Encode(nil), added.Encode(nil))
	log := fixture.Log(f, recordOf(1, 2), recordOf(4), recordOf(5, 6))
	f.Add(edits, log, uint16(len(edits)), uint16(len(log)))
	f.Add(edits, log, uint16(60), uint16(30))
	f.Add(edits[:60], log, uint16(60), uint16(0))
	f.Fuzz(func(t *testing.T, edits, log []byte, firstEdits, firstLog uint16) {
		defer damage.Watch("a follower")()
		mem := vfs.NewMem()
		d := database{t: t, fs: mem}
		if err := mem.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		d.create(base.FileName(base.FileTable, 5))
		write := func(name string, content []byte) vfs.File {
			file, err := mem.Create(filepath.Join(dir, name))
			if err == nil {
				_, err = file.Write(content)
			}
			if err != nil {
				t.Fatal(err)
			}
			return file
		}
		write(base.CurrentName, []byte("MANIFEST-000002\n"))
		manifestFile := write("MANIFEST-000002", edits[:min(len(edits), int(firstEdits))])
		logFile := write("000003.log", log[:min(len(log), int(firstLog))])
		follower := d.newFollower(mem)
		follower.patience = 1
		seq := uint64(0)
		for range 2 {
			_ = follower.Refresh(context.Background(), func(v View) {
				if v.Seq < seq {
					t.Fatalf("it goes back from %d to %d", seq, v.Seq)
				}
				seq = v.Seq
			})
			_, _ = follower.Lag()
			_, _ = manifestFile.Write(edits[min(len(edits), int(firstEdits)):])
			_, _ = logFile.Write(log[min(len(log), int(firstLog)):])
		}
		if err := follower.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
