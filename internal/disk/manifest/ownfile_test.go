package manifest

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// oddFS shows a file as odd file systems do.
type oddFS struct {
	vfs.FS
	show func(fs.FileInfo, error) (fs.FileInfo, error)
}

func (o *oddFS) Lstat(name string) (fs.FileInfo, error) { return o.show(o.FS.Lstat(name)) }

// What says nothing about a file must not end the writes of a sound store.
func TestAFileThatCannotBeIdentifiedIsNotGone(t *testing.T) {
	mem := vfs.NewMem()
	f := result.Of(mem.Create("f"))(t)
	require.NoError(t, f.Close())
	asIs := func(i fs.FileInfo, err error) (fs.FileInfo, error) { return i, err }
	hidden := func(i fs.FileInfo, err error) (fs.FileInfo, error) { return struct{ fs.FileInfo }{i}, err }
	missing := func(fs.FileInfo, error) (fs.FileInfo, error) { return nil, fs.ErrNotExist }
	for name, c := range map[string][2]func(fs.FileInfo, error) (fs.FileInfo, error){
		"never identified": {hidden, hidden}, "identified once": {asIs, hidden},
		"later": {hidden, asIs}, "locks without files": {missing, missing},
	} {
		t.Run(name, func(t *testing.T) {
			odd := &oddFS{mem, c[0]}
			own := NewOwnFile(odd, "f")
			odd.show = c[1]
			require.NoError(t, own.Verify(0))
		})
	}
}
