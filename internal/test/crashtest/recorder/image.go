package recorder

import (
	"path/filepath"

	"github.com/sievedb/sievedb/vfs"
)

// Image has the directories and files of a disk. The bytes of files are shared and must not be
// changed. The parents of a path precede it.
type Image struct {
	Dirs  []string
	Files []ImageFile
}

// ImageFile is a file of an Image.
type ImageFile struct {
	Path string
	Data []byte
}

// Mem returns a file system with the content of the image, all of it durable, as after a restart of the machine.
func (m Image) Mem() *vfs.Mem {
	mem := vfs.NewMem()
	parents := map[string]bool{".": true}
	for _, d := range m.Dirs {
		must(mem.MkdirAll(d))
		parents[d], parents[filepath.Dir(d)] = true, true
	}
	for _, f := range m.Files {
		parents[filepath.Dir(f.Path)] = true
		file, err := mem.Create(f.Path)
		must(err)
		_, err = file.Write(f.Data)
		must(err)
		must(file.Sync())
		must(file.Close())
	}
	for d := range parents {
		must(mem.SyncDir(d))
	}
	return mem
}

func must(err error) {
	if err != nil {
		panic("recorder: a file system in memory failed: " + err.Error())
	}
}
